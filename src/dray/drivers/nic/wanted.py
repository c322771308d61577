"""What a claim wants of its interfaces, by itself: whoever simulates them needs no netlink."""

from __future__ import annotations

from collections.abc import Sequence

from dray.api.objects import Object
from dray.driver import AllocatedDevice, ClaimFailed
from dray.drivers.nic.config import NetworkConfig


def config_of(device: AllocatedDevice) -> NetworkConfig:
    return device.config(NetworkConfig) or NetworkConfig()


def check_names(devices: Sequence[AllocatedDevice]) -> None:
    """Raises ClaimFailed where two interfaces of a claim would get one name in the pod."""
    names = [config_of(device).interface.name for device in devices if not device.admin_access]
    for name in names:
        if name and names.count(name) > 1:
            raise ClaimFailed(
                f"interface.name {name} is for {names.count(name)} devices of the claim: "
                "give each request a config of its own, with another name"
            )


def check_users(users: Sequence[Object]) -> None:
    """Raises ClaimFailed where the claim is for more than one pod."""
    if len(users) > 1 or any(user.get("resource") != "pods" for user in users):
        raise ClaimFailed(f"an interface is in one pod at a time, and the claim is for {len(users)} users")
