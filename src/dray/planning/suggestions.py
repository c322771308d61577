"""Suggestions: the smallest changes with which everything fits, found by trying.

Sources of candidates take turns, so that none of them uses up the budget alone. Each source begins with its smallest
change, and changes that differ by an amount (fewer devices, more machines) are tried at distances that double. When
one helps, the smallest amount that helps is looked for between it and the one before. Each change is played as the
plan itself was. The search ends after enough were found, when all changes were tried, or when its seconds are over;
and after a number of tries if it has found something.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, zip_longest
from typing import Final

from dray.planning.changes import Change
from dray.planning.cluster_candidates import freed_claims, further_machines
from dray.planning.extended_candidates import fewer_extended
from dray.planning.fewer_pods import fewer_pods
from dray.planning.freed_pods import freed_pods
from dray.planning.group_candidates import relaxed_groups
from dray.planning.manifest_candidates import (
    fewer_devices,
    less_capacity,
    other_classes,
    relaxed_claims,
    relaxed_pods,
)
from dray.planning.playing import Evicted, Played
from dray.planning.queue_candidates import further_quota, other_queues
from dray.planning.scene import Scene
from dray.planning.tries import Tried, Tries
from dray.scheduling.scheduler import Options

_ORDER: Final = (
    "DropConstraint",
    "DropSelector",
    "DropNodeSelector",
    "DropAffinity",
    "DropSpread",
    "AddToleration",
    "DropTopology",
    "FewerDevices",
    "LessCapacity",
    "FewerPods",
    "ChangeClass",
    "OtherQueue",
    "FreeClaim",
    "SetQuota",
    "FreePod",
    "AddMachines",
)
"""Kinds of changes, the smallest first."""
_REFINING: Final = 0.3
"""The part of the time that is kept for finding the smallest amounts that help."""


@dataclass(frozen=True, slots=True)
class Budget:
    tries: int = 60
    """How many changes are tried for further suggestions, once one was found."""
    seconds: float = 10.0
    found: int = 5
    """How many suggestions are enough."""


@dataclass(frozen=True, slots=True)
class Suggestion:
    change: Change
    evicted: tuple[Evicted, ...]
    """Pods that are evicted if the change is made."""


@dataclass(frozen=True, slots=True)
class Search:
    suggestions: tuple[Suggestion, ...]
    tried: int
    exhausted: bool
    """Whether all candidates were tried."""
    smallest: bool = True
    """Whether the suggested amounts are the smallest that help; False if the time was over before."""


def suggest(scene: Scene, played: Played, options: Options, budget: Budget, clock: Callable[[], float]) -> Search:
    """`played` is what came of the scene as it is. `clock` gives seconds."""
    return _Searching(scene, options, budget, clock).search(candidates(scene, played))


class _Searching:
    def __init__(self, scene: Scene, options: Options, budget: Budget, clock: Callable[[], float]) -> None:
        self._tries, self._budget, self._clock = Tries(scene, options), budget, clock
        self._end = clock() + budget.seconds
        # Further kinds of changes are looked for until then, and after that smaller amounts of those that help.
        self._refining = self._end - _REFINING * budget.seconds
        self._tried = 0
        self._found: dict[str, Suggestion] = {}

    def search(self, changes: Iterator[Change]) -> Search:
        # One of a kind is enough: others of it are as large or larger.
        left = (each for each in changes if each.kind not in self._found)
        exhausted = False
        while self._goes_on:
            batch = list(islice(left, self._tries.at_a_time))
            if exhausted := not batch:
                break
            self._try(batch)
        smallest = [self._refine(suggestion.change) for suggestion in list(self._found.values())]
        found = sorted(self._found.values(), key=lambda each: _ORDER.index(each.change.kind))
        return Search(tuple(found), self._tried, exhausted, all(smallest))

    @property
    def _goes_on(self) -> bool:
        if not self._found:
            return self._has_time
        has_time = self._clock() < self._refining
        return has_time and self._tried < self._budget.tries and len(self._found) < self._budget.found

    @property
    def _has_time(self) -> bool:
        return self._clock() < self._end

    def _try(self, batch: Sequence[Change]) -> None:
        for change, outcome in zip(batch, self._outcomes(batch), strict=True):
            if outcome is not None and outcome.fits and change.kind not in self._found:
                self._found[change.kind] = Suggestion(change, outcome.evicted)

    def _outcomes(self, batch: Sequence[Change]) -> list[Tried | None]:
        self._tried += len(batch)
        return self._tries.outcomes(batch, self._end - self._clock())

    def _refine(self, change: Change) -> bool:
        """Looks for the smallest amount that helps, by halves; returns False if the time is over before it is found."""
        steps = change.smaller
        low, high = 0, len(steps.amounts) if steps is not None else 0
        while steps is not None and low < high and self._has_time:
            middle = (low + high) // 2
            smaller = steps.make(steps.amounts[middle])
            [outcome] = self._outcomes([smaller])
            if outcome is not None and outcome.fits:
                self._found[change.kind], high = Suggestion(smaller, outcome.evicted), middle
            else:
                low = middle + 1
        return low >= high


def candidates(scene: Scene, played: Played) -> Iterator[Change]:
    """Yields changes of all sources in turn, and at last those that were skipped at first."""
    waiting = [pod for pod in played.pods if not pod.node]
    skipped = []
    for change in _in_turn(
        relaxed_claims(scene, waiting),
        relaxed_pods(scene, waiting),
        relaxed_groups(scene, waiting),
        fewer_devices(scene, waiting),
        less_capacity(scene, waiting),
        fewer_extended(scene, waiting),
        fewer_pods(scene, played),
        other_classes(scene, waiting),
        other_queues(scene, waiting),
        freed_claims(scene, waiting),
        further_quota(scene, waiting),
        freed_pods(scene, waiting),
        further_machines(scene),
    ):
        if change.smaller is not None:
            skipped.append(change.smaller)
        yield change
    for steps in skipped:
        yield from map(steps.make, steps.amounts)


def _in_turn(*several: Iterator[Change]) -> Iterator[Change]:
    for each in zip_longest(*several):
        yield from (change for change in each if change is not None)
