"""Plan: the answer to "what if?": where the wanted pods go, who is affected, what it costs, and what would help.

`make_plan` applies the changes that were asked for, plays the scene, and has changes tried if something does not fit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final

from dray.api.objects import Key
from dray.planning.changes import Change
from dray.planning.cost import Cost, Prices
from dray.planning.playing import Played, play
from dray.planning.scene import Scene
from dray.planning.starting import Start, expected_starts
from dray.planning.suggestions import Budget, Suggestion, suggest
from dray.scheduling.scheduler import Options

MOST_SECONDS: Final = 100.0
"""The longest time for placing the pods of a plan, before changes are tried."""


class Verdict(Enum):
    FITS = "Fits"
    FITS_WITH_CHANGE = "FitsWithChange"
    """Something does not fit as it is, and a change was found with which all of it does."""
    DOES_NOT_FIT = "DoesNotFit"


@dataclass(frozen=True, slots=True)
class Plan:
    played: Played
    changes: tuple[Change, ...]
    """The changes that the user asked for."""
    cost: Cost
    """The cost of the wanted pods that have a node."""
    added_cost: Cost
    """The cost of the machines that the changes add."""
    starts: Mapping[Key, Start] = field(default_factory=dict)
    """The expected starts of waiting pods; a pod without an entry has no expected start."""
    suggestions: tuple[Suggestion, ...] = ()
    tried: int = 0
    """How many changes were tried."""
    exhausted: bool = True
    """True if all possible changes were tried."""
    smallest: bool = True
    """False if smaller amounts than the suggested ones may help: the time was over before they were tried."""

    @property
    def verdict(self) -> Verdict:
        if self.played.fits:
            return Verdict.FITS
        return Verdict.FITS_WITH_CHANGE if self.suggestions else Verdict.DOES_NOT_FIT


def make_plan(
    scene: Scene,
    changes: Sequence[Change],
    options: Options,
    *,
    prices: Mapping[str, float],
    budget: Budget,
    clock: Callable[[], float],
) -> Plan:
    """Raises ChangeError. `clock` gives seconds, for the time that the budget allows.

    A plan that takes longer than MOST_SECONDS is stopped, and has a problem that says so.
    """
    end = clock() + MOST_SECONDS
    for change in changes:
        scene = change.apply(scene)
    played = play(scene, options, lambda: clock() < end)
    known = Prices(prices, scene)
    cost = known.of_pods(played.pods)
    added = known.of_machines([each for change in changes for each in change.machines])
    if played.fits or clock() >= end:
        return Plan(played, tuple(changes), cost, added, exhausted=played.fits)
    began = clock()
    starts = expected_starts(scene, options, seconds=budget.seconds / 2, clock=clock)
    # Both together keep to the budget.
    left = max(budget.seconds / 2, budget.seconds - (clock() - began))
    found = suggest(scene, played, options, replace(budget, seconds=left), clock)
    return Plan(
        played,
        tuple(changes),
        cost,
        added,
        starts,
        found.suggestions,
        found.tried,
        found.exhausted,
        found.smallest,
    )
