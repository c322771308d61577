"""Discovery: the GPUs of this machine, their partitions, and why a GPU is left out.

Facts come from NVML, the place on the PCIe tree from sysfs. In the dynamic mode a GPU that can be cut is offered with
all its possible partitions; an Ampere GPU only while its MIG mode is on, and then without the whole, because
switching the mode would need a reset. Otherwise a GPU in MIG mode is offered as the partitions that somebody made. A
GPU that cannot be used is left out with the reason, and does not keep the others from being offered. A GPU that was
found before, and whose facts cannot be read any more, is offered as it was: `faults` has the reason for its taint.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import msgspec

from dray.driver import ClaimFailed
from dray.driver.devices import Device, Pool
from dray.drivers.devices import gpu as whole_gpus
from dray.drivers.devices import mig
from dray.drivers.devices.attributes import binary_amount
from dray.drivers.devices.gpu import Gpu, GpuModel
from dray.drivers.devices.gpu_pool import gpu_pool
from dray.drivers.devices.mig_profiles import MigProfile
from dray.drivers.gpu import nvml_mig
from dray.drivers.gpu.binding import pynvml
from dray.drivers.gpu.compute_sizes import compute_sizes
from dray.drivers.gpu.device_files import DeviceFiles
from dray.drivers.gpu.known_answers import Ask, KnownAnswers
from dray.drivers.gpu.nvml import DeviceFacts, facts, uuid_of
from dray.drivers.gpu.nvml_calls import CALLS, NvmlError
from dray.drivers.gpu.nvml_session import Handle, Nvml
from dray.drivers.gpu.options import GpuOptions
from dray.drivers.pci import pci_functions, read_function

_VENDOR: Final = "0x10de"
# Display controllers: VGA, and 3D without a screen.
_GPU_CLASSES: Final = ("0x0300", "0x0302")


@dataclass(frozen=True, slots=True)
class Partition:
    """A MIG partition that exists or may be made: `uuid` is empty for the latter."""

    profile: MigProfile
    start: int
    uuid: str = ""


@dataclass(frozen=True, slots=True)
class FoundGpu:
    """`is_cut` if its partitions are made for claims; `partitions` are those that are offered, by device name."""

    gpu: Gpu
    mig_mode: bool | None = None
    is_cut: bool = False
    partitions: dict[str, Partition] = field(default_factory=dict)

    @property
    def is_offered_whole(self) -> bool:
        if self.is_cut:
            return not self.gpu.model.keeps_mig_mode
        return not self.mig_mode


@dataclass(frozen=True, slots=True)
class Found:
    gpus: Sequence[FoundGpu] = ()
    left_out: Sequence[str] = ()
    """One line for each GPU, with the reason."""
    faults: Mapping[str, NvmlError] = field(default_factory=dict, compare=False)
    """Why the facts of a GPU cannot be read, which are those of an earlier discovery; by UUID."""

    def with_lost(self, lost: Sequence[FoundGpu]) -> Found:
        """Adds GPUs that do not answer. Keeps one GPU for each name and UUID: after a card was replaced, or after a
        reload of the kernel driver, a GPU may have the minor number of one that is lost."""
        kept: dict[str, FoundGpu] = {}
        left_out = list(self.left_out)
        uuids: dict[str, str] = {}
        answering = sorted(self.gpus, key=lambda each: each.gpu.uuid in self.faults)
        for gpu in (*answering, *lost):
            name, uuid = gpu.gpu.name, gpu.gpu.uuid
            if uuid in uuids:
                left_out.append(f"{name}: it states UUID {uuid}, as {uuids[uuid]} does")
            elif name in kept:
                left_out.append(f"{name} ({uuid}): its minor number belongs to GPU {kept[name].gpu.uuid} now")
            else:
                kept[name], uuids[uuid] = gpu, name
        return replace(self, gpus=sorted(kept.values(), key=lambda each: each.gpu.minor), left_out=left_out)

    def pool(self, name: str, options: GpuOptions) -> Pool:
        uncut = [device for found in self.gpus if not found.is_cut for device in _devices(found)]
        return gpu_pool(name, uncut, [found.gpu for found in self.gpus if found.is_cut], options.sharing)

    def device(self, name: str) -> tuple[FoundGpu, Partition | None] | None:
        """The GPU behind a device, and its partition if it is one; None where there is no such device."""
        for gpu in self.gpus:
            if name == gpu.gpu.name and gpu.is_offered_whole:
                return gpu, None
            if name in gpu.partitions:
                return gpu, gpu.partitions[name]
        return None


def _devices(found: FoundGpu) -> list[Device]:
    if not found.mig_mode:
        return [whole_gpus.whole(found.gpu)]
    return [
        mig.existing(found.gpu, partition.profile, partition.start, partition.uuid, name)
        for name, partition in sorted(found.partitions.items())
    ]


def discover(nvml: Nvml, options: GpuOptions, files: DeviceFiles, before: Sequence[FoundGpu] = ()) -> Found:
    """`before` are the GPUs of the last discovery. Raises NvmlError if NVML cannot be used at all."""
    with nvml.opened():
        return _discover(nvml, options, files, {gpu.gpu.uuid: gpu for gpu in before})


def _discover(nvml: Nvml, options: GpuOptions, files: DeviceFiles, before: Mapping[str, FoundGpu]) -> Found:
    found: list[FoundGpu] = []
    left_out: list[str] = []
    faults: dict[str, NvmlError] = {}
    unnamed: dict[str, NvmlError] = {}
    missing = dict(before)
    versions = _version(nvml.driver_version), nvml.cuda_version
    for index in range(nvml.count()):
        named, uuid = f"GPU {index}", ""
        try:
            with CALLS.within(2 * CALLS.seconds):
                handle = nvml.device(index)
                uuid = uuid_of(handle)
                missing.pop(uuid, None)
                stated = facts(handle, uuid, nvml.known.ask(uuid))
                named = f"gpu-{stated.minor} ({', '.join(filter(None, (stated.pci_bus_id, stated.name)))})"
                each = _found(handle, stated, versions, options, nvml.known)
        except NvmlError as error:
            if uuid in before:
                found.append(before[uuid])
                faults[uuid] = error
            elif uuid:
                left_out.append(f"{named}: {error}")
            else:
                unnamed[named] = error
            continue
        reason = _unusable(each, files)
        if reason:
            left_out.append(f"{named}: {reason}")
        else:
            found.append(each)
    if unnamed and missing:
        # Those that are missing are among those that do not tell who they are.
        found += missing.values()
        faults |= dict.fromkeys(missing, next(iter(unnamed.values())))
    else:
        left_out = [*(f"{named}: {error}" for named, error in unnamed.items()), *left_out]
    found.sort(key=lambda each: each.gpu.minor)
    known = {gpu.gpu.pci_bus_id for gpu in found}
    return Found(found, [*left_out, *_not_bound(options.sysfs, known, " ".join(left_out))], faults)


def _gpu(stated: DeviceFacts, profiles: tuple[MigProfile, ...], versions: tuple[str, str], options: GpuOptions) -> Gpu:
    place = read_function(options.sysfs / "bus/pci/devices" / stated.pci_bus_id) if stated.pci_bus_id else None
    node = None if place is None else place.numa_node
    return Gpu(
        minor=stated.minor,
        uuid=stated.uuid,
        model=GpuModel(
            product_name=stated.name,
            memory="" if stated.memory is None else binary_amount(stated.memory),
            architecture=stated.architecture,
            compute_capability=stated.compute_capability,
            brand=stated.brand,
            addressing_mode=stated.addressing_mode,
            mig=profiles,
        ),
        driver_version=versions[0],
        cuda_version=versions[1],
        pci_bus_id=stated.pci_bus_id,
        pcie_root="" if place is None else place.root,
        numa_node=(node,) if node is not None and options.list_attributes else node,
    )


def _found(
    handle: Handle, stated: DeviceFacts, versions: tuple[str, str], options: GpuOptions, known: KnownAnswers
) -> FoundGpu:
    """Raises NvmlError, also if it cannot be told whether the GPU is in MIG mode: its partitions would be hidden."""
    uuid = stated.uuid
    mode = nvml_mig.mig_mode(handle, known.ask(uuid))
    profiles = _profiles(handle, mode, known.ask(uuid, mode))
    gpu = _gpu(stated, profiles, versions, options)
    can_be_cut = mode is not None and bool(profiles) and (mode or not gpu.model.keeps_mig_mode)
    if options.dynamic_mig and can_be_cut and not nvml_mig.is_virtual(handle, known.ask(uuid)):
        return FoundGpu(gpu, mode, True, possible_partitions(gpu))
    if mode is None and profiles and not nvml_mig.is_virtual(handle, known.ask(uuid)):
        code = pynvml.NVML_ERROR_NOT_SUPPORTED
        raise NvmlError(f"MIG mode of GPU {uuid}", code, "it is not told, and the GPU has MIG profiles")
    return FoundGpu(gpu, mode, partitions=_existing(handle, gpu, known) if mode else {})


def _profiles(handle: Handle, mode: bool | None, ask: Ask) -> tuple[MigProfile, ...]:
    try:
        return nvml_mig.profiles(handle, ask)
    except NvmlError as error:
        # A GPU without MIG may refuse the question itself.
        if mode is not None or not error.is_invalid:
            raise
        return ()


def possible_partitions(gpu: Gpu) -> dict[str, Partition]:
    return {
        profile.device_name(gpu.name, start): Partition(profile, start)
        for profile in gpu.model.mig
        for start in profile.starts()
    }


def _existing(handle: Handle, gpu: Gpu, known: KnownAnswers) -> dict[str, Partition]:
    """Partitions that programs can use: compute instances.

    A compute instance that takes a part of its GPU instance only is a device of its own, with a profile such as
    1c.3g.40gb. A GPU instance may have several, so that the name of the device has the number of the compute instance.
    """
    by_id = {profile.id: profile for profile in gpu.model.mig}
    # A profile that was told a moment ago and is not told now is a fault, and not a GPU without partitions.
    ask = known.ask(gpu.uuid, True)
    instances = {instance.id: instance for instance in nvml_mig.instances(handle, ask=ask)}
    sizes = compute_sizes(handle, known)
    found = {}
    for part in nvml_mig.parts(handle):
        instance = instances.get(part.instance_id)
        profile = by_id.get(instance.profile_id) if instance is not None else None
        if instance is None or profile is None:
            continue
        size = sizes.get(part.uuid)
        if size is None or size.is_whole:
            found[profile.device_name(gpu.name, instance.start)] = Partition(profile, instance.start, part.uuid)
        else:
            partial = msgspec.structs.replace(
                profile, profile=f"{size.slices}c.{profile.profile}", multiprocessors=size.multiprocessors
            )
            name = f"{partial.device_name(gpu.name, instance.start)}-{part.compute_id}"
            found[name] = Partition(partial, instance.start, part.uuid)
    return found


def _unusable(found: FoundGpu, files: DeviceFiles) -> str:
    """Why it is not offered; empty for a GPU that is. Makes its device file if that is missing."""
    if found.mig_mode and not found.is_cut and not found.partitions:
        return "its MIG mode is on and it has no partitions: make some, switch the mode off, or set DynamicMIG=true"
    try:
        files.needed(f"nvidia{found.gpu.minor}")
    except ClaimFailed as error:
        return str(error)
    return ""


def _not_bound(sysfs: Path, known: set[str], told: str) -> Iterator[str]:
    """GPUs that the vendor's driver does not have, because another driver has them or none."""
    for function in pci_functions(sysfs, _VENDOR):
        link = sysfs / "bus/pci/devices" / function.address
        if function.address in known or function.address in told or not _is_gpu(link):
            continue
        driver = link / "driver"
        bound = f"is bound to {driver.resolve().name}" if driver.exists() else "is bound to no kernel driver"
        if driver.resolve().name == "nvidia":
            bound = "is not shown by the NVIDIA driver: see its messages in dmesg, and NVreg_ExcludedGpus"
        yield f"{function.address} (device {function.device}): it {bound}"


def _is_gpu(function: Path) -> bool:
    try:
        return (function / "class").read_text().strip()[:6] in _GPU_CLASSES
    except OSError:
        return False


def _version(text: str) -> str:
    """A driver's version as a semantic one, which has three numbers without leading zeros; empty if it is not known."""
    numbers = [str(int(part)) for part in text.split(".") if part.isdecimal()]
    return ".".join([*numbers, "0", "0"][:3]) if numbers else ""
