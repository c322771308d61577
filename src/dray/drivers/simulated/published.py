"""A simulated driver of any name: devices as somebody published them, told to containers by variables alone.

What a real driver would do with them is not known. A container finds a variable for each device that it was given:
SIMULATED_DEVICE_GPU_0=gpu.example.com/pool/gpu-0.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from dray.driver import (
    AllocatedDevice,
    Claim,
    ClaimFailed,
    Config,
    ContainerEdits,
    Driver,
    Pool,
    Prepared,
    PreparedDevice,
    variables,
)
from dray.drivers.devices import compute_domain, gpu, gpu_configs, nic
from dray.drivers.nic.config import NetworkConfig

# Configuration of drivers that are known is checked as they would.
_CONFIGS: Final[Mapping[str, Sequence[type[Config]]]] = {
    gpu.DRIVER: gpu_configs.CONFIGS,
    compute_domain.DRIVER: compute_domain.CONFIGS,
    nic.DRIVER: (NetworkConfig,),
}


class SimulatedDevices(Driver):
    """Made by `simulated_devices`, since the name of a driver is that of its class."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._names = {device.name for device in pool.all_devices()}

    async def pools(self) -> Sequence[Pool]:
        return [self._pool]

    async def prepare(self, claim: Claim) -> Prepared:
        return Prepared([PreparedDevice(device, self._edits(device)) for device in claim.devices])

    def _edits(self, allocated: AllocatedDevice) -> ContainerEdits:
        if allocated.device not in self._names:
            raise ClaimFailed(f"there is no device {allocated.device} on this machine; it may have been replaced")
        name = re.sub(r"[^A-Z0-9]", "_", allocated.device.upper())
        value = f"{self.name}/{allocated.pool}/{allocated.device}"
        return ContainerEdits(env=variables({f"SIMULATED_DEVICE_{name}": value}))


def simulated_devices(name: str, pool: Pool) -> SimulatedDevices:
    members = {"name": name, "configs": _CONFIGS.get(name, ())}
    made: type[SimulatedDevices] = type("PublishedDevices", (SimulatedDevices,), members)
    return made(pool)
