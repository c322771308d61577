"""The pools that the drivers on a machine publish: one for each driver, named after the node."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from dray.api.objects import Object, mapping, text
from dray.driver.devices import Device, Pool
from dray.driver.slices.layout import contents
from dray.drivers.cpu import devices as cpu
from dray.drivers.cpu.options import CpuOptions
from dray.drivers.devices import compute_domain, gpu, nic, tpu, tpu_pools
from dray.drivers.devices.gpu_pool import gpu_pool
from dray.fleet.machine import Machine

_UUID: Final = re.compile(r"\{uuid:(\d+)\}")


@dataclass(frozen=True, slots=True)
class SliceContent:
    """Content of one slice: counter sets or devices; an API server refuses both together."""

    devices: tuple[Object, ...] = ()
    shared_counters: tuple[Object, ...] = ()


Pools = Mapping[str, tuple[SliceContent, ...]]
"""The slices of each driver's pool."""


def declared(machine: Machine) -> dict[str, Pool]:
    """Returns the pool of each driver, as the driver declares it."""
    made = {
        gpu.DRIVER: _gpus(machine),
        # In the order in which the driver publishes them.
        nic.DRIVER: Pool(machine.name, [nic.device_of(interface) for interface in sorted(machine.nics, key=_name)]),
        tpu.DRIVER: _tpus(machine),
        compute_domain.DRIVER: Pool(machine.name, compute_domain.devices() if machine.type.compute_domain else ()),
        cpu.DRIVER: Pool(machine.name, _cpus(machine)),
    }
    return {driver: pool for driver, pool in made.items() if pool.groups() and machine.publishes(driver)}


def pools_of(machine: Machine) -> Pools:
    """Returns the slices of each driver, including those copied from a live cluster."""
    made = {driver: _contents(pool) for driver, pool in declared(machine).items()}
    for slice_ in machine.type.slices:
        devices = tuple(_of_machine(device, machine) for device in slice_.devices)
        content = SliceContent(devices, slice_.shared_counters)
        made[slice_.driver] = (*made.get(slice_.driver, ()), content)
    return made


def published(machine: Machine, driver: str) -> Pool:
    """Returns the pool of a driver in the form in which a driver declares it."""
    contents = pools_of(machine)[driver]
    counters = {
        counter_set["name"]: {name: counter["value"] for name, counter in counter_set["counters"].items()}
        for content in contents
        for counter_set in content.shared_counters
    }
    groups = [[_device(device) for device in content.devices] for content in contents if content.devices]
    return Pool(machine.name, counters=counters, slices=groups)


def _device(document: Object) -> Device:
    return Device(document["name"], extra={name: each for name, each in document.items() if name != "name"})


def _of_machine(device: Object, machine: Machine) -> Object:
    """Replaces `{uuid:N}` with the machine's own UUIDs."""
    attributes = {}
    for name, value in mapping(device.get("attributes")).items():
        written = text(mapping(value).get("string"))
        own = _UUID.sub(lambda found: machine.uuid(found[1]), written)
        attributes[name] = value if own == written else {"string": own}
    return {**device, "attributes": attributes} if attributes else device


def _contents(pool: Pool) -> tuple[SliceContent, ...]:
    """Converts a pool to slices as the driver SDK does, with room for taints on every device."""
    found = contents(pool, {}, may_taint=True)
    return tuple(
        SliceContent(tuple(content.get("devices", ())), tuple(content.get("sharedCounters", ()))) for content in found
    )


def slice_name(machine: Machine, driver: str, number: int) -> str:
    """Returns the name of a slice; the allocator tries devices in the order of these names."""
    return f"{number:05x}-{driver}-{machine.name}"


def slice_of(
    machine: Machine, driver: str, number: int, count: int, content: SliceContent, node: Object | None = None
) -> Object:
    """Returns a ResourceSlice, owned by the stored node if there is one."""
    pool = {"name": machine.name, "generation": 1, "resourceSliceCount": count}
    spec: Object = {"driver": driver, "pool": pool, "nodeName": machine.name}
    if content.shared_counters:
        spec["sharedCounters"] = list(content.shared_counters)
    if content.devices:
        spec["devices"] = list(content.devices)
    metadata: Object = {"name": slice_name(machine, driver, number)}
    if node is not None:
        uid = node["metadata"]["uid"]
        owner = {"apiVersion": "v1", "kind": "Node", "name": machine.name, "uid": uid, "controller": True}
        metadata["ownerReferences"] = [owner]
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": metadata, "spec": spec}


def _gpus(machine: Machine) -> Pool:
    is_cut = machine.options.gpus == "mig"
    cut = [found for found in machine.gpus if is_cut and found.model.mig]
    uncut = [gpu.whole(found) for found in machine.gpus if found not in cut]
    return gpu_pool(machine.name, uncut, cut, _sharing(machine))


def _name(each: nic.Nic) -> str:
    return each.name


def _sharing(machine: Machine) -> gpu.Sharing | None:
    match machine.options.gpus:
        case "shared-memory":
            return gpu.Sharing("memory")
        case "shared-unlimited":
            return gpu.Sharing("unlimited")
        case "shares":
            return gpu.Sharing("shares", machine.options.shares)
    return None


def _tpus(machine: Machine) -> Pool:
    """Returns the TPU pools; empty for a host of a slice, which `TpuSlices` publishes."""
    found = tpu_pools.pools_of(machine.tpus, machine.options.tpus) if machine.tpus is not None else []
    return next(iter(found), Pool(machine.name))


def _cpus(machine: Machine) -> list[Device]:
    mode = machine.options.cpus
    if mode == "none":
        return []
    options = CpuOptions(cpu_device_mode="individual") if mode == "individual" else CpuOptions(group_by=mode)
    options = msgspec.structs.replace(options, expose_pcie_roots=machine.options.pcie_roots)
    return [device.published for device in cpu.make_devices(machine.topology, options).values()]
