"""Durations on the command line, as kubectl takes them: 90s, 1m30s, or a plain number of seconds."""

from __future__ import annotations

import re
from typing import Final

import click

_DURATION: Final = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|s|m|h))+|\d+(?:\.\d+)?")
_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "": 1.0}


def seconds(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    """The callback of an option; None where it is not given."""
    if value is None:
        return None
    if not _DURATION.fullmatch(value):
        raise click.BadParameter(f"{value!r} is not a duration like 30s, 5m or 1m30s")
    parts = re.findall(r"(\d+(?:\.\d+)?)(ms|s|m|h|)", value)
    return sum(float(number) * _SECONDS[unit] for number, unit in parts)
