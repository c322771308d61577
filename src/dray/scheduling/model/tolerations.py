"""Taints of nodes, and the tolerations of pods.

They match as those of devices do; besides, a pod may tolerate a taint whose value is a number beyond a bound.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from dray.allocation import taints
from dray.api.objects import Object, int64, text

PREFER_NO_SCHEDULE: Final = "PreferNoSchedule"
_MOST_KNOWN: Final = 4096
_WHOLE: Final = re.compile(r"-?(0|[1-9]\d{,18})", re.ASCII)


class Tolerations(tuple[Object, ...]):
    """Those of pods of one kind. What was asked about a taint is remembered: many nodes have the same."""

    _by_key: dict[Any, list[Object]]
    _known: dict[tuple[Any, Any, Any], bool]

    def __new__(cls, tolerations: Iterable[Object] = ()) -> Tolerations:
        made = super().__new__(cls, tolerations)
        made._by_key, made._known = {}, {}
        for each in made:
            made._by_key.setdefault(text(each.get("key")), []).append(each)
        return made

    def cover(self, taint: Object) -> bool:
        asked = (taint.get("key"), taint.get("value"), taint.get("effect"))
        known = self._known.get(asked)
        if known is None:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            about = [*self._by_key.get("", ()), *self._by_key.get(taint.get("key") or "", ())]
            known = self._known[asked] = any(tolerates(each, taint) for each in about)
        return known


def tolerates(toleration: Object, taint: Object) -> bool:
    return taints.tolerated(taint, (toleration,)) or _beyond(toleration, taint)


def is_repelled(node_taints: Iterable[Object], tolerations: Tolerations) -> bool:
    """Whether a taint keeps the pod away; PreferNoSchedule does not."""
    return any(not tolerations.cover(taint) for taint in taints.effective(node_taints))


def count_intolerable(node_taints: Iterable[Object], tolerations: Tolerations) -> int:
    """How many taints would rather have the pod elsewhere."""
    return sum(1 for taint in node_taints if taint.get("effect") == PREFER_NO_SCHEDULE and not tolerations.cover(taint))


def _beyond(toleration: Object, taint: Object) -> bool:
    operator = toleration.get("operator")
    if operator not in ("Gt", "Lt") or toleration.get("key") != taint.get("key"):
        return False
    if toleration.get("effect") not in (None, "", taint.get("effect")):
        return False
    bound, value = _number(toleration), _number(taint)
    if bound is None or value is None:
        return False
    return value > bound if operator == "Gt" else value < bound


def _number(of: Object) -> int | None:
    """None where it is no whole number of 64 bits, or has leading zeros."""
    value = of.get("value")
    return int64(value) if isinstance(value, str) and _WHOLE.fullmatch(value) else None
