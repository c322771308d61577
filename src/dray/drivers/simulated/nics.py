"""The simulated `dra.net`: interfaces that are told of in the status of a claim, and moved nowhere.

Configuration is taken and refused by the rules of the real driver; the status says what that would have set.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import ClassVar

from dray.api.resource_claims import reserved_for
from dray.driver import (
    AllocatedDevice,
    Claim,
    ClaimFailed,
    Config,
    DeviceStatus,
    Driver,
    Pool,
    Prepared,
    PreparedDevice,
)
from dray.drivers.devices.nic import DRIVER, Nic
from dray.drivers.nic.attachment import Attachment, InPod
from dray.drivers.nic.config import NetworkConfig
from dray.drivers.nic.statuses import status_of
from dray.drivers.nic.wanted import check_names, check_users, config_of


class SimulatedNics(Driver):
    name = DRIVER
    configs: ClassVar[Sequence[type[Config]]] = (NetworkConfig,)

    def __init__(self, found: Callable[[str], tuple[Pool, Sequence[Nic]]]) -> None:
        """`found` gives what the machine with that node name has."""
        self._found = found

    @cached_property
    def _machine(self) -> tuple[Pool, Sequence[Nic]]:
        return self._found(self.context.node_name)

    async def pools(self) -> Sequence[Pool]:
        return [self._machine[0]]

    async def prepare(self, claim: Claim) -> Prepared:
        check_users(reserved_for(claim.document))
        check_names(claim.devices)
        return Prepared([PreparedDevice(device, status=self._status(claim, device)) for device in claim.devices])

    def _status(self, claim: Claim, allocated: AllocatedDevice) -> DeviceStatus | None:
        nic = next((each for each in self._machine[1] if each.name == allocated.device), None)
        if nic is None:
            raise ClaimFailed(f"there is no interface {allocated.device} on this machine")
        config = config_of(allocated)
        if not nic.interface and not config.is_empty:
            raise ClaimFailed(f"device {nic.name}: it has no interface, and the claim has a configuration for one")
        if allocated.admin_access:
            return None
        return status_of(self._attached(claim, allocated, nic, config))

    def _attached(self, claim: Claim, allocated: AllocatedDevice, nic: Nic, config: NetworkConfig) -> Attachment:
        """Returns the attachment as it would be after the real driver has moved the interface."""
        wanted = config.interface
        return Attachment(
            device=allocated.device,
            pool=allocated.pool,
            request=allocated.request,
            claim_namespace=claim.reference.namespace,
            claim_name=claim.reference.name,
            claim_uid=claim.uid,
            owner="",
            boot_id="",
            host_network=0,
            nic=nic,
            config=config,
            phase="attached",
            in_pod=InPod(
                interface=wanted.name or nic.interface,
                addresses=wanted.addresses,
                mac=wanted.hardware_addr or nic.mac,
            ),
        )
