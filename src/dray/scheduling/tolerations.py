"""Taints of nodes, and the tolerations of pods.

They match as those of devices do; besides, a pod may tolerate a taint whose value is a number beyond a bound.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from dray.allocation import taints
from dray.api.shapes import int64
from dray.scheduling.model import Object

PREFER_NO_SCHEDULE: Final = "PreferNoSchedule"
_WHOLE: Final = re.compile(r"-?(0|[1-9]\d{,18})", re.ASCII)


def tolerated(taint: Object, tolerations: Sequence[Object]) -> bool:
    return taints.tolerated(taint, tolerations) or any(_beyond(each, taint) for each in tolerations)


def repelled(node_taints: Iterable[Object], tolerations: Sequence[Object]) -> bool:
    """Whether a taint keeps the pod away; PreferNoSchedule does not."""
    return any(not tolerated(taint, tolerations) for taint in taints.effective(node_taints))


def disliked(node_taints: Iterable[Object], tolerations: Sequence[Object]) -> int:
    """How many taints would rather have the pod elsewhere."""
    return sum(
        1 for taint in node_taints if taint.get("effect") == PREFER_NO_SCHEDULE and not tolerated(taint, tolerations)
    )


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
    text = of.get("value")
    return int64(text) if isinstance(text, str) and _WHOLE.fullmatch(text) else None
