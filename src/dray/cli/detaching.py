"""`dray up --detach`: the cluster in a process of its own, in the background, awaited until it is ready.

The process writes what people should know to a pipe once it is ready, and everything else to a log in its data
directory. A pipe that ends without a word means that it has failed; the log says why.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from dray.process import up_state


def detach(data: Path) -> int:
    """Goes on in the background, with the descriptor to announce itself to; in the foreground it does not return."""
    if (state := up_state.read(data)) is not None:
        click.echo(
            f"error: a cluster with {data} runs already, at {state.url} (process {state.pid}): "
            f"`dray status --data {data}` shows it, `dray down --data {data}` stops it",
            err=True,
        )
        sys.exit(2)
    data.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = data / up_state.LOG
    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    began = os.fstat(log).st_size
    reading, writing = os.pipe()
    child = os.fork()
    if child:
        os.close(writing)
        sys.exit(_await(child, reading, data, path, began))
    os.close(reading)
    # An interrupt from the terminal, and its end, are not meant for it.
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDONLY)
    for descriptor, number in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(descriptor, number)
    os.close(nothing)
    os.close(log)
    return writing


def _await(child: int, reading: int, data: Path, log: Path, began: int) -> int:
    with open(reading) as pipe:
        said = pipe.read()
    if said:
        click.echo(said, nl=False)
        click.echo(f"log: {log}; `dray down --data {data}` stops it")
        return 0
    _, status = os.waitpid(child, 0)
    with log.open("rb") as written:
        written.seek(began)
        click.echo(written.read().decode(errors="replace"), nl=False, err=True)
    return os.waitstatus_to_exitcode(status) or 1


def announce(descriptor: int, text: str) -> None:
    with open(descriptor, "w") as pipe:
        pipe.write(text)
