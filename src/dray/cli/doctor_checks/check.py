"""Result of a check: whether something works, what was found, and the remedy if it does not."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    OK = "ok"
    INFO = "info"
    """Nothing to do: something that is not needed is not there."""
    WARNING = "warning"
    """dray works, with the disadvantage that the message names."""
    ERROR = "error"
    """Something does not work until the remedy is applied."""


@dataclass(frozen=True, slots=True)
class Check:
    name: str
    level: Level
    message: str
    remedy: str = ""


def checked(name: str, look: Callable[[], Iterable[Check]]) -> list[Check]:
    """Returns the results of a check. A check that fails itself is a warning and does not keep others from running."""
    try:
        return list(look())
    except (OSError, ValueError, subprocess.SubprocessError) as problem:
        return [warning(name, f"cannot be checked: {problem}", "run dray doctor as root")]


def ok(name: str, message: str) -> Check:
    return Check(name, Level.OK, message)


def info(name: str, message: str, remedy: str = "") -> Check:
    return Check(name, Level.INFO, message, remedy)


def warning(name: str, message: str, remedy: str) -> Check:
    return Check(name, Level.WARNING, message, remedy)


def error(name: str, message: str, remedy: str) -> Check:
    return Check(name, Level.ERROR, message, remedy)
