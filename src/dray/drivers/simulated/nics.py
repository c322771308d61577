"""The simulated `dra.net`: interfaces that are told of in the status of a claim, and moved nowhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

from dray.driver import (
    AllocatedDevice,
    Claim,
    ClaimFailed,
    DeviceStatus,
    Driver,
    NetworkData,
    Pool,
    Prepared,
    PreparedDevice,
)
from dray.drivers.devices.nic import DRIVER, Nic


class SimulatedNics(Driver):
    name = DRIVER

    def __init__(self, found: Callable[[str], tuple[Pool, Sequence[Nic]]]) -> None:
        """`found` gives what the machine with that node name has."""
        self._found = found

    @cached_property
    def _machine(self) -> tuple[Pool, Sequence[Nic]]:
        return self._found(self.context.node_name)

    async def pools(self) -> Sequence[Pool]:
        return [self._machine[0]]

    async def prepare(self, claim: Claim) -> Prepared:
        return Prepared([PreparedDevice(each, status=self._status(each)) for each in claim.devices])

    def _status(self, allocated: AllocatedDevice) -> DeviceStatus:
        nic = next((each for each in self._machine[1] if each.name == allocated.device), None)
        if nic is None:
            raise ClaimFailed(f"there is no interface {allocated.device} on this machine")
        if not nic.interface:
            return DeviceStatus()
        return DeviceStatus(network=NetworkData(nic.interface, hardware_address=nic.mac))
