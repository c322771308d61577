"""JSON merge patch (RFC 7386): a null removes, an object merges, everything else replaces.

As in Kubernetes, nulls vanish from whatever the patch brings in, also from objects within its lists.
"""

from __future__ import annotations

from typing import Any

from dray.server.status import bad_request


def merge_patch(document: dict[str, Any], patch: Any) -> dict[str, Any]:
    """Returns the patched document; the argument is not changed."""
    if not isinstance(patch, dict):
        raise bad_request("a merge patch must be a JSON object")
    return _merge(document, patch)


def _merge(document: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    merged = dict(document)
    for name, value in patch.items():
        present = merged.get(name)
        if value is None:
            merged.pop(name, None)
        elif isinstance(present, dict) and isinstance(value, dict):
            merged[name] = _merge(present, value)
        else:
            merged[name] = without_nulls(value)
    return merged


def without_nulls(value: Any) -> Any:
    """Returns a copy in which no object has a null member."""
    if isinstance(value, dict):
        return {
            name: without_nulls(item) if isinstance(item, (dict, list)) else item
            for name, item in value.items()
            if item is not None
        }
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    return value
