"""Scheduler plugins of users on the command line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])


def plugin_option(command: Command) -> Command:
    """Gives a command the option `plugins`."""
    return click.option(
        "--plugin",
        "plugins",
        multiple=True,
        metavar="MODULE:CLASS",
        callback=_well_formed,
        help="Scheduler plugin: MODULE:CLASS, FILE.py:CLASS, or a name from an installed package; -NAME switches "
        "it off. Repeatable.",
    )(command)


def _well_formed(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    wrong = [entry for entry in value if not entry.strip("-") or entry.startswith(":") or entry.endswith(":")]
    if wrong:
        raise click.BadParameter(f"{wrong[0]!r} is not of the form MODULE:CLASS, FILE.py:CLASS, NAME or -NAME")
    return value
