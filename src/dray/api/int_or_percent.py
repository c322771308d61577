"""Values that are a number or a percentage of a total (`IntOrString`): how much they come to."""

from __future__ import annotations

from dray.api.objects import int64


def scaled(value: int | str, total: int, *, up: bool = True) -> int:
    """Returns a number as it is, or a percentage of the total, rounded up or down; 0 for other texts."""
    if isinstance(value, int):
        return value
    share = max(0, int64(value.removesuffix("%")) or 0) * total
    return -(-share // 100) if up else share // 100
