"""`dray down`: ends a cluster that runs in the background, as Ctrl-C ends one at a terminal."""

from __future__ import annotations

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
def down(data: Path | None) -> None:
    """End the cluster that `dray up` runs with this directory.

    What it keeps stays, and the next `dray up` carries on with it. So do pods of this machine: they go on running, as
    after Ctrl-C, and the next start finds them.

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
    click.echo(_told(state))


def _told(state: UpState) -> str:
    parts = ["API server", "scheduler", "controllers", *(f"node {each}" for each in state.nodes)]
    rest = "; pods of this machine go on running" if state.nodes and state.keeps_pods else ""
    return f"stopped: {', '.join(parts)}, at {state.url} since {state.since}{rest}"
