"""Meter: what of a cluster is allocated, fragmented and powered, kept up to date with every allocation.

Only devices of the counted drivers are measured. A physical device (see `device_units`) is in use while any claim holds
a part of it. Fragmented is what is free on devices in use: no task that needs a whole device can have it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from dray.api.objects import Object, key_of, spec_of, status_of
from dray.api.quantity import Quantity
from dray.replay.device_units import WHOLE, DeviceName, PublishedDevice
from dray.scheduling.cluster.cpu_watts import Processor, processor_beside
from dray.scheduling.cluster.gpu_watts import watts_of


class Meter:
    def __init__(
        self, devices: Mapping[DeviceName, PublishedDevice], nodes: Iterable[Object], drivers: Collection[str]
    ):
        self._devices = {name: device for name, device in devices.items() if name[0] in drivers}
        self._models = {device.physical: device.model for device in self._devices.values()}
        self.units = WHOLE * len(self._models)
        """The units of all physical devices."""
        self.allocated = 0
        self._used: Counter[DeviceName] = Counter()
        self._holders: Counter[DeviceName] = Counter()
        self.gpu_watts = sum(watts_of(model)[0] for model in self._models.values())
        self._cpus = _Cpus(nodes, {device.node: device.model for device in self._devices.values()})

    @property
    def whole_free(self) -> int:
        """The number of physical devices of which nothing is in use."""
        return len(self._models) - len(self._holders)

    @property
    def fragmented(self) -> float:
        """The part of the free units that is on devices in use."""
        free = self.units - self.allocated
        return max(0.0, 1 - WHOLE * self.whole_free / free) if free > 0 else 0.0

    @property
    def watts(self) -> int:
        return self.gpu_watts + self._cpus.watts

    def use(self, results: Sequence[Object]) -> None:
        self._count(results, 1)

    def release(self, results: Sequence[Object]) -> None:
        self._count(results, -1)

    def use_cpu(self, node: str, milli: int) -> None:
        """Requests of a pod that was placed on the node; negative once it is gone."""
        self._cpus.use(node, milli)

    def units_of(self, results: Iterable[Object]) -> int:
        return sum(units for _, units in self._taken(results))

    def _taken(self, results: Iterable[Object]) -> Iterable[tuple[DeviceName, int]]:
        for result in results:
            device = self._devices.get((result["driver"], result["pool"], result["device"]))
            if device is not None and not result.get("adminAccess"):
                yield device.physical, device.taken(result.get("consumedCapacity"))

    def _count(self, results: Sequence[Object], sign: int) -> None:
        for physical, units in self._taken(results):
            self.allocated += sign * units
            before = self._holders[physical]
            self._holders[physical] += sign
            if not before or not self._holders[physical]:
                idle, used = watts_of(self._models[physical])
                self.gpu_watts += sign * (used - idle)
            if not self._holders[physical]:
                del self._holders[physical]


class _Cpus:
    def __init__(self, nodes: Iterable[Object], models: Mapping[str, str]) -> None:
        self._processors: dict[str, tuple[Processor, int]] = {}
        self._requested: Counter[str] = Counter()
        self.watts = 0
        for node in nodes:
            name = key_of(node)[1]
            capacity = cpu_milli(status_of(node).get("allocatable") or {})
            processor = processor_beside(models.get(name, ""))
            self._processors[name] = processor, capacity
            self.watts += processor.watts(capacity, 0)

    def use(self, node: str, milli: int) -> None:
        found = self._processors.get(node)
        if found is None or not milli:
            return
        processor, capacity = found
        self.watts -= processor.watts(capacity, self._requested[node])
        self._requested[node] += milli
        self.watts += processor.watts(capacity, self._requested[node])


def cpu_milli(amounts: Mapping[str, object]) -> int:
    return Quantity.parse(str(amounts.get("cpu", "0"))).nanos // 10**6


def cpu_of(pod: Object) -> int:
    """The cpu that the containers of a pod request, in thousandths."""
    return sum(
        cpu_milli((container.get("resources") or {}).get("requests") or {})
        for container in spec_of(pod).get("containers") or ()
    )
