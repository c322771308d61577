"""The devices of `compute-domain.nvidia.com`: a channel into the NVLink domain of a machine, and its daemon."""

from __future__ import annotations

from typing import Final

from dray.driver.devices import Device
from dray.drivers.devices import names

DRIVER: Final = names.COMPUTE_DOMAIN


def devices() -> list[Device]:
    return [Device(f"{kind}-0", {"type": kind, "id": 0}) for kind in ("channel", "daemon")]
