"""`dray replay`: plays the tasks of a trace against nodes, under several policies side by side. No server needed."""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dray.cli.output_formats import output_option, structured
from dray.cli.policies import POLICY_NAMES

if TYPE_CHECKING:
    from dray.replay.simulation import Run
    from dray.replay.traces import Machine, Task


@dataclass(frozen=True, slots=True)
class Job:
    """One run: what a worker process needs for it."""

    machines: list[Machine]
    tasks: list[Task]
    policy: str
    seed: int
    load: float
    timed: bool


@click.command()
@click.argument("trace", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--nodes",
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="CSV file with the nodes: sn, cpu_milli, memory_mib, gpu, model.",
)
@click.option(
    "--policy",
    "policies",
    type=click.Choice(POLICY_NAMES),
    multiple=True,
    help="Policy to play; repeatable. Default: kubernetes and pack.",
)
@click.option("--seeds", default=1, show_default=True, type=click.IntRange(1), metavar="N", help="Runs per policy.")
@click.option(
    "--load",
    default=130.0,
    show_default=True,
    type=click.FloatRange(0, min_open=True),
    metavar="PERCENT",
    help="Draw tasks until they request this part of all GPUs.",
)
@click.option("--time", "timed", is_flag=True, help="Play in virtual time: tasks arrive, wait, run and end.")
@click.option("--jobs", default=1, show_default=True, type=click.IntRange(1), metavar="N", help="Processes to use.")
@click.option("--plot", type=click.Path(dir_okay=False, path_type=Path), help="Write a plot to this SVG file.")
@output_option("table", "json", "yaml")
def replay(
    trace: Path,
    nodes: Path,
    policies: tuple[str, ...],
    seeds: int,
    load: float,
    timed: bool,
    jobs: int,
    plot: Path | None,
    output: str,
) -> None:
    """Play the tasks of a trace against nodes and compare policies.

    TRACE is a CSV file with the columns cpu_milli, memory_mib, num_gpu, gpu_milli, and optionally gpu_spec,
    creation_time and deletion_time. Files may be compressed (.gz). The real scheduler runs in this process.

    Tasks come in a random order and never end, and a task that does not fit when it comes is refused. With --time
    they come at their creation time, wait until they fit, and end after their run time; --load and --seeds are ignored.

    \b
    Examples:
      dray replay tasks.csv --nodes nodes.csv
      dray replay tasks.csv --nodes nodes.csv --policy pack --policy spread --seeds 10 --jobs 2 --plot packing.svg
      dray replay tasks.csv --nodes nodes.csv --time -o json

    Exit status: 0 played, 2 a file cannot be read.
    """
    from dray.replay import reports
    from dray.replay.traces import TraceError, read_machines, read_tasks

    try:
        machines, tasks = read_machines(nodes), read_tasks(trace)
    except (TraceError, OSError, UnicodeDecodeError) as error:
        raise click.UsageError(str(error)) from None
    if not any(task.units for task in tasks) or not any(machine.gpus for machine in machines):
        raise click.UsageError("no task requests GPUs, or no node has any")
    numbers = range(1, 2 if timed else seeds + 1)
    todo = [
        Job(machines, tasks, policy, seed, load, timed)
        for policy in dict.fromkeys(policies or ("kubernetes", "pack"))
        for seed in numbers
    ]
    runs = _played(todo, jobs)
    if plot is not None:
        plot.write_text(reports.plot(runs, timed=timed))
    if output in ("json", "yaml"):
        click.echo(structured(reports.document(runs, timed=timed), output), nl=False)
        return
    rows = list(reports.rows(runs, timed=timed))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        click.echo("   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _played(todo: list[Job], jobs: int) -> list[Run]:
    """Plays all runs, with a progress bar on a terminal; the runs are in the order of the jobs."""
    scale = 1000
    found: dict[int, Run] = {}
    hidden = not sys.stderr.isatty()
    with click.progressbar(length=scale * len(todo), label="Replaying", file=sys.stderr, hidden=hidden) as bar:
        if jobs == 1 or len(todo) == 1:
            for number, job in enumerate(todo):
                found[number] = play(job, lambda part: bar.update(int(scale * (len(found) + part)) - bar.pos))
        else:
            with ProcessPoolExecutor(min(jobs, len(todo))) as pool:
                futures = {pool.submit(play, job): number for number, job in enumerate(todo)}
                for future in as_completed(futures):
                    found[futures[future]] = future.result()
                    bar.update(scale)
    return [found[number] for number in range(len(todo))]


def play(job: Job, progress: Callable[[float], None] = lambda _: None) -> Run:
    from dray.replay.simulation import Simulation
    from dray.replay.traces import WHOLE, drawn

    simulation = Simulation(job.machines, job.policy, job.seed)
    if job.timed:
        return simulation.play_in_time(job.tasks, progress)
    units = job.load / 100 * WHOLE * sum(machine.gpus for machine in job.machines)
    return simulation.play(drawn(job.tasks, units, job.seed), progress)
