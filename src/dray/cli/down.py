"""`dray down`: ends a cluster that runs in the background, as Ctrl-C ends one at a terminal."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

import click

from dray.cli.absolute_path import AbsolutePath
from dray.process import up_state
from dray.process.up_state import UpState

if TYPE_CHECKING:
    from dray.cli.machine import EndedPods

_PATIENCE: Final = 60.0
_KILL_SECONDS: Final = 10.0
_POLL: Final = 0.1

data_option = click.option(
    "--data",
    type=AbsolutePath(file_okay=False),
    help="Data directory. Default: ~/.local/share/dray, as for `dray up --detach`.",
)


@click.command()
@data_option
@click.option("--pods", is_flag=True, help="Stop the pods of this machine too.")
def down(data: Path | None, pods: bool) -> None:
    """Stop the cluster that `dray up` runs with this directory.

    The data stays, and the next `dray up` continues with it. Pods of this machine keep running, as after Ctrl-C, and
    the next start finds them. With --pods they are stopped too, also if the cluster has ended before.

    A cluster that does not end within a minute is killed, which loses nothing that was stored.

    \b
    Examples:
      dray down
      dray down --pods --data ~/lab

    Exit status: 0 stopped, or nothing was running, 2 the cluster or one of its pods cannot be stopped.
    """
    place = data or up_state.default_data()
    state = up_state.read(place)
    if state is None:
        before = up_state.last(place) if pods else None
        left = asyncio.run(_end_pods(before)) if before is not None else None
        counted = f"; {_counted(left.count)} ended" if left is not None and left.count else ""
        click.echo(f"no cluster runs with {place}{counted}{'' if data else other_clusters()}")
        _finish(left)
    _end(state, place)
    ended = asyncio.run(_end_pods(state)) if pods else None
    click.echo(_told(state, place, ended.count if ended is not None else None))
    _finish(ended)


def other_clusters() -> str:
    """Returns a text that names the data directories of running clusters; empty if none runs."""
    places = [str(Path(state.kubeconfig).parent) for state in up_state.running()]
    return f"; clusters run with {', '.join(places)}: name one with --data" if places else ""


def _finish(ended: EndedPods | None) -> NoReturn:
    """Ends the command, with the pods that could not be ended."""
    failures = ended.failures if ended is not None else ()
    for failure in failures:
        click.echo(f"error: {failure}", err=True)
    sys.exit(2 if failures else 0)


def _end(state: UpState, place: Path) -> None:
    """Ends the command where the cluster cannot be ended."""
    for number, seconds in ((signal.SIGTERM, _PATIENCE), (signal.SIGKILL, _KILL_SECONDS)):
        try:
            os.kill(state.pid, number)
        except PermissionError:
            click.echo(f"error: process {state.pid} is another user's", err=True)
            sys.exit(2)
        except ProcessLookupError:
            return
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if not up_state.is_running(state):
                return
            time.sleep(_POLL)
        if number == signal.SIGTERM:
            # What it keeps withstands that.
            said = f"process {state.pid} has not ended within {_PATIENCE:g} s and is killed; see {place / up_state.LOG}"
            click.echo(f"warning: {said}", err=True)
    click.echo(f"error: process {state.pid} does not end although it was killed", err=True)
    sys.exit(2)


async def _end_pods(state: UpState) -> EndedPods:
    from dray.cli.machine import EndedPods, MachineOptions, end_pods

    machines = [MachineOptions(node.name, Path(node.root), node.runtime) for node in state.nodes]
    found = await asyncio.gather(*map(end_pods, machines))
    return EndedPods(sum(group.count for group in found), tuple(group for one in found for group in one.failures))


def _told(state: UpState, place: Path, ended: int | None) -> str:
    parts = ["API server", "scheduler", "controllers", *(f"node {node.name}" for node in state.nodes)]
    rest = ""
    if ended is not None:
        rest = f"; {_counted(ended)} ended"
    elif state.nodes and state.keeps_pods:
        rest = f"; pods of this machine keep running: `dray down --pods --data {place}` ends them"
    return f"stopped: {', '.join(parts)}, at {state.url} since {state.since}{rest}"


def _counted(pods: int) -> str:
    return f"{pods} pod{'' if pods == 1 else 's'}"
