"""Reading documents that may have any shape.

What comes from a file is not what a schema promises. These give the mapping, list or text that stands at a
place, and an empty one where something else stands, so that rules can be written without a ladder of type
checks.
"""

from __future__ import annotations

import re
from typing import Any, Final

_INT64: Final = re.compile(r"([+-]?)0*(\d{1,19})", re.ASCII)


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


def int64(value: Any) -> int | None:
    """The whole number that a text stands for, as Go's ParseInt reads it; None where it is none or beyond 64 bits."""
    match = _INT64.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        return None
    number = int(match[1] + match[2])
    return number if -(2**63) <= number < 2**63 else None


def bounded(value: Any, least: int, most: int, default: int = 0) -> int:
    """A whole number within bounds, however large the one is that was written; the default where there is none."""
    return max(least, min(most, value)) if isinstance(value, int) and not isinstance(value, bool) else default
