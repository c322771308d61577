"""Simulated drivers of a machine: those of `dray up --simulate`, and `dray driver simulated-gpu` and its like."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, TypeVar

import msgspec

from dray.driver import Driver, DriverError, Pool
from dray.drivers.devices import compute_domain, gpu, nic, tpu
from dray.drivers.simulated.gpus import SimulatedGpus
from dray.drivers.simulated.nics import SimulatedNics
from dray.drivers.simulated.published import simulated_devices
from dray.drivers.simulated.tpus import SimulatedTpus
from dray.fleet.choice import ChoiceError, choose
from dray.fleet.machine import Machine
from dray.fleet.pools import declared, published
from dray.yaml.text import ManifestError

T = TypeVar("T")


def drivers_of(machine: Machine) -> list[Driver]:
    """Returns a driver for each kind of device that can be simulated with a node agent."""
    pools = declared(machine)
    made: list[Driver] = []
    if gpu.DRIVER in pools:
        made.append(SimulatedGpus(lambda _: (pools[gpu.DRIVER], machine.gpus)))
    if nic.DRIVER in pools:
        made.append(SimulatedNics(lambda _: (pools[nic.DRIVER], machine.nics)))
    if machine.tpus is not None and machine.publishes(tpu.DRIVER):
        made.append(SimulatedTpus(lambda _: _tpus(machine)))
    if compute_domain.DRIVER in pools:
        made.append(simulated_devices(compute_domain.DRIVER, pools[compute_domain.DRIVER]))
    others = {slice_.driver for slice_ in machine.type.slices} - set(pools)
    return [*made, *(simulated_devices(driver, published(machine, driver)) for driver in sorted(others))]


class MachineOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """`machine` as in `dray up --fleet`: p5.48xlarge, p5.48xlarge:mig. `file` has machine types of one's own."""

    machine: str
    file: str = ""


def _machine(options: MachineOptions, node: str, driver: str) -> tuple[Machine, Pool]:
    try:
        chosen = choose([*([options.file] if options.file else []), f"{options.machine}=1"])
    except (ChoiceError, ManifestError) as error:
        raise DriverError(str(error)) from None
    machine = Machine(node, chosen.machines[-1].type, chosen.machines[-1].options)
    pool = declared(machine).get(driver)
    if pool is None:
        raise DriverError(
            f"a machine {options.machine} has no devices of {driver}; `dray fleet show` lists what it has"
        )
    return machine, pool


def _found(options: MachineOptions, driver: str, devices: Callable[[Machine], T]) -> Callable[[str], tuple[Pool, T]]:
    """Returns the pool and the devices of a driver on the node."""

    def found(node: str) -> tuple[Pool, T]:
        machine, pool = _machine(options, node, driver)
        return pool, devices(machine)

    return found


class MachineGpus(SimulatedGpus):
    Options: ClassVar[type[msgspec.Struct]] = MachineOptions

    def __init__(self, options: MachineOptions) -> None:
        super().__init__(_found(options, gpu.DRIVER, lambda machine: machine.gpus))


class MachineNics(SimulatedNics):
    Options: ClassVar[type[msgspec.Struct]] = MachineOptions

    def __init__(self, options: MachineOptions) -> None:
        super().__init__(_found(options, nic.DRIVER, lambda machine: machine.nics))


class MachineTpus(SimulatedTpus):
    Options: ClassVar[type[msgspec.Struct]] = MachineOptions

    def __init__(self, options: MachineOptions) -> None:
        super().__init__(lambda node: _tpus(_machine(options, node, tpu.DRIVER)[0]))


def _tpus(machine: Machine) -> tuple[tpu.TpuHost, tpu.TpuMode]:
    assert machine.tpus is not None
    return machine.tpus, machine.options.tpus
