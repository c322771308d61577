"""Which drivers a node runs: those for the devices that this machine has, unless the command line says otherwise.

GPUs are found by NVIDIA's management library, TPUs by their device files, CPUs are always there. Network interfaces
are left out unless they are asked for, since a driver moves them into pods. The library is asked in a process of its
own with a time limit: on a machine with a sick GPU a call may hang.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from dray.api.objects import Object, mapping, mappings, spec_of
from dray.api.quantity import Quantity

_INSPECTION_SECONDS: Final = 30.0
_PROGRAM: Final = "from dray.cli import main; main()"
Command = TypeVar("Command", bound=Callable[..., Any])
AUTOMATIC: Final = ("cpu", "gpu", "tpu", "nic")


@dataclass(frozen=True, slots=True)
class ChosenDriver:
    """A driver by its name, with its settings."""

    name: str
    settings: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> ChosenDriver:
        """Reads NAME or NAME:KEY=VALUE,…; `module:Class` is a name. Raises UsageError."""
        name, _, rest = text.partition(":")
        if rest and "=" not in rest:
            name, rest = text, ""
        pairs = [pair.partition("=") for pair in rest.split(",") if pair]
        if not name or not all(key and equals for key, equals, _ in pairs):
            raise click.UsageError(
                f"--driver {text}: write NAME or NAME:KEY=VALUE,KEY=VALUE, as in gpu:DynamicMIG=true"
            )
        return cls(name, {key: value for key, _, value in pairs})


@dataclass(frozen=True, slots=True)
class NodeDrivers:
    """The drivers of a node, and a line about each kind of device: what is offered, or why it is not."""

    drivers: tuple[ChosenDriver, ...] = ()
    lines: tuple[str, ...] = ()


def driver_options(command: Command) -> Command:
    """Gives a command the options --driver and --no-driver."""
    for option in (
        click.option(
            "--no-driver", "no_drivers", multiple=True, metavar="NAME", help="Driver to leave out; repeatable."
        ),
        click.option(
            "--driver",
            "drivers",
            multiple=True,
            metavar="NAME[:KEY=VALUE,...]",
            help="Driver to run on the node, with settings; repeatable. cpu, gpu and tpu run by default.",
        ),
    ):
        command = option(command)
    return command


def choose_drivers(wanted: Sequence[str], unwanted: Sequence[str]) -> NodeDrivers:
    """`wanted` are those of --driver, `unwanted` those of --no-driver.

    A driver that does not exist or does not take its settings ends the command.
    """
    asked = {driver.name: driver for driver in map(ChosenDriver.parse, wanted)}
    for driver in asked.values():
        check_driver(driver)
    drivers: list[ChosenDriver] = []
    lines: list[str] = []
    for name in dict.fromkeys((*AUTOMATIC, *asked)):
        if name in unwanted:
            lines.append(f"{name}: switched off by --no-driver")
            continue
        chosen = asked.get(name, ChosenDriver(name))
        offered, line = _look(chosen, insists=name in asked)
        lines.append(f"{name}: {line}")
        if offered:
            drivers.append(chosen)
    return NodeDrivers(tuple(drivers), tuple(lines))


def check_driver(chosen: ChosenDriver) -> None:
    """Ends the command if there is no such driver or it does not take its settings."""
    from dray.driver import DriverError
    from dray.drivers.registry import prepared

    try:
        prepared(chosen.name, chosen.settings)
    except DriverError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(2)


def _look(chosen: ChosenDriver, *, insists: bool) -> tuple[bool, str]:
    """Returns whether the driver runs, and what is to be said about its devices."""
    if chosen.name == "cpu":
        return True, f"{len(os.sched_getaffinity(0))} CPUs (class dra.cpu)"
    if chosen.name == "gpu":
        return _look_for_gpus(chosen, insists=insists)
    if chosen.name == "tpu":
        return _look_for_tpus(insists=insists)
    if chosen.name == "nic" and not insists:
        return False, "not offered, since interfaces are moved into pods; --driver nic offers them"
    return True, "offered by --driver"


def _look_for_gpus(chosen: ChosenDriver, *, insists: bool) -> tuple[bool, str]:
    from dray.driver import DriverError
    from dray.drivers.gpu.driver_files import find_driver_files

    try:
        find_driver_files(chosen.settings.get("driverRoot", ""))
    except DriverError as error:
        # The vendor's driver may be installed later; a driver that was asked for waits for it.
        return insists, f"none: {error}" if insists else "none, NVIDIA's driver is not installed"
    found, problem = _inspected(chosen)
    if found is None:
        return True, f"not offered yet: {problem}; the driver keeps trying"
    return True, _described(found, problem)


def _inspected(chosen: ChosenDriver) -> tuple[list[Object] | None, str]:
    """Returns the slices that the driver would publish, and what it leaves out; None with the reason if it fails."""
    settings = [word for key, value in chosen.settings.items() for word in ("--set", f"{key}={value}")]
    command = [sys.executable, "-c", _PROGRAM, "driver", chosen.name, "--inspect", "-o", "json", *settings]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_INSPECTION_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return None, f"NVIDIA's library has not answered within {_INSPECTION_SECONDS:g} s"
    said = "; ".join(done.stderr.strip().splitlines()[-3:])
    if done.returncode != 0:
        return None, said.removeprefix("error: ")
    found = json.loads(done.stdout) if done.stdout.strip() else []
    return found["items"] if isinstance(found, dict) and "items" in found else _listed(found), said


def _listed(found: object) -> list[Object]:
    return mappings(found) if isinstance(found, list) else [mapping(found)]


def _described(slices: list[Object], left_out: str) -> str:
    """Returns the GPUs by product, as in `2 × NVIDIA GeForce RTX 4090 (24 GiB)`, and what is left out."""
    devices = [device for resource_slice in slices for device in mappings(spec_of(resource_slice).get("devices"))]
    products = Counter(_product(device) for device in devices if _attribute(device, "type") == "gpu")
    partitions = Counter(_attribute(device, "profile") for device in devices if _attribute(device, "type") == "mig")
    parts = [f"{count} × {product}" for product, count in products.items()]
    parts += [f"{count} × MIG {profile}" for profile, count in partitions.items()]
    told = f"{', '.join(parts)} (class gpu.nvidia.com)" if parts else "none offered"
    return f"{told}; {left_out}" if left_out else told


def _product(device: Object) -> str:
    memory = mapping(mapping(device.get("capacity")).get("memory")).get("value")
    size = f" ({round(Quantity.parse(str(memory)).value() / 2**30)} GiB)" if memory else ""
    return f"{_attribute(device, 'productName')}{size}"


def _attribute(device: Object, name: str) -> str:
    return str(mapping(mapping(device.get("attributes")).get(name)).get("string") or "")


def _look_for_tpus(*, insists: bool) -> tuple[bool, str]:
    from dray.drivers.tpu.hardware import find_chips

    hardware = find_chips(Path("/sys"), Path("/dev"))
    if not hardware.chips:
        found_on_bus = "have neither" in hardware.problem
        return insists, f"none: {hardware.problem}" if insists or found_on_bus else "none"
    kinds = " or ".join(hardware.accelerators) or "chips of an unknown kind"
    return True, f"{len(hardware.chips)} chips, {kinds} (class tpu.google.com)"
