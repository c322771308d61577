"""Paths of files in volumes and containers, and texts that a node hands to its kernel."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dray.api import errors
from dray.api.validation.fields import Errors

_NUL = "\0"


def no_backsteps(value: str, path: str) -> Errors:
    if ".." in value.split("/"):
        yield errors.invalid(path, value, "must not contain '..'")


def descending(value: str, path: str) -> Errors:
    """Checks that the path is relative and has no `..`."""
    if value.startswith("/"):
        yield errors.invalid(path, value, "must be a relative path")
    yield from no_backsteps(value, path)


def non_reserved(value: str, path: str) -> Errors:
    """Checks that the path is relative, and does not start with `..`, which the volume itself uses."""
    yield from descending(value, path)
    if value.startswith("..") and not value.startswith("../"):
        yield errors.invalid(path, value, "must not start with '..'")


def no_nul(value: Any, path: str) -> Errors:
    """Kubernetes accepts a NUL character in commands, variables and paths, and no node can ever run such a pod."""
    for at, text in _texts(value, path):
        if _NUL in text:
            yield errors.invalid(at, text, "must not contain a NUL character")


def _texts(value: Any, path: str) -> Iterator[tuple[str, str]]:
    """Yields the path and the text of every string in a value, in no particular order."""
    waiting: list[tuple[Any, str]] = [(value, path)]
    while waiting:
        current, at = waiting.pop()
        if isinstance(current, str):
            yield at, current
        elif isinstance(current, dict):
            waiting += [(inner, f"{at}.{name}") for name, inner in current.items()]
        elif isinstance(current, list):
            waiting += [(inner, f"{at}[{index}]") for index, inner in enumerate(current)]
