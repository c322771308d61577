"""Expected starts: when pods that wait would start, as pods that run come to their ends.

Two futures are played. In the late one a pod ends at its time limit (`activeDeadlineSeconds`, or a label that limits
its run), and a pod without one never does. In the early one a pod ends after as long as finished pods of the same owner
ran, if there are any, and else at its limit. A pod that starts in neither has no expected start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import inf
from typing import Final

from dray.api.objects import Key, Object, controller_uid, key_of, labels_of, mapping, mappings, spec_of, status_of
from dray.api.pods import is_terminal, node_of, phase_of
from dray.api.times import seconds_of
from dray.planning.player import Endless, Player
from dray.planning.playing import QUIET, Stage
from dray.planning.scene import Scene
from dray.scheduling.core.pods import read
from dray.scheduling.groups.front_ends import RUN_TIME_LABELS
from dray.scheduling.reservations.backfill import end_of
from dray.scheduling.scheduler import Options

_MOST_ENDS: Final = 200
"""Pods that are played to their end in one future."""


@dataclass(frozen=True, slots=True)
class Start:
    """Seconds since 1970; None if not known. `latest` counts on nothing but time limits."""

    earliest: float | None = None
    latest: float | None = None


def expected_starts(scene: Scene, options: Options, *, seconds: float, clock: Callable[[], float]) -> dict[Key, Start]:
    """Returns the starts of wanted pods that wait now. `clock` gives seconds, of which the search may use so many."""
    if seconds <= 0:
        return {}
    end = clock() + seconds
    pods = (*scene.cluster.get("Pod", ()), *scene.wanted.get("Pod", ()))
    ran = _earlier_runs(pods)
    if not any(_is_limited(each) or controller_uid(each) in ran for each in pods):
        return {}
    late = _future(scene, options, {}, lambda: clock() < end)
    early = _future(scene, options, ran, lambda: clock() < end) if ran else late
    return {key: Start(early.get(key), late.get(key)) for key in {**late, **early}}


def _is_limited(pod: Object) -> bool:
    labels = labels_of(pod)
    return spec_of(pod).get("activeDeadlineSeconds") is not None or any(each in labels for each in RUN_TIME_LABELS)


def _earlier_runs(pods: Iterable[Object]) -> dict[str, float]:
    """Returns the shortest run of the pods of each owner that have succeeded, in seconds, by the uid of the owner."""
    found: dict[str, float] = {}
    for pod in pods:
        if phase_of(pod) != "Succeeded":
            continue
        owner, took = controller_uid(pod), _run_of(pod)
        if owner and took is not None:
            found[owner] = min(found.get(owner, inf), took)
    return found


def _run_of(pod: Object) -> float | None:
    status = status_of(pod)
    began = seconds_of(status.get("startTime"))
    states = [mapping(each.get("state")) for each in mappings(status.get("containerStatuses"))]
    ends = [seconds_of(mapping(each.get("terminated")).get("finishedAt")) for each in states]
    known = [each for each in ends if each is not None]
    return max(known) - began if known and began is not None and max(known) >= began else None


def _future(scene: Scene, options: Options, ran: Mapping[str, float], has_time: Callable[[], bool]) -> dict[Key, float]:
    """Returns the starts of wanted pods that wait at first; `ran` are run times by the uid of the owner."""
    stage = Stage(scene, options)
    stage.add(scene)
    player = stage.player
    waiting = {key_of(each) for each in stage.made.pods if not _node(player, key_of(each))}
    found: dict[Key, float] = {}
    for _ in range(_MOST_ENDS):
        ending = min(((_end(player, pod, ran), key_of(pod)) for pod in _running(player)), default=(inf, ("", "")))
        if not waiting or ending[0] == inf or not has_time():
            break
        player.now = max(player.now, ending[0])
        try:
            player.delete_pod(ending[1][1], ending[1][0])
            player.settle(QUIET)
        except Endless:
            break
        for key in [each for each in waiting if _node(player, each)]:
            waiting.discard(key)
            pod = player.stored.get("Pod", *key)
            found[key] = seconds_of(status_of(pod or {}).get("startTime")) or player.now
    return found


def _running(player: Player) -> list[Object]:
    return [each for each in player.stored.of_kind("Pod") if node_of(each) and not is_terminal(each)]


def _end(player: Player, pod: Object, ran: Mapping[str, float]) -> float:
    if took := ran.get(controller_uid(pod)):
        return (seconds_of(status_of(pod).get("startTime")) or player.now) + took
    return end_of(read(pod, player.scheduler.state.signatures), player.now)


def _node(player: Player, key: Key) -> str:
    pod = player.stored.get("Pod", *key)
    return node_of(pod) if pod is not None else ""
