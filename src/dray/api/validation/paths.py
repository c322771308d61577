"""Paths of files in volumes and containers, and texts that a node hands to its kernel."""

from __future__ import annotations

from typing import Any

import msgspec

from dray.api import errors
from dray.api.validation.fields import Errors

_NUL = "\0"
_NUL_IN_JSON = b"\\u0000"


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
    # Encoding the value costs a tenth of a look at each of its strings.
    if _NUL_IN_JSON in msgspec.json.encode(value):
        yield from _each_nul(value, path)


def _each_nul(value: Any, path: str) -> Errors:
    if isinstance(value, str):
        if _NUL in value:
            yield errors.invalid(path, value, "must not contain a NUL character")
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield from _each_nul(inner, f"{path}.{name}")
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _each_nul(inner, f"{path}[{index}]")
