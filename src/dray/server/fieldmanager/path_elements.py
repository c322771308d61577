"""The steps of a path into an object, in the form that `fieldsV1` writes them.

    f:name            a member            v:"x"   an item of a set, by value
    k:{"name":"x"}    an item of a list, by its keys        i:0   an item, by position

A step is kept as this text; it is made in one way only, so that equal steps are equal texts.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import msgspec

from dray.api.caches import LONGEST

_encode = msgspec.json.Encoder(order="sorted").encode
_KINDS = ("f", "k", "v", "i")


def member(name: str) -> str:
    return "f:" + name


def keyed(keys: dict[str, Any]) -> str:
    return "k:" + _encode(keys).decode()


def keyed_by(name: str, text: str) -> str:
    """Faster `keyed` for the common list: one key with a text value."""
    return _short_key(name, text) if len(text) <= LONGEST else keyed({name: text})


@lru_cache(maxsize=1024)
def _short_key(name: str, text: str) -> str:
    return keyed({name: text})


def value(item: Any) -> str:
    return "v:" + _encode(item).decode()


def canonical(text: str) -> str | None:
    """Returns the canonical form of a step from a client; None if it is invalid."""
    kind, colon, rest = text.partition(":")
    if not colon or kind not in _KINDS:
        return None
    if kind == "f":
        return text
    try:
        content = msgspec.json.decode(rest)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    expected: type = dict if kind == "k" else int if kind == "i" else object
    return f"{kind}:{_encode(content).decode()}" if isinstance(content, expected) else None


def in_order(steps: Iterable[str]) -> list[str]:
    """Sorts steps: the dot for the field itself, members, keys, values, positions."""
    found = sorted(steps)
    # Only positions sort differently from their first letter.
    return found if not found or found[-1] < "i" else sorted(found, key=lambda step: (step[0] == "i", step))


def render(path: tuple[str, ...]) -> str:
    """Returns a path as messages and causes show it: `.spec.containers[name="m"].image`."""
    return "".join(_render_step(step) for step in path)


def _render_step(step: str) -> str:
    kind, rest = step[0], step[2:]
    if kind == "f":
        return "." + rest
    if kind == "k":
        keys = msgspec.json.decode(rest)
        return "[" + ",".join(f"{name}={_encode(content).decode()}" for name, content in keys.items()) + "]"
    return f"[={rest}]" if kind == "v" else f"[{rest}]"
