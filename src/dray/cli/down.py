"""`dray down`: ends a cluster that runs in the background, as Ctrl-C ends one at a terminal."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from pathlib import Path
from typing import Final

import click

from dray.cli import up_state
from dray.cli.up_state import UpState

_PATIENCE: Final = 60.0
_POLL: Final = 0.1

data_option = click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False),
    help="Of the cluster; where --detach keeps one unless told otherwise.",
)


@click.command()
@data_option
@click.option("--pods", is_flag=True, help="End the pods of this machine too.")
def down(data: Path | None, pods: bool) -> None:
    """End the cluster that `dray up` runs with this directory.

    What it keeps stays, and the next `dray up` carries on with it. Pods of this machine go on running, as after Ctrl-C,
    and the next start finds them; with --pods they end too, and the next start treats them as after a reboot.

    Exit status: 0 ended, or none was running, 2 it cannot be ended.
    """
    place = data or up_state.default_data()
    state = up_state.read(place)
    if state is None:
        click.echo(f"no cluster runs with {place}")
        return
    try:
        os.kill(state.pid, signal.SIGTERM)
    except PermissionError:
        click.echo(f"error: process {state.pid} is another user's", err=True)
        sys.exit(2)
    except ProcessLookupError:
        pass
    end = time.monotonic() + _PATIENCE
    while up_state.is_running(state):
        if time.monotonic() > end:
            log = place / up_state.LOG
            click.echo(f"error: process {state.pid} has not ended within {_PATIENCE:g} s; see {log}", err=True)
            sys.exit(2)
        time.sleep(_POLL)
    ended = asyncio.run(_end_pods(state)) if pods else None
    click.echo(_told(state, ended))


async def _end_pods(state: UpState) -> int:
    from dray.cli.machine import MachineOptions, end_pods

    return sum([await end_pods(MachineOptions(each.name, Path(each.root), each.runtime)) for each in state.nodes])


def _told(state: UpState, ended: int | None) -> str:
    parts = ["API server", "scheduler", "controllers", *(f"node {each.name}" for each in state.nodes)]
    rest = ""
    if ended is not None:
        rest = f"; {ended} pod{'' if ended == 1 else 's'} ended"
    elif state.nodes and state.keeps_pods:
        rest = "; pods of this machine go on running"
    return f"stopped: {', '.join(parts)}, at {state.url} since {state.since}{rest}"
