"""JSON merge patches (RFC 7396) between two documents without null values."""

from __future__ import annotations

from typing import Any

from dray.api.objects import Object


def difference(before: Object, after: Object) -> Object | None:
    """Returns the patch that makes `after` of `before`; None if they are equal."""
    patch: dict[str, Any] = {name: None for name in before if name not in after}
    for name, value in after.items():
        old = before.get(name)
        if old is None or not (isinstance(old, dict) and isinstance(value, dict)):
            if old != value or name not in before:
                patch[name] = value
        elif old != value:
            patch[name] = difference(old, value)
    return patch or None
