"""TPU chips as `tpu.google.com` publishes them: one by one for a claim that takes all, or with blocks as partitions.

As published, a claim takes all chips of a machine. `partitioned` offers single chips too, and blocks of neighbours
(`slice-2x2-4`), which exclude each other by counters. `slice_device` stands for a slice over several machines. Chips
have a uuid of their own; `uuids="node"` gives all of a machine the same, as the published driver does.
"""

from __future__ import annotations

from typing import Final, Literal
from uuid import NAMESPACE_DNS, uuid5

import msgspec

from dray.driver.devices import Attribute, Device
from dray.drivers.devices import names
from dray.drivers.devices.attributes import known, place
from dray.drivers.devices.tpu_generations import generation_of, has_accel_files, is_flat
from dray.drivers.devices.tpu_topology import block_topology, blocks, chips_in

DRIVER: Final = names.TPU
COUNTER_SET: Final = "chips"
SLICE_DEVICE: Final = "slice"
"""The device of a pool that is a slice over several machines."""

TpuMode = Literal["whole", "partitions", "slice"]
"""`whole`: one claim takes all chips of a machine; `partitions`: parts of them; `slice`: all machines of a slice."""


class TpuChip(msgspec.Struct, frozen=True, kw_only=True):
    """`name` is that of its device file. What is not known of its place is not published."""

    name: str
    pci_bus_id: str = ""
    pcie_root: str = ""
    numa_node: int | None = None


class TpuHost(msgspec.Struct, frozen=True, kw_only=True):
    """The chips of one machine. `topology` is that of the slice the machine belongs to, empty if it is not known."""

    node: str
    accelerator: str
    topology: str
    chips: tuple[TpuChip, ...]
    uuids: Literal["chip", "node"] = "chip"
    ici_resiliency: str = ""

    @property
    def generation(self) -> str:
        return generation_of(self.accelerator)

    @property
    def is_single(self) -> bool:
        """Whether the machine is the whole slice."""
        return not self.topology or chips_in(self.topology) == len(self.chips)

    @property
    def numbers(self) -> tuple[int, ...]:
        return tuple(range(len(self.chips)))

    def uuid(self, of: str = "") -> str:
        """Returns a stable uuid of the machine, or of one of its chips or blocks."""
        return f"tpu-{uuid5(NAMESPACE_DNS, f'{of}.{self.node}.{DRIVER}')}"


def chip_names(accelerator: str, count: int) -> tuple[str, ...]:
    prefix = "accel" if has_accel_files(accelerator) else ""
    return tuple(f"{prefix}{number}" for number in range(count))


def devices_of(host: TpuHost) -> list[Device]:
    return [Device(chip.name, _described(host, number)) for number, chip in enumerate(host.chips)]


def counters(host: TpuHost) -> dict[str, dict[str, int]]:
    return {COUNTER_SET: {f"chip-{number}": 1 for number in host.numbers}}


def partitioned(host: TpuHost) -> list[Device]:
    """Blocks, the large ones first, and then the chips; no chip is given away twice."""
    made = [_block(host, block) for block in blocks(len(host.chips))]
    for number, chip in enumerate(host.chips):
        described = {**_described(host, number), "type": "chip"}
        made.append(Device(chip.name, described, consumes_counters=_taken([number])))
    return made


def chips_of(host: TpuHost, device: str) -> tuple[int, ...]:
    """The chips behind a device of this machine or of its slice. Raises KeyError."""
    if device == SLICE_DEVICE:
        return host.numbers
    by_name = {chip.name: (number,) for number, chip in enumerate(host.chips)}
    return {**by_name, **{block_name(host, block): tuple(block) for block in blocks(len(host.chips))}}[device]


def block_name(host: TpuHost, block: range) -> str:
    return f"slice-{block_topology(len(block), flat=is_flat(host.generation))}-{block.start}"


def slice_device(slice_name: str, accelerator: str, topology: str, hosts: int) -> Device:
    """A slice over several machines, as one device that a group of pods takes together."""
    described: dict[str, Attribute] = {
        "type": "slice",
        "uuid": f"tpu-{uuid5(NAMESPACE_DNS, f'{slice_name}.slices.{DRIVER}')}",
        "tpuGen": generation_of(accelerator),
        "brand": "Google",
        "accelerator": accelerator,
        "chipCount": chips_in(topology),
        "hostCount": hosts,
        "topology": topology,
    }
    return Device(SLICE_DEVICE, described)


def _described(host: TpuHost, number: int) -> dict[str, Attribute]:
    chip = host.chips[number]
    own = host.uuid(chip.name) if host.uuids == "chip" else host.uuid()
    return known(
        {
            "index": number,
            "uuid": own,
            "tpuGen": host.generation,
            "brand": "Google",
            "accelerator": host.accelerator,
            "chipCount": len(host.chips),
            "topology": host.topology,
            **place(pci_bus_id=chip.pci_bus_id, pcie_root=chip.pcie_root, numa_node=chip.numa_node),
        }
    )


def _block(host: TpuHost, block: range) -> Device:
    """Builds the device of a block, with the attributes that all its chips share."""
    described = {name: value for name, value in _described(host, block.start).items() if not name.endswith("pciBusID")}
    for number in block[1:]:
        other = _described(host, number)
        described = {name: value for name, value in described.items() if name in other}
        described = {
            name: value for name, value in described.items() if "/" not in name or other[name] == described[name]
        }
    own: dict[str, Attribute] = {
        "type": "slice",
        "uuid": host.uuid(block_name(host, block)),
        "chipCount": len(block),
        "topology": block_topology(len(block), flat=is_flat(host.generation)),
    }
    return Device(block_name(host, block), {**described, **own}, consumes_counters=_taken(block))


def _taken(numbers: list[int] | range) -> dict[str, dict[str, int]]:
    return {COUNTER_SET: {f"chip-{number}": 1 for number in numbers}}
