"""`dray replay --record`: records the pods and claims of a running cluster, to play them later."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import NoReturn

import click

from dray.answers.one_line import one_line
from dray.cli.cluster import Cluster, Where, ask


def record_cluster(where: Where, target: Path, seconds: float | None) -> NoReturn:
    """Ends the command: 0 written, 1 the server refused, 2 it cannot be reached or the file cannot be written."""

    async def work(cluster: Cluster) -> int:
        from dray.snapshot.files import SnapshotError, write
        from dray.snapshot.recording import Recorder, record

        stop = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        until = f"for {seconds:g} s" if seconds is not None else "until it is interrupted (Ctrl-C)"
        click.echo(f"recording {until}", err=True)
        taken = await record(cluster.client, cluster.namespace, Recorder(cluster.now), seconds, stop)
        try:
            size = write(taken, target)
        except SnapshotError as error:
            click.echo(one_line(f"error: {error}"), err=True)
            return 2
        pods = len(taken.objects.get(("v1", "Pod"), ()))
        counted = f"{pods} pod{'s' * (pods != 1)}"
        click.echo(f"wrote {target} ({-(-size // 1024)} KiB): {counted}; play it with `dray replay {target} --time`")
        return 0

    ask(where, work)
