"""The machine types that come with dray, and those of a user's files on top of them."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Final

import msgspec

from dray.drivers.devices.gpu import GpuModel
from dray.fleet.documents import Found, Library, read_file
from dray.fleet.machine_type import MachineType
from dray.fleet.rules import check

_DATA: Final = Path(__file__).parent / "machine_types"


def library(found: Iterable[Found] = ()) -> Library:
    """Returns the machine types of dray and those of the given files, checked. Raises ManifestError."""
    made = Library()
    given = list(found)
    for entry in (*_shipped(), *given):
        made.add(entry)
    for entry in given:
        check(entry, made)
    return made


@cache
def _shipped() -> tuple[Found, ...]:
    return tuple(found for path in sorted(_DATA.glob("*.yaml")) for found in read_file(path))


def machine_type(named: str, among: Library) -> MachineType:
    """Returns the machine type with its GPU models resolved. Raises KeyError."""
    machine = among.machine_types[named].content
    assert isinstance(machine, MachineType)
    gpus = tuple(msgspec.structs.replace(gpu, model=_model(gpu.model, among)) for gpu in machine.gpus)
    return msgspec.structs.replace(machine, gpus=gpus)


def _model(model: str | GpuModel, among: Library) -> GpuModel:
    if isinstance(model, GpuModel):
        return model
    found = among.gpu_models[model].content
    assert isinstance(found, GpuModel)
    return found
