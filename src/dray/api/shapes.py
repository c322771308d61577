"""Reading documents that may have any shape.

What comes from a file is not what a schema promises. These give the mapping, list or text that stands at a
place, and an empty one where something else stands, so that rules can be written without a ladder of type
checks.
"""

from __future__ import annotations

from typing import Any


def mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def sequence(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def objects(value: Any) -> list[dict[str, Any]]:
    """The members of a list that are mappings."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def strings(value: Any) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def walk(value: Any, *names: str) -> dict[str, Any]:
    """The mapping below `value` along the names."""
    for name in names:
        value = mapping(value).get(name)
    return mapping(value)
