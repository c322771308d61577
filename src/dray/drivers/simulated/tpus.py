"""The simulated `tpu.google.com`: a claim takes all chips of the machine, and is told their topology."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

from dray.driver import Claim, ClaimFailed, ContainerEdits, Driver, Pool, Prepared, PreparedDevice, variables
from dray.drivers.devices.tpu import DRIVER, TpuHost, environment


class SimulatedTpus(Driver):
    name = DRIVER

    def __init__(self, found: Callable[[str], tuple[Pool, TpuHost]]) -> None:
        """`found` gives what the machine with that node name has."""
        self._found = found

    @cached_property
    def _machine(self) -> tuple[Pool, TpuHost]:
        return self._found(self.context.node_name)

    async def pools(self) -> Sequence[Pool]:
        return [self._machine[0]]

    async def prepare(self, claim: Claim) -> Prepared:
        host = self._machine[1]
        names = {each.device for each in claim.devices}
        if len(names) != host.chips:
            raise ClaimFailed(
                f"the claim has {len(names)} of {host.chips} chips: a TPU claim takes all chips of a machine; "
                "write allocationMode: All"
            )
        chips = {f"TPU_DEVICE_{number}_RESOURCE_CLAIM": claim.uid for number in range(host.chips)}
        edits = ContainerEdits(env=variables({**environment(host), **chips}))
        return Prepared([PreparedDevice(each, edits) for each in claim.devices])
