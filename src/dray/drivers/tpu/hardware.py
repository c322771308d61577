"""TPU chips of this machine, as PCI functions and device files show them.

Up to v4 a chip has /dev/accelN; later ones are bound to vfio-pci and have /dev/vfio/GROUP, GROUP being the IOMMU group
of their PCI function. Other devices have such files too: a group counts if it holds a chip. Chips are in the order of
the numbers in their files' names.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dray.drivers.devices.tpu_generations import GOOGLE, accelerators_of
from dray.drivers.pci import PciFunction, pci_functions, read_function

_ACCEL: Final = re.compile(r"accel(\d+)")
# Google's functions that are no TPU: NVMe, gVNIC, and a chip of telephones.
_OTHERS: Final = frozenset({"0x001f", "0x0042", "0xabcd"})


@dataclass(frozen=True, slots=True)
class FoundChip:
    """`function` is None where sysfs does not tell which one has the file."""

    file: Path
    function: PciFunction | None

    @property
    def name(self) -> str:
        return self.file.name


@dataclass(frozen=True, slots=True)
class Hardware:
    chips: tuple[FoundChip, ...]
    problem: str = ""
    """Why there are none."""

    @property
    def uses_vfio(self) -> bool:
        return bool(self.chips) and self.chips[0].file.parent.name == "vfio"

    @property
    def accelerators(self) -> tuple[str, ...]:
        """Returns the accelerators with chips of this kind; empty if the chips are unknown or of several kinds."""
        found = {accelerators_of(function.device, function.subsystem_device) for function in self.functions}
        return found.pop() if len(found) == 1 else ()

    @property
    def functions(self) -> list[PciFunction]:
        return [chip.function for chip in self.chips if chip.function is not None]


def find_chips(sysfs: Path, dev: Path) -> Hardware:
    functions = [function for function in pci_functions(sysfs, GOOGLE) if function.device not in _OTHERS]
    if found := _accel(sysfs, dev):
        return Hardware(found)
    files = [(dev / "vfio" / function.iommu_group, function) for function in functions if function.iommu_group]
    if found := tuple(FoundChip(file, each) for file, each in sorted(files, key=_number) if file.exists()):
        return Hardware(found)
    if not functions:
        return Hardware((), f"no PCI function of a TPU under {sysfs} and no {dev}/accel*")
    addresses = ", ".join(function.address for function in functions)
    return Hardware((), f"TPU chips at {addresses} have neither {dev}/accel* nor {dev}/vfio/GROUP; load their driver")


def _accel(sysfs: Path, dev: Path) -> tuple[FoundChip, ...]:
    try:
        names = [entry.name for entry in dev.iterdir() if _ACCEL.fullmatch(entry.name) and not entry.is_dir()]
    except OSError:
        return ()
    found = []
    for name in sorted(names, key=lambda each: int(each.removeprefix("accel"))):
        function = read_function(sysfs / "class" / "accel" / name / "device")
        # Other accelerators have such files too.
        if function is None or (function.vendor == GOOGLE and function.device not in _OTHERS):
            found.append(FoundChip(dev / name, function))
    # Where no file is known to be a TPU's, it is one if the machine has TPUs.
    return tuple(found) if any(chip.function for chip in found) or pci_functions(sysfs, GOOGLE) else ()


def _number(chip: tuple[Path, PciFunction]) -> int:
    name = chip[0].name
    return int(name) if name.isdecimal() else 0
