"""Paths of files in volumes and containers, and texts that a node hands to its kernel."""

from __future__ import annotations

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
    if isinstance(value, str):
        if _NUL in value:
            yield errors.invalid(path, value, "must not contain a NUL character")
    elif isinstance(value, dict):
        for name, inner in value.items():
            if _has_nul(inner):
                yield from no_nul(inner, f"{path}.{name}")
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            if _has_nul(inner):
                yield from no_nul(inner, f"{path}[{index}]")


def _has_nul(value: Any) -> bool:
    """Whether any string in the value has a NUL character."""
    waiting = [value]
    for current in waiting:
        if isinstance(current, str):
            if _NUL in current:
                return True
        elif isinstance(current, dict):
            waiting += current.values()
        elif isinstance(current, list):
            waiting += current
    return False
