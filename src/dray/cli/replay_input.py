"""What `dray replay` plays: workloads and a world, from the files and options of the command line."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from dray.api.objects import Object

if TYPE_CHECKING:
    from dray.replay.device_units import DeviceName, PublishedDevice
    from dray.replay.workloads import Workload, World

_DEFAULT_POLICIES: Final = ("kubernetes", "pack")
_TASKS: Final = 2000
"""The number of random partitions, unless --tasks is given."""


@dataclass(frozen=True, slots=True)
class Asked:
    """The command line."""

    trace: Path | None
    nodes: Path | None
    fleet: tuple[str, ...]
    snapshot: Path | None
    manifests: tuple[str, ...]
    random_profiles: str
    fill: bool
    tasks: int | None
    policies: tuple[str, ...]
    seeds: int
    load: float | None
    timed: bool
    no_wait: bool


@dataclass(frozen=True, slots=True)
class Job:
    """One run: what a worker process needs for it."""

    world: World
    workloads: Callable[[], list[Workload]]
    policy: str
    seed: int
    timed: bool
    wait: bool
    warm_up: float = 0.0
    """The first seconds of virtual time, which are not measured."""


def jobs_of(asked: Asked) -> list[Job]:
    """The runs in the order of the report. Ends the command with status 2 if an option or a file is wrong."""
    from dray.replay.csv_files import TraceError

    try:
        return _jobs(asked)
    except (TraceError, OSError) as error:
        raise click.UsageError(str(error)) from None


def _jobs(asked: Asked) -> list[Job]:
    from dray.replay.device_units import published_devices
    from dray.replay.random_profiles import WARM_UP

    if (asked.trace is None) != bool(asked.random_profiles):
        raise click.UsageError("give either TRACE or --random-profiles")
    _check_random(asked)
    recorded = asked.trace is not None and _is_snapshot(asked.trace)
    given = [source for source in (asked.nodes, asked.fleet, asked.snapshot) if source]
    if len(given) > 1 or (not given and not recorded):
        raise click.UsageError("give the nodes with one of --nodes, --fleet and --snapshot")
    objects = _world_objects(asked, recorded)
    published = published_devices(objects.get("ResourceSlice", ()))
    workloads: list[Workload] = []
    if asked.trace is not None:
        workloads = _recorded(asked, objects) if recorded else _read(asked.trace, asked.nodes is not None, published)
    world = _measured(objects, published)
    arriving = bool(asked.random_profiles) and not asked.fill
    timed = asked.timed or asked.no_wait or arriving
    seeds = range(1, 2 if timed and not asked.random_profiles else asked.seeds + 1)
    warm_up = WARM_UP if arriving else 0.0
    return [
        Job(
            world,
            _drawing(asked, world, published, workloads, timed, seed),
            policy,
            seed,
            timed,
            _waits(asked),
            warm_up,
        )
        for policy in dict.fromkeys(asked.policies or _DEFAULT_POLICIES)
        for seed in seeds
    ]


def _check_random(asked: Asked) -> None:
    """Raises UsageError if an option would have no effect."""
    if not asked.random_profiles and (asked.fill or asked.tasks is not None):
        raise click.UsageError("--fill and --tasks are for --random-profiles")
    if asked.fill and (asked.timed or asked.no_wait or asked.tasks is not None):
        raise click.UsageError(
            "with --fill partitions never end, until they request --load: leave out --time, --no-wait and --tasks"
        )


def _waits(asked: Asked) -> bool:
    return not (asked.no_wait or asked.random_profiles)


def _drawing(
    asked: Asked,
    world: World,
    published: Mapping[DeviceName, PublishedDevice],
    workloads: Sequence[Workload],
    timed: bool,
    seed: int,
) -> Callable[[], list[Workload]]:
    """Makes the workloads of one run."""
    from dray.replay.device_units import WHOLE
    from dray.replay.random_profiles import filling_workloads, mix_of, random_workloads
    from dray.replay.traces import drawn

    if asked.random_profiles:
        mix, load = mix_of(asked.random_profiles, published), asked.load or 100.0
        if asked.fill:
            return partial(filling_workloads, mix, published, world.drivers, load=load, seed=seed)
        number = asked.tasks or _TASKS
        return partial(random_workloads, mix, published, world.drivers, number=number, load=load, seed=seed)
    if timed:
        return partial(list, workloads)
    devices = {device.physical for name, device in published.items() if name[0] in world.drivers}
    if not devices:
        raise click.UsageError("no node has devices: give other nodes with --nodes, --fleet or --snapshot")
    if not any(workload.units for workload in workloads):
        what = "requests devices" if workloads else "is in the file"
        raise click.UsageError(f"{asked.trace}: no workload {what}; all at once, workloads with devices are needed")
    return partial(drawn, workloads, (asked.load or 130.0) / 100 * WHOLE * len(devices), seed)


# The world


def _world_objects(asked: Asked, recorded: bool) -> dict[str, list[Object]]:
    """Objects by the kind under which the scheduler receives them."""
    from dray.replay.trace_objects import trace_world
    from dray.replay.traces import read_machines

    if asked.nodes is not None:
        found = {kind: list(objects) for kind, objects in trace_world(read_machines(asked.nodes)).objects.items()}
    elif asked.fleet:
        from dray.cli.fleet_choice import chosen_fleet
        from dray.planning.fleet_scene import fleet_objects

        found = fleet_objects(chosen_fleet(asked.fleet, None).machines)
    else:
        snapshot = asked.snapshot or asked.trace
        assert snapshot is not None
        found = _snapshot_objects(snapshot)
        if recorded and asked.snapshot is None:
            from dray.replay.recordings import shared_claims

            found = {**found, "Pod": [], "ResourceClaim": shared_claims(found)}
    for kind, objects in _manifest_objects(asked.manifests).items():
        found.setdefault(kind, []).extend(objects)
    return found


def _is_snapshot(file: Path) -> bool:
    import gzip
    import zlib

    try:
        with gzip.open(file, "rb") as lines:
            return lines.read(1) == b"{"
    except (OSError, EOFError, zlib.error):
        return False


def _snapshot_objects(file: Path) -> dict[str, list[Object]]:
    from dray.cli.cluster import snapshot_cluster
    from dray.snapshot.listing import listed

    cluster = snapshot_cluster(file)
    found = asyncio.run(listed(cluster.client))
    return dict(found.objects)


def _manifest_objects(paths: tuple[str, ...]) -> dict[str, list[Object]]:
    from dray.answers.manifests.planned import planned_objects
    from dray.answers.manifests.reading import read
    from dray.answers.manifests.stored import Unusable

    if not paths:
        return {}
    reading = read(paths)
    problems = list(map(str, reading.problems))
    try:
        planned = planned_objects(reading.manifests, "default", None, time.time())
    except Unusable as unusable:
        problems += map(str, unusable.problems)
    if problems:
        raise click.UsageError(problems[0])
    planned.objects.pop("DaemonSet", None)
    return planned.objects


def _measured(objects: dict[str, list[Object]], published: Mapping[DeviceName, PublishedDevice]) -> World:
    """The world, with the drivers of accelerators: not those of CPUs and network cards."""
    from dray.drivers.devices.names import CPU, NIC
    from dray.replay.workloads import World

    return World(objects, frozenset(driver for driver, _, _ in published) - {CPU, NIC})


# Workloads


def _read(file: Path, nodes_of_trace: bool, published: Mapping[DeviceName, PublishedDevice]) -> list[Workload]:
    from dray.replay.csv_files import TraceError
    from dray.replay.trace_objects import trace_workload
    from dray.replay.traces import read_tasks
    from dray.replay.workload_files import is_workload_file, read_workloads

    if is_workload_file(file):
        return read_workloads(file, published)
    tasks = read_tasks(file)
    if not nodes_of_trace:
        raise TraceError(f"{file}: tasks with gpu_milli need --nodes; for other nodes write a column device_class")
    return [trace_workload(task) for task in tasks]


def _recorded(asked: Asked, objects: Mapping[str, Sequence[Object]]) -> list[Workload]:
    from dray.replay.device_units import published_devices
    from dray.replay.recordings import recorded_workloads

    assert asked.trace is not None
    source = _snapshot_objects(asked.trace)
    return recorded_workloads(source, published_devices(objects.get("ResourceSlice", ())))
