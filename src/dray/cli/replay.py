"""`dray replay`: plays workloads against nodes, under several policies side by side. No server needed."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from dray.cli.cluster import Where, reaching
from dray.cli.durations import seconds
from dray.cli.output_formats import output_option, structured
from dray.cli.policies import REPLAY_POLICIES

if TYPE_CHECKING:
    from dray.cli.replay_input import Job
    from dray.replay.runs import Run

_MOST_LOAD: Final = 10_000
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


class Percent(click.ParamType[float]):
    name = "percent"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            number = float(str(value))
        except ValueError:
            number = 0.0
        # Also false for NaN.
        if not 0 < number <= _MOST_LOAD:
            self.fail(f"{value!r} is not a number of percent above 0 and up to {_MOST_LOAD}", param, ctx)
        return number


def _writable(ctx: click.Context, param: click.Parameter, value: Path | None) -> Path | None:
    """Refuses a file that cannot be written, before hours are spent on what is written to it in the end."""
    if value is not None and not os.access(value if value.exists() else value.parent, os.W_OK):
        raise click.BadParameter(f"cannot write {value}: no such folder, or no permission", ctx, param)
    return value


@click.command()
@click.argument("trace", type=_FILE, required=False)
@click.option("--nodes", type=_FILE, help="CSV file with the nodes: sn, cpu_milli, memory_mib, gpu, model.")
@click.option("--fleet", multiple=True, metavar="TYPE=N,...|FILE", help="Play against these machines, without pods.")
@click.option("--snapshot", type=_FILE, help="Play against the nodes, pods and queues of this snapshot.")
@click.option(
    "--filename", "-f", "manifests", multiple=True, metavar="PATH", help="Manifests to add, such as queues; repeatable."
)
@click.option(
    "--random-profiles",
    metavar="all|PROFILE=WEIGHT,...",
    default="",
    help="Play random partitions (MIG profiles) in virtual time, instead of a file.",
)
@click.option("--fill", is_flag=True, help="Random partitions never end; they come until they request --load.")
@click.option(
    "--tasks",
    default=None,
    type=click.IntRange(1, 1_000_000),
    help="Number of random partitions after the cluster has filled. Default: 2000.",
)
@click.option(
    "--policy",
    "policies",
    type=click.Choice(REPLAY_POLICIES),
    multiple=True,
    help="Policy to play; repeatable. Default: kubernetes and pack.",
)
@click.option(
    "--seeds", default=1, show_default=True, type=click.IntRange(1, 1000), metavar="N", help="Runs per policy."
)
@click.option(
    "--load",
    default=None,
    type=Percent(),
    metavar="PERCENT",
    help="Draw tasks until they request this part of all GPUs. Default: 130; 100 for random partitions.",
)
@click.option("--time", "timed", is_flag=True, help="Play in virtual time: tasks arrive, wait, run and end.")
@click.option("--no-wait", is_flag=True, help="Refuse what does not fit when it arrives, in virtual time.")
@click.option(
    "--jobs", default=1, show_default=True, type=click.IntRange(1, 256), metavar="N", help="Processes to use."
)
@click.option(
    "--plot",
    type=click.Path(dir_okay=False, path_type=Path),
    callback=_writable,
    metavar="FILE",
    help="Write plots to this SVG file.",
)
@click.option(
    "--record",
    type=click.Path(dir_okay=False, path_type=Path),
    callback=_writable,
    metavar="FILE",
    help="Record the pods of a running cluster to FILE, instead of playing.",
)
@click.option(
    "--for", "duration", callback=seconds, metavar="DURATION", help="How long to record. Default: until interrupted."
)
@output_option("table", "json", "yaml")
@reaching
def replay(
    plot: Path | None,
    jobs: int,
    output: str,
    record: Path | None,
    duration: float | None,
    kubeconfig: Path | None,
    context: str,
    **asked: object,
) -> None:
    """Play workloads against nodes and compare policies.

    TRACE is a CSV file (see `docs/replay.md` for its columns), or a snapshot or recording whose pods are played. Nodes
    are those of --nodes, --fleet or --snapshot; of TRACE itself if it is a snapshot. Files may be compressed (.gz). The
    real scheduler runs in this process.

    Workloads come in a random order and never end, and a workload that does not fit when it comes is refused. With
    --time they come at their time, wait until they fit, and end after their run time; --load and --seeds are ignored.

    \b
    Examples:
      dray replay tasks.csv --nodes nodes.csv
      dray replay tasks.csv --nodes nodes.csv --policy pack --policy spread --seeds 10 --jobs 2 --plot packing.svg
      dray replay tasks.csv --fleet p5.48xlarge=4 -f queues.yaml --time -o json
      dray replay --record monday.recording --for 1h
      dray replay monday.recording --time --policy kubernetes --policy pack
      dray replay --random-profiles all --fleet p5.48xlarge:mig=8 --policy first-fit --policy pack --load 110
      dray replay --random-profiles 1g.10gb=3,7g.80gb=1 --fill --load 85 --fleet a2-ultragpu-1g:mig=100 --policy pack

    Exit status: 0 played or recorded, 1 the server refused, 2 a file cannot be read, an option is wrong, or the server
    cannot be reached.
    """
    if record is not None:
        from dray.cli.replay_recording import record_cluster

        record_cluster(Where(kubeconfig, context, ""), record, duration)
    from dray.cli.replay_input import Asked, jobs_of
    from dray.replay import reports

    wanted = Asked(**asked)  # type: ignore[arg-type]
    todo = jobs_of(wanted)
    timed = todo[0].timed
    if timed and not wanted.random_profiles and (wanted.load is not None or wanted.seeds > 1):
        click.echo("note: --load and --seeds have no effect with --time: workloads come once, at their times", err=True)
    runs = _played(todo, jobs)
    for error in dict.fromkeys(error for run in runs for error in run.errors):
        click.echo(f"note: {error}", err=True)
    if plot is not None:
        plot.write_text(reports.plot(runs, timed=timed))
    if output in ("json", "yaml"):
        click.echo(structured(reports.document(runs, timed=timed), output), nl=False)
        return
    for number, table in enumerate(reports.tables(runs, timed=timed)):
        if number:
            click.echo()
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        for row in table:
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
    """Plays one run; also in a worker process."""
    from dray.replay.simulation import Simulation

    simulation = Simulation(job.world, job.policy, job.seed)
    workloads = job.workloads()
    if job.timed:
        return simulation.play_in_time(workloads, progress, wait=job.wait, warm_up=job.warm_up)
    return simulation.play(workloads, progress)
