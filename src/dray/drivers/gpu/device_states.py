"""The state of each device that is offered: its taints in slices, and its health in the status of pods.

It is put together from what `health` knows of the GPU, what `clean_ups` has still to undo, and whether `recovery` has
looked for partitions of nobody.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dray.driver import Device, DeviceHealth, Health, Taint
from dray.drivers.gpu.clean_ups import CLEAN_UP, CleanUps
from dray.drivers.gpu.discovery import Found, FoundGpu
from dray.drivers.gpu.health import HealthMonitor
from dray.drivers.gpu.recovery import Recovery


class DeviceStates:
    def __init__(self, monitor: HealthMonitor, clean_ups: CleanUps, recovery: Recovery) -> None:
        self._monitor = monitor
        self._clean_ups = clean_ups
        self._recovery = recovery

    def taints(self, found: Found) -> dict[str, tuple[Taint, ...]]:
        """Returns the taints of all offered devices, by device name."""
        return {device: self._taints(gpu, device) for gpu, device in _offered(found)}

    def tainted(self, devices: Sequence[Device], found: Found) -> list[Device]:
        taints = self.taints(found)
        return [replace(device, taints=taints[device.name]) for device in devices]

    def reports(self, pool: str, found: Found) -> list[DeviceHealth]:
        return [self._report(pool, gpu, device) for gpu, device in _offered(found)]

    def _taints(self, gpu: FoundGpu, device: str) -> tuple[Taint, ...]:
        of_gpu = self._monitor.taints(gpu.gpu.uuid, device)
        if not self._recovery.is_listed(gpu):
            return (*of_gpu, Taint(CLEAN_UP, "partition"))
        return (*of_gpu, *self._clean_ups.taints(gpu, device, is_informing=self._monitor.is_informing))

    def _report(self, pool: str, gpu: FoundGpu, device: str) -> DeviceHealth:
        report = self._monitor.report(pool, gpu.gpu.uuid, device)
        pending = self._clean_ups.told(gpu, device)
        if not pending:
            return report
        messages = [*([report.message] if report.message else []), *pending]
        return replace(report, health=Health.UNHEALTHY, message=", ".join(messages))


def _offered(found: Found) -> list[tuple[FoundGpu, str]]:
    """Returns each offered device: its GPU and its name."""
    return [
        (gpu, name)
        for gpu in found.gpus
        for name in (*([gpu.gpu.name] if gpu.is_offered_whole else []), *gpu.partitions)
    ]
