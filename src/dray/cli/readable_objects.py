"""Gives objects to a scheduler's core for a command. An object that it cannot read is left out, with a warning.

The scheduler of a cluster does the same with an event. So a command answers what the scheduler would do.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from dray.api.objects import Object, key_of
from dray.cli.reports import one_line

if TYPE_CHECKING:
    from dray.scheduling.scheduler import Scheduler


def put_readable(scheduler: Scheduler, kind: str, objects: Iterable[Object], now: float) -> None:
    for obj in objects:
        try:
            scheduler.put(kind, obj, now)
        except Exception as error:
            name = "/".join(filter(None, key_of(obj)))
            said = one_line(str(error)) or type(error).__name__
            click.echo(f"warning: {kind} {name} cannot be read and is left out: {said}", err=True)
