"""Rules for the files of fleets: numbers, quantities, addresses, and names that refer to something."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from dray.api import names
from dray.api.quantity import Quantity, QuantityError
from dray.drivers.devices.gpu import GpuModel
from dray.drivers.devices.tpu_generations import ACCELERATORS
from dray.fleet.documents import Content, Found, Library
from dray.fleet.fleet_spec import Fleet
from dray.fleet.machine_type import MachineType, NamedGpuModel, Slot
from dray.fleet.stages import LONGEST, DeviceStage, NodeStage, Stages
from dray.node.cpusets.lists import CpusetError, parse_cpuset

Problems = Iterator[tuple[str, str]]
"""(path, what is wrong there and how to fix it)."""

MOST_NODES: Final = 100_000
_ADDRESS: Final = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]")
_ROOT: Final = re.compile(r"pci[0-9a-f]{4}:[0-9a-f]{2}")
_TOPOLOGY: Final = re.compile(r"\d{1,3}x\d{1,3}(x\d{1,3})?")
_EFFECTS: Final = ("None", "NoSchedule", "NoExecute")


def check(found: Found, library: Library) -> None:
    """Raises ManifestError for the first mistake; the library has everything the document may refer to."""
    for path, message in _problems(found.content, library):
        raise found.error(path, message)


def _problems(content: Content, library: Library) -> Problems:
    match content:
        case MachineType():
            yield from _machine_type(content, library)
        case NamedGpuModel():
            yield from _gpu_model(content, "")
        case Fleet():
            yield from _fleet(content, library)
        case Stages():
            yield from _stages(content)


def _machine_type(machine: MachineType, library: Library) -> Problems:
    if not names.is_subdomain(machine.name):
        yield "name", f"{machine.name!r} cannot be part of a node's name; use lower case letters, digits, '-' and '.'"
    if not 1 <= machine.cpus <= 65536:
        yield "cpus", f"{machine.cpus} is not a number of CPUs; give one from 1 to 65536"
    yield from _quantity(machine.memory, "memory")
    if machine.hourly_price is not None and not 0 <= machine.hourly_price < 1e6:
        yield "hourlyPrice", f"{machine.hourly_price:g} is not a price; write 55.04, or leave it out"
    yield from _cpus(machine)
    seen: set[str] = set()
    for number, gpus in enumerate(machine.gpus):
        path = f"gpus[{number}]"
        if isinstance(gpus.model, GpuModel):
            yield from _gpu_model(gpus.model, f"{path}.model.")
        elif gpus.model not in library.gpu_models:
            yield f"{path}.model", f"there is no GpuModel {gpus.model!r}; there are {', '.join(library.gpu_models)}"
        for at, slot in enumerate(gpus.slots):
            yield from _slot(slot, f"{path}.slots[{at}]", machine, seen)
    for number, nics in enumerate(machine.nics):
        for at, port in enumerate(nics.ports):
            yield from _slot(port, f"nics[{number}].ports[{at}]", machine, seen)
    if machine.tpus is not None:
        if machine.tpus.accelerator not in ACCELERATORS:
            yield "tpus.accelerator", f"{machine.tpus.accelerator!r} is none of {', '.join(ACCELERATORS)}"
        if machine.tpus.chips not in (1, 2, 4, 8):
            yield "tpus.chips", f"{machine.tpus.chips} is not a number of chips; a machine has 1, 2, 4 or 8"
        if not _TOPOLOGY.fullmatch(machine.tpus.topology):
            yield "tpus.topology", f"{machine.tpus.topology!r} is no topology; write it as 2x4 or 2x2x1"


def _cpus(machine: MachineType) -> Problems:
    known: set[int] = set()
    for number, node in enumerate(machine.numa_nodes):
        path = f"numaNodes[{number}].cpus"
        try:
            cpus = parse_cpuset(node.cpus)
        except CpusetError as error:
            yield path, str(error)
            return
        if known & cpus:
            yield path, f"CPU {min(known & cpus)} is in another NUMA node already; remove it from one"
        if len(cpus) % machine.threads_per_core:
            yield (
                path,
                f"{len(cpus)} CPUs are no whole cores of {machine.threads_per_core} threads; set threadsPerCore: 1",
            )
        known |= cpus
    if machine.numa_nodes and len(known) != machine.cpus:
        yield "numaNodes", f"they have {len(known)} CPUs and the machine has {machine.cpus}; make both the same"


def _slot(slot: Slot, path: str, machine: MachineType, seen: set[str]) -> Problems:
    if not _ADDRESS.fullmatch(slot.address):
        yield f"{path}.address", f'{slot.address!r} is no PCI address; write it as "0000:3b:00.0"'
    if slot.address in seen:
        yield f"{path}.address", f"{slot.address} is taken by another device; give each its own"
    seen.add(slot.address)
    if slot.pcie_root and not _ROOT.fullmatch(slot.pcie_root):
        yield f"{path}.pcieRoot", f'{slot.pcie_root!r} is no PCIe root; write it as "pci0000:3a"'
    count = max(1, len(machine.numa_nodes))
    if slot.numa_node is not None and not 0 <= slot.numa_node < count:
        yield f"{path}.numaNode", f"{slot.numa_node} is not one of the {count} numaNodes; they count from 0"


def _gpu_model(model: GpuModel, path: str) -> Problems:
    yield from _quantity(model.memory, f"{path}memory")
    for number, profile in enumerate(model.mig):
        at = f"{path}mig[{number}]"
        yield from _quantity(profile.memory, f"{at}.memory")
        if not profile.starts() or profile.slices() < 1:
            yield f"{at}.id", f"the placements of profile {profile.id} are not known; add placements and size"
        elif max(profile.starts()) + profile.slices() > 16 or min(profile.starts()) < 0:
            yield f"{at}.placements", "they end beyond 16 memory slices; a GPU has 8 or 4"


def _fleet(fleet: Fleet, library: Library) -> Problems:
    total = 0
    for number, machines in enumerate(fleet.machines):
        path = f"machines[{number}]"
        if machines.type not in library.machine_types:
            yield f"{path}.type", f"there is no MachineType {machines.type!r}; `dray fleet list` shows those there are"
        total += machines.count
        if machines.count < 0 or total > MOST_NODES:
            yield f"{path}.count", f"a fleet has 0 to {MOST_NODES:,} nodes, not {total:,}"
        if machines.name and not names.is_subdomain(machines.name):
            yield f"{path}.name", f"{machines.name!r} cannot name a node; use lower case letters, digits, '-' and '.'"
        if machines.gpus == "shares" and machines.shares < 1:
            yield f"{path}.shares", "say into how many shares each GPU goes: shares: 4"
    if not 0 <= fleet.heartbeat_seconds <= 3600:
        yield "heartbeatSeconds", f"{fleet.heartbeat_seconds} is not in 0 to 3600"


def _stages(stages: Stages) -> Problems:
    for number, pod in enumerate(stages.pods):
        path = f"pods[{number}]"
        for name, span in (("start", pod.start_seconds), ("run", pod.run_seconds), ("stop", pod.stop_seconds)):
            if span is not None:
                yield from _span(span, f"{path}.{name}Seconds")
        codes = pod.exit_code if isinstance(pod.exit_code, tuple | dict) else (pod.exit_code,)
        if not codes or any(not 0 <= code <= 255 for code in codes):
            yield f"{path}.exitCode", "exit codes are 0 to 255, and there is at least one"
        if isinstance(pod.exit_code, dict) and not (min(pod.exit_code.values()) >= 0 < sum(pod.exit_code.values())):
            yield f"{path}.exitCode", "chances are not negative, and one of them is more than 0"
    for number, device in enumerate(stages.devices):
        yield from _outage(device, f"devices[{number}]")
        if not isinstance(device.taint.get("key"), str) or device.taint.get("effect") not in _EFFECTS:
            yield f"devices[{number}].taint", f"a taint has a key and an effect, one of {', '.join(_EFFECTS)}"
    for number, node in enumerate(stages.nodes):
        yield from _outage(node, f"nodes[{number}]")


def _outage(stage: DeviceStage | NodeStage, path: str) -> Problems:
    yield from _span(stage.down_seconds, f"{path}.downSeconds")
    if stage.every_seconds is not None and not 1 <= stage.every_seconds <= LONGEST:
        yield f"{path}.everySeconds", f"{stage.every_seconds:g} is not a time between failures; give at least 1"
    if any(not 0 <= at <= LONGEST for at in stage.at_seconds):
        yield f"{path}.atSeconds", "times are seconds after the creation of the node, and not negative"
    if not stage.at_seconds and stage.every_seconds is None:
        yield path, "it never fails anything; add atSeconds or everySeconds"


def _span(span: float | tuple[float, float], path: str) -> Problems:
    least, most = span if isinstance(span, tuple) else (span, span)
    if not 0 <= least <= most <= LONGEST:
        yield path, "write a number of seconds that is not negative, or a list of the least and the most of them"


def _quantity(text: str, path: str) -> Problems:
    try:
        if Quantity.parse(text).sign() <= 0:
            yield path, f"{text} is not more than 0"
    except QuantityError:
        yield path, f"{text!r} is no quantity; write it as 80Gi or 81559Mi"
