"""Result of a check: whether something works, what was found, and the remedy if it does not."""

from __future__ import annotations

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


def ok(name: str, message: str) -> Check:
    return Check(name, Level.OK, message)


def info(name: str, message: str, remedy: str = "") -> Check:
    return Check(name, Level.INFO, message, remedy)


def warning(name: str, message: str, remedy: str) -> Check:
    return Check(name, Level.WARNING, message, remedy)


def error(name: str, message: str, remedy: str) -> Check:
    return Check(name, Level.ERROR, message, remedy)
