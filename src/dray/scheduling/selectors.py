"""Label selectors by their text, so that equal ones are one and are compiled once."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from dray.api import label_selectors
from dray.api.caches import Cache
from dray.api.label_selectors import Matcher
from dray.api.objects import mapping, mappings

# What is made of a selector is several times as large as its text.
_known: Final[Cache[bytes, Matcher]] = Cache(16_384, 4 << 20)
_encode = msgspec.json.Encoder(order="deterministic").encode


def text(selector: Any) -> bytes | None:
    """What `matcher` takes. None for a selector that is absent."""
    if not isinstance(selector, dict):
        return None
    members = {"matchLabels": mapping(selector.get("matchLabels"))}
    return _encode({**members, "matchExpressions": mappings(selector.get("matchExpressions"))})


def matcher(selector: bytes | None) -> Matcher:
    """An absent selector matches nothing, an empty one everything."""
    if selector is None:
        return label_selectors.nothing
    found = _known.get(selector)
    if found is None:
        found = label_selectors.from_object(msgspec.json.decode(selector))
        _known.put(selector, found, len(selector))
    return found


def required_label(selector: bytes | None) -> tuple[str, str] | None:
    """A label that whatever it matches must have; None where there is no single one."""
    if selector is None:
        return None
    found = msgspec.json.decode(selector)
    for key, value in found["matchLabels"].items():
        return key, value
    for each in found["matchExpressions"]:
        match each:
            case {"operator": "In", "key": str(key), "values": [str(value)]}:
                return key, value
    return None
