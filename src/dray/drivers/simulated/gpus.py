"""The simulated `gpu.nvidia.com`: GPUs and MIG partitions, with an `nvidia-smi` that shows what a container has.

Each device puts a variable into the container; `nvidia-smi`, a shell script mounted by CDI, lists the variables. So it
shows the devices of that container alone, however claims and requests are spread over containers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import ClassVar, Final
from uuid import NAMESPACE_OID, uuid5

from dray.api.quantity import Quantity
from dray.driver import (
    Capacity,
    Claim,
    Config,
    ContainerEdits,
    Device,
    DeviceUtilization,
    Driver,
    Mount,
    Pool,
    Prepared,
    PreparedDevice,
    variables,
)
from dray.driver.files import replace_file
from dray.drivers.devices.gpu import DRIVER, Gpu
from dray.drivers.devices.gpu_configs import CONFIGS, MpsConfig
from dray.drivers.devices.visible_devices import visible_devices
from dray.drivers.gpu.claim_state import recorded_states
from dray.drivers.gpu.discovery import Found, FoundGpu, possible_partitions
from dray.drivers.gpu.machine_changes import check_agreement
from dray.drivers.gpu.options import GpuOptions
from dray.drivers.gpu.planning import planned_state
from dray.drivers.gpu.sharing import Wanted, wanted_devices
from dray.drivers.simulated.utilization import ClaimRule

_SCRIPT: Final = Path(__file__).parent / "nvidia-smi.sh"
# Every image and shell looks for programs there; few files stand there beside which it is mounted.
_NVIDIA_SMI: Final = "/usr/local/bin/nvidia-smi"
_MPS: Final = "/tmp/nvidia-mps"
_OPTIONS: Final = GpuOptions()


class SimulatedGpus(Driver):
    name = DRIVER
    configs: ClassVar[Sequence[type[Config]]] = CONFIGS
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
    def _hardware(self) -> Found:
        """Returns the simulated hardware in the form in which the real driver discovers it."""
        return Found([self._found_gpu(gpu) for gpu in self._machine[1]])

    def _found_gpu(self, gpu: Gpu) -> FoundGpu:
        partitions = {name: each for name, each in possible_partitions(gpu).items() if name in self._devices}
        return FoundGpu(gpu, bool(partitions), bool(partitions), partitions)

    async def start(self) -> None:
        replace_file(self.context.directory / "nvidia-smi", _SCRIPT.read_bytes(), mode=0o755)

    async def pools(self) -> Sequence[Pool]:
        return [self._machine[0]]

    async def prepare(self, claim: Claim) -> Prepared:
        """Prepares a claim by the rules of the real driver, including its refusals of conflicting configurations."""
        wanted = wanted_devices(claim.devices, self._hardware, _OPTIONS)
        state = planned_state(claim.uid, wanted, _OPTIONS)
        records = await asyncio.to_thread(self.context.recorded_claims)
        check_agreement(state, recorded_states(records.claims, but=claim.uid))
        prepared = [
            PreparedDevice(
                device.allocated, self._edits(claim, device), annotations=visible_devices(_uuid(claim, device))
            )
            for device in wanted
        ]
        return Prepared(prepared, state.document())

    async def utilization(self) -> Sequence[DeviceUtilization]:
        """Follows the rule of `ClaimRule`. Claims that share a device add up their memory."""
        records = await asyncio.to_thread(self.context.recorded_claims)
        busy: dict[str, float] = {}
        memory: dict[str, float] = {}
        for claim in records.claims:
            ratio = await self._rule.ratio(claim.reference)
            for allocated in claim.devices:
                if allocated.admin_access or allocated.device not in self._devices:
                    continue
                share = Quantity.parse(allocated.consumed_capacity.get("memory") or "0").value()
                size = share or _memory(self._devices[allocated.device])
                busy[allocated.device] = max(busy.get(allocated.device, 0.0), ratio)
                memory[allocated.device] = memory.get(allocated.device, 0.0) + ratio * size
        self._rule.forget_others({claim.reference.uid for claim in records.claims})
        pool = self._machine[0].name
        return [
            DeviceUtilization(pool, name, busy.get(name, 0.0), round(min(memory.get(name, 0.0), _memory(device))))
            for name, device in self._devices.items()
            if name in busy or not device.consumes_counters
        ]

    @cached_property
    def _rule(self) -> ClaimRule:
        return ClaimRule(self.context.client)

    def _edits(self, claim: Claim, wanted: Wanted) -> ContainerEdits:
        device = self._devices[wanted.allocated.device]
        environment = {
            "NVIDIA_VISIBLE_DEVICES": "void",
            _variable(wanted.found.gpu, device): self._description(claim, wanted, device),
        }
        if wanted.sharing is not None and wanted.sharing.strategy == "MPS":
            environment["CUDA_MPS_PIPE_DIRECTORY"] = _MPS
        script = str(self.context.directory / "nvidia-smi")
        mount = Mount(script, _NVIDIA_SMI, ("ro", "nosuid", "nodev", "bind"))
        return ContainerEdits(env=variables(environment), mounts=(mount,))

    def _description(self, claim: Claim, wanted: Wanted, device: Device) -> str:
        """Returns one line for the nvidia-smi script: index, product, UUID, MiB, bus, profile, partition, driver, MiB
        of the
        whole GPU, compute mode, time-slice interval, and how it is shared."""
        gpu, allocated = wanted.found.gpu, wanted.allocated
        profile = "" if wanted.partition is None else wanted.partition.profile.profile
        partition = _uuid(claim, wanted) if profile else ""
        share = Quantity.parse(allocated.consumed_capacity.get("memory") or "0")
        size = (share.value() if share.sign() else _memory(device)) // 2**20
        fields = (gpu.minor, gpu.model.product_name, gpu.uuid, size, gpu.pci_bus_id, profile, partition)
        board = Quantity.parse(gpu.model.memory).value() // 2**20
        return "|".join(map(str, (*fields, gpu.driver_version, board, *_shared(wanted))))


def _memory(device: Device) -> int:
    """Returns the memory of a device in bytes."""
    memory = device.capacity["memory"]
    return Quantity.parse(str(memory.value if isinstance(memory, Capacity) else memory)).value()


def _uuid(claim: Claim, wanted: Wanted) -> str:
    """A partition has another UUID for each claim, as one that is made for the claim."""
    if wanted.partition is None:
        return wanted.found.gpu.uuid
    return f"MIG-{uuid5(NAMESPACE_OID, f'{claim.uid}/{wanted.allocated.device}')}"


def _shared(wanted: Wanted) -> tuple[str, str, str]:
    """Compute mode, interval of time slices, and all of it in words."""
    sharing = wanted.sharing
    if sharing is None:
        shares = wanted.allocated.consumed_capacity.get("shares")
        amount = f"{shares} shares" if shares and shares != "1" else "one share" if shares else "a share"
        return "Default", "Default", amount if wanted.allocated.share_id else "-"
    if sharing.strategy == "TimeSlicing":
        return "Default", sharing.interval, f"TimeSlicing {sharing.interval}"
    config = sharing.mps_config or MpsConfig()
    percentage = config.default_active_thread_percentage
    limits = config.pinned_memory_limits([wanted.found.gpu.uuid]) if wanted.partition is None else {}
    words = ["MPS", *([f"{percentage}%"] if percentage is not None else []), *limits.values()]
    return "Exclusive_Process", "Default", " ".join(words)


def _variable(gpu: Gpu, device: Device) -> str:
    """Sorted by name they are in the order of the GPUs."""
    return f"SIMULATED_GPU_{gpu.minor:03}_{device.name.replace('-', '_')}"
