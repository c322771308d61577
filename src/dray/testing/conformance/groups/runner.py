"""Plays one case of the `groups` corpus and says how its outcome differs.

A difference that was looked at has a `verdict` in its case. Every verdict but `bug` is a reason to accept it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from dray.planning.player import Endless, Player
from dray.testing.conformance.corpus import Case, Outcome
from dray.testing.conformance.groups import consolidation, kai, kueue, native, topology
from dray.testing.conformance.groups.comparison import Comparison

Play = Callable[[Case], tuple[Player, Comparison]]

_KUEUE: Final[dict[str, Play]] = {
    "preempt": kueue.play_preemption,
    "cycle": kueue.play_cycle,
    "tas": topology.play,
}


def run(case: Case) -> Outcome:
    try:
        player, found = _play_of(case)(case)
        if player.errors:
            found.add(f"errors: {player.errors[:2]}")
    except Endless as error:
        found = Comparison([f"does not come to rest: {error}"])
    except Exception as error:  # One broken case must not hide the others.
        found = Comparison([f"raised {error!r}"])
    return Outcome(
        case["name"],
        difference="\n      ".join((*found.differences, *found.remarks)) if found.differences else None,
        reviewed=_reviewed(case),
        remark="\n      ".join(found.remarks),
    )


def _play_of(case: Case) -> Play:
    family, mode = case["family"], case.get("mode", "")
    if family == "kai":
        return consolidation.play if mode == "consolidation" else kai.play
    if family == "kueue":
        return _KUEUE[mode]
    if family == "native":
        return native.play
    raise ValueError(f"family {family!r} is not kai, kueue or native")


def _reviewed(case: Case) -> str:
    verdict = case.get("verdict")
    return "" if verdict in (None, "", "bug") else f"{verdict}: {case.get('note')}"
