"""What a command line asks for: `p5.48xlarge=4,a3-highgpu-8g:mig=2`, a file, or several of both.

A choice is a file if it names one. In text, a type may be followed by how its GPUs are published: `mig`,
`shared-memory`, `shared-unlimited`, or `shares-4`; or how its TPUs are: `partitions`, or `slice-4x4` for the hosts of
slices over several machines.
"""

from __future__ import annotations

import difflib
import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, get_args

import msgspec

from dray.api.intake import check
from dray.drivers.devices.tpu_topology import chips_in
from dray.fleet.catalogue import library, machine_type
from dray.fleet.documents import Found, Library, read_file
from dray.fleet.fleet_spec import Fleet, GpuMode, Machines
from dray.fleet.machine import Machine
from dray.fleet.machine_type import MachineType
from dray.fleet.rules import MOST_NODES
from dray.fleet.stages import NO_STAGES, Stages

SLICE_LABEL: Final = "cloud.google.com/gke-nodepool"
"""Value that all hosts of one TPU slice share."""
_SUFFIXES: Final = (".yaml", ".yml", ".json")


class ChoiceError(Exception):
    """A fleet choice is invalid: one line, with what to write instead."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """The machines of a fleet and its Stages; passed to the process that simulates it."""

    machines: tuple[Machine, ...]
    stages: Stages = NO_STAGES
    seed: int = 0
    heartbeat_seconds: float = 0.0

    def by_name(self) -> dict[str, Machine]:
        return {machine.name: machine for machine in self.machines}


def choose(choices: Iterable[str], *, seed: int | None = None) -> Chosen:
    """Raises ChoiceError and ManifestError."""
    files: list[Found] = []
    groups: list[Machines] = []
    texts: list[str] = []
    for choice in choices:
        if _is_file(choice):
            files += read_file(Path(choice))
        else:
            texts.append(choice)
    known = library(files)
    for text in texts:
        groups += [_machines(part.strip(), known) for part in text.split(",") if part.strip()]
    fleets = [found.content for found in known.fleets if isinstance(found.content, Fleet)]
    groups = [machine for fleet in fleets for machine in fleet.machines] + groups
    if not groups:
        raise ChoiceError(_nothing(files, known))
    first = fleets[0].seed if fleets else 0
    beats = max((fleet.heartbeat_seconds for fleet in fleets), default=0.0)
    return Chosen(_numbered(groups, known), _stages(known), first if seed is None else seed, beats)


def _is_file(choice: str) -> bool:
    return choice.endswith(_SUFFIXES) or os.path.isfile(choice)


def _nothing(files: list[Found], known: Library) -> str:
    if not files:
        return "no machines: give TYPE=COUNT or a file"
    own = [name for name, found in known.machine_types.items() if found in files]
    example = f"{own[0]}=1" if own else "p5.48xlarge=1"
    return f"{files[0].source} has no Fleet: add one, or ask for machines beside it, as in --fleet {example}"


def _machines(text: str, known: Library) -> Machines:
    named, _, count = text.partition("=")
    named, _, mode = named.partition(":")
    if named not in known.machine_types:
        close = difflib.get_close_matches(named, known.machine_types, 1)
        advice = f"did you mean {close[0]}?" if close else "`dray fleet list` shows those there are"
        raise ChoiceError(f"there is no machine type {named!r}; {advice}")
    if (count and not (count.isascii() and count.isdecimal())) or len(count) > 6:
        raise ChoiceError(f"{text!r}: {count!r} is not a number of machines; write {named}=4")
    return Machines(type=named, count=int(count or "1"), **_mode(text, mode))


def _mode(text: str, mode: str) -> dict[str, Any]:
    if not mode:
        return {}
    if mode.startswith("shares-") and mode[7:].isascii() and mode[7:].isdecimal() and 0 < int(mode[7:11]) < 1000:
        return {"gpus": "shares", "shares": int(mode[7:11])}
    if mode == "partitions":
        return {"tpus": mode}
    if mode.startswith("slice-"):
        return {"tpus": "slice", "topology": mode.removeprefix("slice-")}
    modes = [each for each in get_args(GpuMode) if each != "shares"]
    if mode not in modes:
        raise ChoiceError(
            f"{text!r}: unknown mode {mode!r}; use {', '.join(modes)} and shares-N for GPUs, "
            "partitions and slice-4x4 for TPUs"
        )
    return {"gpus": mode}


def _numbered(groups: list[Machines], known: Library) -> tuple[Machine, ...]:
    if sum(group.count for group in groups) > MOST_NODES:
        raise ChoiceError(f"a fleet has at most {MOST_NODES:,} nodes")
    numbers: Counter[str] = Counter()
    made = []
    for group in groups:
        type_ = machine_type(group.type, known)
        prefix = group.name or group.type.replace(".", "-")
        hosts = _hosts(group, type_)
        for number in range(group.count):
            options = group
            if hosts > 1:
                labels = {SLICE_LABEL: f"{prefix}-slice-{number // hosts}", **group.labels}
                options = msgspec.structs.replace(group, labels=labels)
            made.append(Machine(f"{prefix}-{numbers[prefix]}", type_, options))
            numbers[prefix] += 1
        if group.count > 0:
            # The last node of a group has its longest name.
            _check_node(group, made[-1])
    return tuple(made)


def _check_node(group: Machines, machine: Machine) -> None:
    """Raises ChoiceError for a machine whose node an API server would refuse."""
    problems = check(machine.node())
    if problems:
        raise ChoiceError(f"machines {group.type}: node {machine.name}: {problems[0]}")


def _hosts(group: Machines, type_: MachineType) -> int:
    """Returns how many machines form a TPU slice. Raises ChoiceError if they cannot form one."""
    if type_.tpus is None:
        if group.tpus != "whole" or group.topology:
            raise ChoiceError(f"machines {group.type} have no TPUs: leave tpus and topology out")
        return 1
    if not group.topology:
        if group.tpus == "slice":
            raise ChoiceError(f"machines {group.type}: a slice needs a topology, as in {group.type}:slice-4x4=4")
        return 1
    try:
        chips = chips_in(group.topology)
    except ValueError as error:
        raise ChoiceError(f"machines {group.type}: {error}") from None
    hosts = chips // type_.tpus.chips
    if chips % type_.tpus.chips or group.count % hosts:
        raise ChoiceError(
            f"machines {group.type}: a slice {group.topology} has {chips} chips, {type_.tpus.chips} on each machine; "
            f"{group.count} machines make no whole slices"
        )
    if group.tpus == "partitions" and hosts > 1:
        raise ChoiceError(f"machines {group.type}: only a machine that is a slice by itself can be partitioned")
    return hosts


def _stages(known: Library) -> Stages:
    """Combines all Stages documents into one."""
    found = [stage.content for stage in known.stages if isinstance(stage.content, Stages)]
    if len(found) <= 1:
        return found[0] if found else NO_STAGES
    return Stages(
        api_version="fleet.dray.dev/v1alpha1",
        pods=tuple(pod for stages in found for pod in stages.pods),
        devices=tuple(device for stages in found for device in stages.devices),
        nodes=tuple(node for stages in found for node in stages.nodes),
    )
