"""A document without some of its fields, so that what is wrong with the rest can be found as well."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

from dray.api.objects import Object
from dray.yaml.text import segments


def without(document: Object, fields: Iterable[str]) -> Object:
    """A copy without the fields. An item of a list is emptied instead, for the others to keep their places."""
    changed = copy.deepcopy(document)
    for field in fields:
        *above, last = segments(field) or [""]
        place: Any = changed
        for step in above:
            place = _below(place, step)
        if isinstance(place, dict):
            place.pop(last, None)
        elif isinstance(place, list) and _below(place, last) is not None:
            place[int(last)] = None
    return changed


def touches(field: str, others: Iterable[str]) -> bool:
    """Whether the field is one of the others, above one or below one."""
    steps = segments(field)
    for other in others:
        these = segments(other)
        shorter = min(len(steps), len(these))
        if steps[:shorter] == these[:shorter]:
            return True
    return False


def _below(place: Any, step: str) -> Any:
    if isinstance(place, dict):
        return place.get(step)
    if isinstance(place, list) and step.isdecimal() and int(step) < len(place):
        return place[int(step)]
    return None
