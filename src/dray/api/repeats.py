"""Lists compared item by item in linear time: clients may send lists of tens of thousands of items."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from typing import Any, Final

import msgspec

_CANONICAL: Final = msgspec.json.Encoder(order="deterministic").encode


def repeats(items: Iterable[Hashable]) -> Iterator[bool]:
    """Yields for each item whether an equal one came before it."""
    seen: set[Hashable] = set()
    for item in items:
        yield item in seen
        seen.add(item)


def contains_all(larger: Iterable[Any], smaller: Iterable[Any]) -> bool:
    """Whether each JSON value of the smaller list is in the larger one."""
    known = set(map(_CANONICAL, larger))
    return all(_CANONICAL(item) in known for item in smaller)
