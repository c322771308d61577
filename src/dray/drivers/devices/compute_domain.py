"""The devices of `compute-domain.nvidia.com`: a channel into the NVLink domain of a machine, and its daemon."""

from __future__ import annotations

from typing import Final

from dray.driver.devices import Device

DRIVER: Final = "compute-domain.nvidia.com"
_IS: Final = f"device.driver == '{DRIVER}' && device.attributes['{DRIVER}']"
CLASSES: Final = {
    "compute-domain-daemon.nvidia.com": f"{_IS}.type == 'daemon'",
    "compute-domain-default-channel.nvidia.com": f"{_IS}.type == 'channel' && device.attributes['{DRIVER}'].id == 0",
}


def devices() -> list[Device]:
    return [Device(f"{kind}-0", {"type": kind, "id": 0}) for kind in ("channel", "daemon")]
