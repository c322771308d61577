"""The simulated `tpu.google.com`: claims get what the real driver gives, apart from device files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

from dray.driver import Claim, ContainerEdits, Driver, Pool, Prepared, PreparedDevice, variables
from dray.drivers.devices.tpu import DRIVER, TpuHost, TpuMode
from dray.drivers.devices.tpu_pools import pools_of
from dray.drivers.tpu.claims import claimed_chips, told


class SimulatedTpus(Driver):
    name = DRIVER

    def __init__(self, found: Callable[[str], tuple[TpuHost, TpuMode]]) -> None:
        """`found` gives what the machine with that node name has."""
        self._found = found

    @cached_property
    def _machine(self) -> tuple[TpuHost, TpuMode]:
        return self._found(self.context.node_name)

    async def pools(self) -> Sequence[Pool]:
        return pools_of(*self._machine)

    async def prepare(self, claim: Claim) -> Prepared:
        host, mode = self._machine
        chips = claimed_chips(host, mode, claim.devices)
        edits = ContainerEdits(env=variables(told(host, chips, claim.uid)))
        return Prepared([PreparedDevice(chip, edits) for chip in chips])
