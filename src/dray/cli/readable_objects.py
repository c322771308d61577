"""Warns of an object that a scheduler's core cannot read and a command leaves out, as a running scheduler does."""

from __future__ import annotations

import click

from dray.api.objects import Object, key_of
from dray.cli.reports import one_line


def warn_unreadable(kind: str, obj: Object, error: Exception) -> None:
    name = "/".join(filter(None, key_of(obj)))
    said = one_line(str(error)) or type(error).__name__
    click.echo(f"warning: {kind} {name} cannot be read and is left out: {said}", err=True)
