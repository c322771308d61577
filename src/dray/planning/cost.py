"""Cost: what pods cost an hour, from the prices of the machines they run on.

A pod pays for its share of the machine: of its GPUs or TPUs if it has any of them, and otherwise of cpu or memory,
whichever share is larger. A machine whose type has no price makes the cost unknown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from dray.api.objects import Object, key_of, labels_of, mapping, mappings, spec_of, status_of
from dray.api.pod_requests import amounts, requests
from dray.drivers.devices.names import GPU, TPU
from dray.planning.playing import PlacedPod
from dray.planning.scene import Scene

_TYPE: Final = "node.kubernetes.io/instance-type"
_ACCELERATORS: Final = (GPU, TPU)


@dataclass(frozen=True, slots=True)
class Cost:
    hourly: float = 0.0
    """The sum of what has a price."""
    unpriced: tuple[str, ...] = ()
    """Types of machines without a price, or nodes without a type."""


class Prices:
    def __init__(self, hourly: Mapping[str, float], scene: Scene) -> None:
        """`hourly` are prices by machine type."""
        self._hourly = hourly
        self._scene = scene

    @cached_property
    def _nodes(self) -> dict[str, Object]:
        return {key_of(each)[1]: each for each in self._scene.of("Node")}

    @cached_property
    def _devices(self) -> Counter[tuple[str, str]]:
        """The number of whole devices of each driver and pool."""
        found: Counter[tuple[str, str]] = Counter()
        for each in self._scene.of("ResourceSlice"):
            spec = spec_of(each)
            whole = [device for device in mappings(spec.get("devices")) if "consumesCounters" not in device]
            found[str(spec.get("driver")), str(mapping(spec.get("pool")).get("name"))] += len(whole)
        return found

    def of_pods(self, pods: Sequence[PlacedPod]) -> Cost:
        total, unpriced = 0.0, []
        for pod in pods:
            if not pod.node:
                continue
            type_ = str(labels_of(self._nodes.get(pod.node, {})).get(_TYPE) or f"node {pod.node}")
            if type_ in self._hourly:
                total += self._hourly[type_] * self._share(pod)
            else:
                unpriced.append(type_)
        return Cost(total, tuple(dict.fromkeys(unpriced)))

    def of_machines(self, types: Sequence[str]) -> Cost:
        known = [self._hourly[each] for each in types if each in self._hourly]
        return Cost(sum(known), tuple(dict.fromkeys(each for each in types if each not in self._hourly)))

    def _share(self, pod: PlacedPod) -> float:
        shares = [
            1 / max(1, self._devices.get((result["driver"], result["pool"]), 1))
            for _, result in pod.devices
            if result["driver"] in _ACCELERATORS and not result.get("adminAccess")
        ]
        if shares:
            return min(1.0, sum(shares))
        wanted = requests(spec_of(pod.document))
        there = amounts(status_of(self._nodes.get(pod.node, {})).get("allocatable"))
        return max((wanted.get(name, 0) / there[name] for name in ("cpu", "memory") if there.get(name)), default=0.0)
