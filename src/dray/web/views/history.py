"""History: allocation, utilization, waiting and fragmentation over the last hours, events, and idle devices.

Numbers are about the whole cluster: a viewer gets those that are made of kinds which they may list everywhere. Events
and idle devices are those of namespaces that the viewer may see.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from dray.api.objects import Object
from dray.web.history.recorder import STEP, History
from dray.web.history.samples import RINGS
from dray.web.model import KINDS
from dray.web.view import Question, View

_NEEDS: Final = {
    "allocated": ("slices", "claims"),
    "devices": ("slices",),
    "busy": ("slices", "claims"),
    "waiting": ("pods",),
    "longest": ("pods",),
    "fragmentation": ("slices", "claims"),
}
"""By measure: the kinds that a viewer must be allowed to list in the whole cluster to see it."""


def derive(question: Question) -> Object:
    history = question.services.history
    hours = int(question.query.get("hours", "1")) if question.query.get("hours", "1") in map(str, RINGS) else 1
    missing = {name: _missing(question, kinds) for name, kinds in _NEEDS.items()}
    seen = {name for name, kinds in missing.items() if not kinds}
    return {
        "hours": hours,
        "step": RINGS[hours][0],
        "since": int(history.since),
        "hidden": {name: kinds for name, kinds in missing.items() if kinds},
        "seesAllEvents": question.sight.sees_all("events"),
        "points": {str(time): point for time, point in _points(history, hours, seen).items() if point},
        "events": _events(question, history),
        "idle": {
            f"{each.device} {each.claim}": {**each.document(), "device": each.device}
            for each in history.idle
            if question.sight.sees("claims", each.claim.partition("/")[0]) and question.sight.sees("slices")
        },
    }


def _missing(question: Question, kinds: Sequence[str]) -> list[str]:
    """Resources of these kinds that the viewer may not list in the whole cluster."""
    return [KINDS[kind][1] for kind in kinds if not question.sight.sees_all(kind)]


def _points(history: History, hours: int, seen: set[str]) -> dict[int, dict[str, float]]:
    return {
        time: {name: value for name, value in point.items() if name.partition(":")[0] in seen}
        for time, point in history.samples.points(hours).items()
    }


def _events(question: Question, history: History) -> Object:
    found = [each for each in list(history.marks) if question.sight.sees("events", each.namespace)]
    return {each.uid: each.document() for each in found}


VIEW: Final = View(
    "history",
    ("slices", "claims", "pods", "taintrules", "events"),
    derive,
    parameters=("hours",),
    interval=0.5,
    longest_quiet=STEP,
)
