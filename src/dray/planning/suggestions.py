"""Suggestions: the smallest changes with which everything fits, found by trying.

Candidates come in order of size: something the manifests could do without, fewer devices or pods, another queue; then
more quota, a pod that ends and machines, in turn, so that none of them uses up the budget alone. Each is a change of
the scene that is played as the plan itself was. The search ends after enough were found, or when its budget of tries or
seconds is spent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, islice, zip_longest
from typing import Final

from dray.planning.changes import Change
from dray.planning.cluster_candidates import (
    freed_claims,
    freed_pods,
    further_machines,
    further_quota,
    other_queues,
)
from dray.planning.group_candidates import relaxed_groups
from dray.planning.manifest_candidates import fewer_devices, fewer_pods, other_classes, relaxed_claims, relaxed_pods
from dray.planning.playing import Evicted, Played
from dray.planning.scene import Scene
from dray.planning.tries import Tries
from dray.scheduling.scheduler import Options

_LARGE: Final = ("SetQuota", "FreePod", "AddMachines")
"""Kinds of changes that are tried in turn, the smallest first."""


@dataclass(frozen=True, slots=True)
class Budget:
    tries: int = 60
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


def suggest(scene: Scene, played: Played, options: Options, budget: Budget, clock: Callable[[], float]) -> Search:
    """`played` is what came of the scene as it is. `clock` gives seconds."""
    found: dict[str, Suggestion] = {}
    tries, tried, end = Tries(scene, options), 0, clock() + budget.seconds
    # One of a kind is enough: others of it are as large or larger.
    left = (each for each in candidates(scene, played) if each.kind not in found)
    while batch := list(islice(left, tries.at_a_time)):
        if tried >= budget.tries or clock() >= end or len(found) >= budget.found:
            return Search(_ordered(found), tried, exhausted=False)
        outcomes = tries.outcomes(batch, end - clock())
        tried += len(batch)
        for change, outcome in zip(batch, outcomes, strict=True):
            if outcome is not None and outcome.fits and change.kind not in found:
                found[change.kind] = Suggestion(change, outcome.evicted)
    return Search(_ordered(found), tried, exhausted=True)


def _ordered(found: Mapping[str, Suggestion]) -> tuple[Suggestion, ...]:
    def size(each: Suggestion) -> int:
        return _LARGE.index(each.change.kind) + 1 if each.change.kind in _LARGE else 0

    return tuple(sorted(found.values(), key=size))


def candidates(scene: Scene, played: Played) -> Iterator[Change]:
    """Yields changes from small to large."""
    waiting = [pod for pod in played.pods if not pod.node]
    return chain(
        relaxed_claims(scene, waiting),
        relaxed_pods(scene, waiting),
        relaxed_groups(scene, waiting),
        fewer_devices(scene, waiting),
        fewer_pods(scene, played),
        other_classes(scene, waiting),
        other_queues(scene, waiting),
        freed_claims(scene, waiting),
        _in_turn(further_quota(scene, waiting), freed_pods(scene, waiting), further_machines(scene)),
    )


def _in_turn(*several: Iterator[Change]) -> Iterator[Change]:
    for each in zip_longest(*several):
        yield from (change for change in each if change is not None)
