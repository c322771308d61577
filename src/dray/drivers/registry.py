"""Drivers by name: those that come with dray, those that installed packages offer, and any class by its place.

A package offers drivers as entry points of the group `dray.drivers`; `module:Class` needs none. A driver that takes
settings has a class attribute `Options`, a msgspec Struct, and is made from one; any other driver is made without
arguments. `load` raises DriverError with the reason and the fix.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from functools import partial
from importlib.metadata import entry_points
from typing import Any, Final

import msgspec

from dray.driver import Driver, DriverError

GROUP: Final = "dray.drivers"
_OWN: Final = {
    "cpu": "dray.drivers.cpu.driver:CpuDriver",
    "gpu": "dray.drivers.gpu.driver:GpuDriver",
    "nic": "dray.drivers.nic.driver:NicDriver",
    "tpu": "dray.drivers.tpu.driver:TpuDriver",
    "tpu-slices": "dray.drivers.tpu.slices:TpuSlices",
    "simulated-gpu": "dray.fleet.machine_drivers:MachineGpus",
    "simulated-nic": "dray.fleet.machine_drivers:MachineNics",
    "simulated-tpu": "dray.fleet.machine_drivers:MachineTpus",
}


def known() -> dict[str, str]:
    """The place of each driver that has a name."""
    return {**{point.name: point.value for point in entry_points(group=GROUP)}, **_OWN}


def load(name: str, settings: Mapping[str, Any]) -> Driver:
    """The driver, made with these settings."""
    return prepared(name, settings)()


def prepared(name: str, settings: Mapping[str, Any]) -> Callable[[], Driver]:
    """Returns what makes the driver. Name and settings are checked at once, the machine when the driver is made."""
    driver = _class_of(name)
    options = getattr(driver, "Options", None)
    if options is None:
        if settings:
            raise DriverError(f"driver {name} takes no settings, and {', '.join(sorted(settings))} is given")
        return driver
    try:
        made = msgspec.convert(dict(settings), options, strict=False)
    except msgspec.ValidationError as error:
        raise DriverError(
            f"settings of driver {name}: {error}; it takes {', '.join(setting_names(options))}"
        ) from error
    return partial(driver, made)


def setting_names(options: type[msgspec.Struct]) -> list[str]:
    return [field.encode_name for field in msgspec.structs.fields(options)]


def _class_of(name: str) -> Callable[..., Driver]:
    place = name if ":" in name else known().get(name, "")
    if not place:
        raise DriverError(f"there is no driver {name!r}; there are {', '.join(sorted(known()))}, and module:Class")
    module, _, attribute = place.partition(":")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise DriverError(f"driver {name}: {error}; the module must be installed, or in PYTHONPATH") from error
    except SyntaxError as error:
        raise DriverError(f"driver {name}: {type(error).__name__}: {error}") from error
    if not (isinstance(found, type) and issubclass(found, Driver)):
        raise DriverError(f"driver {name}: {place} is not a subclass of dray.driver.Driver")
    return found
