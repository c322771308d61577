"""Label selectors by their text, so that equal ones are one and are compiled once."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import msgspec

from dray.api import label_selectors
from dray.api.label_selectors import Matcher
from dray.api.shapes import mapping, objects

_encode = msgspec.json.Encoder(order="deterministic").encode


def text(selector: Any) -> bytes | None:
    """What `matcher` takes. None for a selector that is absent."""
    if not isinstance(selector, dict):
        return None
    members = {"matchLabels": mapping(selector.get("matchLabels"))}
    return _encode({**members, "matchExpressions": objects(selector.get("matchExpressions"))})


@lru_cache(maxsize=16_384)
def matcher(selector: bytes | None) -> Matcher:
    """An absent selector matches nothing, an empty one everything."""
    return label_selectors.nothing if selector is None else label_selectors.from_object(msgspec.json.decode(selector))
