"""Tolerations: whether a pod tolerates the taints of a node.

Tolerations of pods match as tolerations of devices do. In addition, the operators Gt and Lt compare the value of a
taint as a number.
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
    """The tolerations of pods with one signature. Answers are remembered, since many nodes have the same taints."""

    _by_key: dict[Any, list[Object]]
    _known: dict[tuple[Any, Any, Any], bool]

    def __new__(cls, tolerations: Iterable[Object] = ()) -> Tolerations:
        made = super().__new__(cls, tolerations)
        made._by_key, made._known = {}, {}
        for toleration in made:
            made._by_key.setdefault(text(toleration.get("key")), []).append(toleration)
        return made

    def cover(self, taint: Object) -> bool:
        """Whether one of the tolerations tolerates the taint."""
        asked = (taint.get("key"), taint.get("value"), taint.get("effect"))
        known = self._known.get(asked)
        if known is None:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            candidates = [*self._by_key.get("", ()), *self._by_key.get(taint.get("key") or "", ())]
            known = self._known[asked] = any(tolerates(toleration, taint) for toleration in candidates)
        return known


def tolerates(toleration: Object, taint: Object) -> bool:
    return taints.tolerated(taint, (toleration,)) or _beyond(toleration, taint)


def is_repelled(node_taints: Iterable[Object], tolerations: Tolerations) -> bool:
    """Whether a taint with effect NoSchedule or NoExecute is not tolerated."""
    return any(not tolerations.cover(taint) for taint in taints.effective(node_taints))


def count_intolerable(node_taints: Iterable[Object], tolerations: Tolerations) -> int:
    """The number of PreferNoSchedule taints that are not tolerated."""
    return sum(1 for taint in node_taints if taint.get("effect") == PREFER_NO_SCHEDULE and not tolerations.cover(taint))


def _beyond(toleration: Object, taint: Object) -> bool:
    """Whether the operator Gt or Lt of a toleration matches the taint."""
    operator = toleration.get("operator")
    if operator not in ("Gt", "Lt") or toleration.get("key") != taint.get("key"):
        return False
    if toleration.get("effect") not in (None, "", taint.get("effect")):
        return False
    bound, value = _number(toleration), _number(taint)
    if bound is None or value is None:
        return False
    return value > bound if operator == "Gt" else value < bound


def _number(toleration_or_taint: Object) -> int | None:
    """The value as a number; None if it is no integer of 64 bits or has leading zeros."""
    value = toleration_or_taint.get("value")
    return int64(value) if isinstance(value, str) and _WHOLE.fullmatch(value) else None
