"""The devices of `compute-domain.nvidia.com`: a channel into the NVLink domain of a machine, and its daemon.

Fleets have them. Nothing here makes channels of real hardware: the objects of kind ComputeDomain, and the IMEX daemons
behind them, are those of NVIDIA's own driver.
"""

from __future__ import annotations

from typing import ClassVar, Final, Literal

import msgspec

from dray.driver import Config
from dray.driver.devices import Device
from dray.drivers.devices import names

DRIVER: Final = names.COMPUTE_DOMAIN


class ComputeDomainDaemonConfig(Config, frozen=True, kw_only=True):
    """`domain_id` is the uid of the ComputeDomain."""

    api_version: ClassVar[str] = "resource.nvidia.com/v1beta1"
    domain_id: str = msgspec.field(name="domainID")

    def validate(self) -> None:
        if not self.domain_id:
            raise ValueError("domainID must not be empty: give the uid of the ComputeDomain")


class ComputeDomainChannelConfig(ComputeDomainDaemonConfig, frozen=True, kw_only=True):
    allocation_mode: Literal["Single", "All"] = "Single"


CONFIGS: Final = (ComputeDomainChannelConfig, ComputeDomainDaemonConfig)


def devices() -> list[Device]:
    return [Device(f"{kind}-0", {"type": kind, "id": 0}) for kind in ("channel", "daemon")]
