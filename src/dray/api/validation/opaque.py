"""Driver configuration that Kubernetes passes on unread: `opaque.driver` and `opaque.parameters`."""

from __future__ import annotations

from typing import Any

from dray.api import errors
from dray.api.objects import Object
from dray.api.validation import fields
from dray.api.validation.fields import Errors

MAX_PARAMETERS = 10240


def validate(configuration: Object, path: str, *, stored: bool = False) -> Errors:
    """One entry of a list of configurations; `stored` entries may be longer than today's limit."""
    opaque = configuration.get("opaque")
    path = f"{path}.opaque"
    if opaque is None:
        yield errors.required(path)
        return
    yield from fields.driver(opaque["driver"], f"{path}.driver")
    parameters = opaque["parameters"]
    if parameters is None:
        yield errors.required(f"{path}.parameters")
    else:
        yield from raw_object(parameters, f"{path}.parameters", limit=None if stored else MAX_PARAMETERS)


def raw_object(value: Any, path: str, *, limit: int | None) -> Errors:
    """A raw extension: a JSON object of at most `limit` bytes."""
    if limit is not None and _size(value) > limit:
        yield errors.too_long(path, limit)
    elif not isinstance(value, dict):
        yield errors.invalid(path, "<value omitted>", "must be a JSON object")


def _size(value: Any) -> int:
    import msgspec

    return len(msgspec.json.encode(value))
