"""The order of a list after a strategic merge.

Items that the patch names keep the patch's order, the others the order they had. The two are woven together: an item
of the second kind goes in front of one of the first where the live list had it so; without such a witness it goes
behind.
"""

from __future__ import annotations

from typing import Any

import msgspec

from dray.server.status import bad_request

_encode = msgspec.json.Encoder(order="deterministic").encode


def identity(item: Any, key: str) -> bytes:
    """What tells an item from its neighbours: its merge key, or the whole of it. May be compared and hashed."""
    return _encode(item.get(key) if key and isinstance(item, dict) else item)


def _places(items: list[Any], key: str) -> dict[bytes, int]:
    places: dict[bytes, int] = {}
    for index, item in enumerate(items):
        places.setdefault(identity(item, key), index)
    return places


def arrange(merged: list[Any], patched: list[Any], live: list[Any], key: str) -> list[Any]:
    """`merged` in order: `patched` gives that of its items, `live` that of the others."""
    named, present = _places(patched, key), _places(live, key)
    known = [(identity(item, key), item) for item in merged]
    ours = sorted((pair for pair in known if pair[0] in named), key=lambda pair: named[pair[0]])
    theirs = [pair for pair in known if pair[0] not in named]
    theirs.sort(key=lambda pair: present.get(pair[0], len(present)))
    return _weave(theirs, ours, present)


def _weave(left: list[tuple[bytes, Any]], right: list[tuple[bytes, Any]], present: dict[bytes, int]) -> list[Any]:
    woven: list[Any] = []
    i = j = 0
    while i < len(left) and j < len(right):
        (a, first), (b, second) = left[i], right[j]
        if a in present and b in present and present[a] < present[b]:
            woven.append(first)
            i += 1
        else:
            woven.append(second)
            j += 1
    return woven + [item for _, item in left[i:]] + [item for _, item in right[j:]]


def check(changes: list[Any], order: list[Any], key: str) -> None:
    """Every item that the patch changes must stand in the order it gives, and in that order."""
    places = _places(order, key)
    at = -1
    for item in changes:
        if isinstance(item, dict) and "$patch" in item:
            continue
        place = places.get(identity(item, key), -1)
        if place <= at:
            raise bad_request("the order in the patch list does not match its $setElementOrder list")
        at = place
