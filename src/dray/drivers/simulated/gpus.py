"""The simulated `gpu.nvidia.com`: GPUs and MIG partitions, with an `nvidia-smi` that shows what a container has.

Each device puts a variable into the container; `nvidia-smi`, a shell script mounted by CDI, lists the variables. So it
shows the devices of that container alone, however claims and requests are spread over containers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import ClassVar, Final
from uuid import NAMESPACE_OID, uuid5

from dray.api.quantity import Quantity
from dray.driver import (
    AllocatedDevice,
    Capacity,
    Claim,
    ClaimFailed,
    Config,
    ContainerEdits,
    Device,
    Driver,
    Mount,
    Pool,
    Prepared,
    PreparedDevice,
    variables,
)
from dray.driver.files import replace_file
from dray.drivers.devices.gpu import DRIVER, Gpu
from dray.drivers.devices.gpu_configs import GpuConfig, MigDeviceConfig

_SCRIPT: Final = Path(__file__).parent / "nvidia-smi.sh"
# Every image and shell looks for programs there; few files stand there beside which it is mounted.
_NVIDIA_SMI: Final = "/usr/local/bin/nvidia-smi"
_MPS: Final = "/tmp/nvidia-mps"


class SimulatedGpus(Driver):
    name = DRIVER
    configs: ClassVar[Sequence[type[Config]]] = (GpuConfig, MigDeviceConfig)
    cdi_kind = "k8s.gpu.nvidia.com/claim"

    def __init__(self, found: Callable[[str], tuple[Pool, Sequence[Gpu]]]) -> None:
        """`found` gives what the machine with that node name has."""
        self._found = found

    @cached_property
    def _machine(self) -> tuple[Pool, Sequence[Gpu]]:
        return self._found(self.context.node_name)

    @cached_property
    def _devices(self) -> dict[str, Device]:
        return {device.name: device for device in self._machine[0].all_devices()}

    @cached_property
    def _gpus(self) -> dict[str, Gpu]:
        return {gpu.uuid: gpu for gpu in self._machine[1]}

    async def start(self) -> None:
        replace_file(self.context.directory / "nvidia-smi", _SCRIPT.read_bytes(), mode=0o755)

    async def pools(self) -> Sequence[Pool]:
        return [self._machine[0]]

    async def prepare(self, claim: Claim) -> Prepared:
        return Prepared([PreparedDevice(each, self._edits(claim, each)) for each in claim.devices])

    def _edits(self, claim: Claim, allocated: AllocatedDevice) -> ContainerEdits:
        device = self._devices.get(allocated.device)
        if device is None:
            raise ClaimFailed(f"there is no device {allocated.device} on this machine; it may have been replaced")
        is_partition = device.attributes["type"] == "mig"
        config = allocated.config(MigDeviceConfig if is_partition else GpuConfig)
        environment = {
            "NVIDIA_VISIBLE_DEVICES": "void",
            _variable(self._gpu(device), device): self._description(claim, allocated, device),
        }
        if config is not None and config.sharing is not None and config.sharing.strategy == "MPS":
            environment["CUDA_MPS_PIPE_DIRECTORY"] = _MPS
        script = str(self.context.directory / "nvidia-smi")
        mount = Mount(script, _NVIDIA_SMI, ("ro", "nosuid", "nodev", "bind"))
        return ContainerEdits(env=variables(environment), mounts=(mount,))

    def _gpu(self, device: Device) -> Gpu:
        uuid = device.attributes.get("uuid") or device.attributes["parentUUID"]
        return self._gpus[str(uuid)]

    def _description(self, claim: Claim, allocated: AllocatedDevice, device: Device) -> str:
        """What the script reads: index, product, UUID, MiB, bus, profile, partition, driver, MiB of the whole GPU."""
        gpu = self._gpu(device)
        profile = str(device.attributes.get("profile") or "")
        partition = f"MIG-{uuid5(NAMESPACE_OID, f'{claim.uid}/{allocated.device}')}" if profile else ""
        memory = device.capacity["memory"]
        whole = Quantity.parse(str(memory.value if isinstance(memory, Capacity) else memory))
        share = Quantity.parse(allocated.consumed_capacity.get("memory") or "0")
        size = (share if share.sign() else whole).value() // 2**20
        fields = (gpu.minor, gpu.model.product_name, gpu.uuid, size, gpu.pci_bus_id, profile, partition)
        board = Quantity.parse(gpu.model.memory).value() // 2**20
        return "|".join(map(str, (*fields, gpu.driver_version, board)))


def _variable(gpu: Gpu, device: Device) -> str:
    """Sorted by name they are in the order of the GPUs."""
    return f"SIMULATED_GPU_{gpu.minor:03}_{device.name.replace('-', '_')}"
