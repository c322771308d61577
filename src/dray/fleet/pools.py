"""The pools that the drivers on a machine publish: one for each driver, named after the node."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from dray.api.objects import Object
from dray.drivers.cpu import devices as cpu
from dray.drivers.cpu.options import CpuOptions
from dray.drivers.devices import compute_domain, gpu, mig, nic, tpu
from dray.fleet.machine import Machine

# A slice may have twice as many, but not once one of them is tainted.
_MOST_DEVICES: Final = 64
_MOST_COUNTER_SETS: Final = 8


@dataclass(frozen=True, slots=True)
class SliceContent:
    """Counter sets or devices, not both: an API server refuses the two in one slice."""

    devices: tuple[Object, ...] = ()
    shared_counters: tuple[Object, ...] = ()


Pools = Mapping[str, tuple[SliceContent, ...]]
"""The slices of each driver's pool."""


def pools_of(machine: Machine) -> Pools:
    """By driver."""
    made: dict[str, tuple[SliceContent, ...]] = {
        gpu.DRIVER: tuple(_gpus(machine)),
        nic.DRIVER: _cut(map(nic.device_of, machine.nics)),
        tpu.DRIVER: _cut(tpu.devices_of(machine.tpus) if machine.tpus is not None else ()),
        compute_domain.DRIVER: _cut(compute_domain.devices() if machine.type.compute_domain else ()),
        cpu.DRIVER: _cut(_cpus(machine)),
    }
    for each in machine.type.slices:
        content = SliceContent(each.devices, each.shared_counters)
        made[each.driver] = (*made.get(each.driver, ()), content)
    wanted = machine.options.drivers
    return {driver: slices for driver, slices in made.items() if slices and (not wanted or driver in wanted)}


def slice_name(machine: Machine, driver: str, number: int) -> str:
    """An allocator tries devices in the order of these names."""
    return f"{number:05x}-{driver}-{machine.name}"


def slice_of(machine: Machine, driver: str, number: int, count: int, content: SliceContent, node: Object) -> Object:
    """A ResourceSlice, owned by the stored node."""
    pool = {"name": machine.name, "generation": 1, "resourceSliceCount": count}
    spec: Object = {"driver": driver, "pool": pool, "nodeName": machine.name}
    if content.shared_counters:
        spec["sharedCounters"] = list(content.shared_counters)
    if content.devices:
        spec["devices"] = list(content.devices)
    uid = node["metadata"]["uid"]
    owner = {"apiVersion": "v1", "kind": "Node", "name": machine.name, "uid": uid, "controller": True}
    metadata = {"name": slice_name(machine, driver, number), "ownerReferences": [owner]}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": metadata, "spec": spec}


def _gpus(machine: Machine) -> Iterator[SliceContent]:
    mode = machine.options.gpus
    if mode != "mig":
        yield from _cut(_uncut(machine, each) for each in machine.gpus)
        return
    cut = [each for each in machine.gpus if each.model.mig]
    for sets in _batched(map(mig.counter_set, cut), _MOST_COUNTER_SETS):
        yield SliceContent(shared_counters=tuple(sets))
    for each in cut:
        yield SliceContent(tuple(mig.partitioned(each)))
    yield from _cut(gpu.whole(each) for each in machine.gpus if not each.model.mig)


def _uncut(machine: Machine, each: gpu.Gpu) -> Object:
    match machine.options.gpus:
        case "shared-memory":
            return gpu.shared(each, gpu.Sharing("memory"))
        case "shared-unlimited":
            return gpu.shared(each, gpu.Sharing("unlimited"))
        case "shares":
            return gpu.shared(each, gpu.Sharing("shares", machine.options.shares))
    return gpu.whole(each)


def _cpus(machine: Machine) -> list[Object]:
    mode = machine.options.cpus
    if mode == "none":
        return []
    options = CpuOptions(cpu_device_mode="individual") if mode == "individual" else CpuOptions(group_by=mode)
    return [each.published.document() for each in cpu.make_devices(machine.topology, options).values()]


def _cut(devices: Iterable[Object]) -> tuple[SliceContent, ...]:
    return tuple(SliceContent(tuple(each)) for each in _batched(devices, _MOST_DEVICES))


def _batched(members: Iterable[Object], most: int) -> Iterator[list[Object]]:
    waiting = list(members)
    for start in range(0, len(waiting), most):
        yield waiting[start : start + most]
