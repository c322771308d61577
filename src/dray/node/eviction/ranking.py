"""Order in which pods are evicted, as a kubelet's: those that use more than they asked for, then by priority, then by
how much more they use. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from dray.api import pod_requests
from dray.api.objects import Object, spec_of
from dray.api.pods import HASH_ANNOTATION
from dray.api.quantity import Format, Quantity
from dray.node.eviction.thresholds import DISK, INODES, PIDS, RESOURCES, Observation, Threshold

# From here on a pod is part of the system.
CRITICAL_PRIORITY = 2_000_000_000


@dataclass(frozen=True, slots=True)
class PodConsumption:
    """What a pod uses: bytes of memory by container, and of disk."""

    pod: Object
    memory: Mapping[str, int] = field(default_factory=dict)
    disk: int = 0

    def used(self, signal: str) -> int:
        return self.disk if signal in (DISK, INODES) else sum(self.memory.values())

    def asked(self, signal: str) -> int:
        return pod_requests.requests(spec_of(self.pod)).get(RESOURCES[signal], 0)


def is_critical(pod: Object) -> bool:
    """Static pods and those of the system are not evicted."""
    annotations = pod["metadata"].get("annotations") or {}
    return HASH_ANNOTATION in annotations or (spec_of(pod).get("priority") or 0) >= CRITICAL_PRIORITY


def ranked(pods: Iterable[PodConsumption], signal: str) -> list[PodConsumption]:
    """The first goes first."""

    def place(each: PodConsumption) -> tuple[bool, int, int]:
        priority = int(spec_of(each.pod).get("priority") or 0)
        if signal == PIDS:
            return False, priority, 0
        over = each.used(signal) - each.asked(signal)
        return over <= 0, priority, -over

    return sorted((each for each in pods if not is_critical(each.pod)), key=place)


def message(threshold: Threshold, seen: Observation, who: PodConsumption) -> str:
    """What the pod's status and the event say."""
    resource = RESOURCES[threshold.signal]
    least, left = amount(threshold.least(seen.capacity)), amount(seen.available)
    said = f"The node was low on resource: {resource}. Threshold quantity: {least}, available: {left}. "
    for container in spec_of(who.pod).get("containers") or ():
        used = who.memory.get(container["name"], 0)
        asked = pod_requests.amounts(pod_requests.container_requests(container)).get(resource, 0)
        if resource == "memory" and used > asked:
            said += (
                f"Container {container['name']} was using {amount(used)}, request is {amount(asked)}, "
                f"has larger consumption of {resource}. "
            )
    return said


def amount(value: int) -> str:
    """In binary units where it is a whole number of them."""
    return str(Quantity(value, 0, Format.BINARY_SI))
