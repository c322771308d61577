"""Devices with a NoExecute taint in their slice, kept current slice by slice.

Only the newest generation of a pool counts. A slice without such a taint costs a look at its devices and a count.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from dray.allocation.devices import DeviceID
from dray.allocation.slices import PoolKey
from dray.api.objects import Object
from dray.controllers.device_taints.rules import NO_EXECUTE

Taints = tuple[tuple[int, Object], ...]
"""The NoExecute taints of a device, each with its place among all its taints."""


@dataclass(slots=True)
class _Pool:
    slices: dict[str, int] = field(default_factory=dict)
    """Generation by slice name."""
    generations: dict[int, int] = field(default_factory=dict)
    """Number of slices by generation."""
    tainted: dict[str, dict[str, Taints]] = field(default_factory=dict)
    """Taints by slice name and device name; slices without taints are left out."""

    def put(self, name: str, generation: int, tainted: dict[str, Taints]) -> None:
        self.slices[name] = generation
        self.generations[generation] = self.generations.get(generation, 0) + 1
        if tainted:
            self.tainted[name] = tainted

    def remove(self, name: str) -> None:
        generation = self.slices.pop(name, None)
        if generation is None:
            return
        self.tainted.pop(name, None)
        self.generations[generation] -= 1
        if not self.generations[generation]:
            del self.generations[generation]

    def current(self) -> dict[str, Taints]:
        if not self.tainted:
            return {}
        newest = max(self.generations)
        found: dict[str, Taints] = {}
        for name, devices in self.tainted.items():
            if self.slices[name] == newest:
                for device, taints in devices.items():
                    found[device] = found.get(device, ()) + taints
        return found


class TaintedDevices:
    def __init__(self) -> None:
        self._pools: dict[PoolKey, _Pool] = {}
        self._current: dict[PoolKey, dict[str, Taints]] = {}
        """Taints by pool and device, for pools that have some."""

    def __bool__(self) -> bool:
        return bool(self._current)

    def taints(self, device: DeviceID) -> Taints:
        pool = self._current.get(device[:2])
        return pool.get(device[2], ()) if pool else ()

    def put(self, document: Object) -> list[DeviceID]:
        """A slice was published, or published anew; gives the devices whose taints changed.

        Driver and pool name of a slice cannot be changed by the API.
        """
        spec = document["spec"]
        key = (spec["driver"], spec["pool"]["name"])
        pool = self._pools.setdefault(key, _Pool())
        pool.remove(document["metadata"]["name"])
        pool.put(document["metadata"]["name"], spec["pool"].get("generation") or 0, _tainted(spec))
        return self._settle(key, pool)

    def remove(self, document: Object) -> list[DeviceID]:
        spec = document["spec"]
        key = (spec["driver"], spec["pool"]["name"])
        pool = self._pools.get(key)
        if pool is None:
            return []
        pool.remove(document["metadata"]["name"])
        if not pool.slices:
            del self._pools[key]
        return self._settle(key, pool)

    def _settle(self, key: PoolKey, pool: _Pool) -> list[DeviceID]:
        before, after = self._current.pop(key, {}), pool.current()
        if after:
            self._current[key] = after
        return [(*key, device) for device in {**before, **after} if before.get(device) != after.get(device)]


def _tainted(spec: Object) -> dict[str, Taints]:
    found = {}
    for device in spec.get("devices") or ():
        if "taints" in device:
            entries = enumerate(device["taints"] or ())
            taints = tuple((index, taint) for index, taint in entries if taint.get("effect") == NO_EXECUTE)
            if taints:
                found[device["name"]] = taints
    return found
