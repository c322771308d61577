"""Plays a scene: the scheduler places what is wanted, and what came of every pod is returned.

Pods that leave first are evicted, the scheduler comes to rest, and only then are the wanted objects added. So others
that wait have their turn first, as on the cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from dray.api.objects import Key, Object, controller_of, key_of, spec_of, uid_of
from dray.api.pods import MIRROR_ANNOTATION, claims_used, extended_claim, is_terminal, node_of
from dray.api.resource_claims import results_of
from dray.planning.player import Endless, Eviction, OutOfTime, Player
from dray.planning.rollout import RolloutRun
from dray.planning.scene import Made, Scene, made_claims
from dray.planning.waiting import group_of, positions
from dray.process.memory import loading
from dray.scheduling.core.pods import read
from dray.scheduling.model.group import GroupKey
from dray.scheduling.scheduler import Options

_LAST: Final = ("PodGroup", "ResourceClaim", "Pod", "ResourceClaimTemplate", "DaemonSet")
_NOT_SERVED: Final = frozenset(_LAST) - {"PodGroup"}
_NOT_RECREATED: Final = ("DaemonSet", "Node")
_STOPPED: Final = "the scheduler was stopped before it had tried everything: plan fewer pods or machines at a time"
# Rounds of virtual time without a change after which the scheduler has come to rest.
QUIET: Final = 1


@dataclass(frozen=True, slots=True)
class PlacedPod:
    """The result for one pod. With a `node` it runs there; else `reason` says why it waits."""

    key: Key
    node: str = ""
    reason: str = ""
    group: GroupKey | None = None
    devices: tuple[tuple[str, Object], ...] = ()
    """Claims and the results of their allocation."""
    queue: str = ""
    position: int = 0
    """The position in its queue, from 1; 0 if the pod has a node or no queue."""
    document: Object = field(default_factory=dict, compare=False)

    @property
    def namespace(self) -> str:
        return self.key[0]

    @property
    def name(self) -> str:
        return self.key[1]

    @property
    def title(self) -> str:
        return f"pod {'/'.join(self.key)}"


@dataclass(frozen=True, slots=True)
class Evicted:
    """A pod that leaves its node. `again` is what came of the pod that its controller creates instead; None if nobody
    creates it again."""

    key: Key
    node: str
    preemptor: str
    reason: str
    reclaims: bool
    again: PlacedPod | None


@dataclass(frozen=True, slots=True)
class Deleted:
    """A pod that its controller deletes and does not create again."""

    key: Key
    node: str
    reason: str


@dataclass(frozen=True, slots=True)
class Played:
    pods: tuple[PlacedPod, ...]
    evicted: tuple[Evicted, ...] = ()
    deleted: tuple[Deleted, ...] = ()
    """Pods of workloads that get smaller or another template."""
    started: tuple[PlacedPod, ...] = ()
    """Pods of the cluster that waited before and have a node now."""
    problems: tuple[str, ...] = ()

    @property
    def fits(self) -> bool:
        """Whether every wanted pod has a node, and every pod that had to move has another one."""
        return all(each.node for each in self.pods) and all(map(_settled, self.evicted))


def play(scene: Scene, options: Options, has_time: Callable[[], bool] = lambda: True) -> Played:
    """Schedules the scene's pods. Stops once `has_time` returns False; pods that were not tried then have no node."""
    return Stage(scene, options, has_time).finish(scene)


class Stage:
    """A scheduler that has come to rest with the cluster of a scene, before anything wanted is added.

    Nothing is collected while it works: with 5,000 nodes, looking for garbage took a third of the time.
    """

    def __init__(self, scene: Scene, options: Options, has_time: Callable[[], bool] = lambda: True) -> None:
        served = dict.fromkeys(scene.wanted.keys() - _NOT_SERVED, ())
        listed = {**served, **scene.cluster}
        with loading():
            self.player = Player(
                listed=listed, start=scene.now, recreate=is_created_again, options=options, has_time=has_time
            )
        self.made = Made()
        self._problems: list[str] = []
        self._deleted: list[Deleted] = []
        self._stuck: set[Key] = set()
        self.evict(scene.evicted)
        self._settle()

    def evict(self, pods: Mapping[Key, str]) -> None:
        """Evicts pods, each for a reason; a drain of a cluster would wait for those that a budget protects."""
        scheduler = self.player.scheduler
        stored = [(self.player.stored.get("Pod", *key), reason) for key, reason in pods.items()]
        found = [(read(pod, scheduler.state.signatures), reason) for pod, reason in stored if pod is not None]
        for pod in scheduler.preemptor.budgets.split(pod for pod, _ in found)[0]:
            self._problems.append(f"a PodDisruptionBudget does not allow to evict pod {'/'.join(pod.key)} now")
        for pod, reason in found:
            self.player.evict(pod, reason)

    def add(self, scene: Scene) -> None:
        """Adds what is wanted, and lets the scheduler come to rest."""
        self._settle()
        self.made = made_claims(scene)
        for key, reason in scene.leaving.items():
            self._delete(key, reason)
        rolled = {key for rollout in scene.rollouts for key in rollout.new}
        _add(self.player, scene, self.made, rolled)
        self._settle()
        self._roll(scene)

    def _delete(self, key: Key, reason: str) -> None:
        stored = self.player.stored.get("Pod", *key)
        if stored is not None:
            self._deleted.append(Deleted(key, node_of(stored), reason))
            self.player.delete_pod(key[1], key[0])

    def _roll(self, scene: Scene) -> None:
        """Carries out the rollouts, each step of all of them at the same time."""
        pods = {key_of(each): each for each in self.made.pods}
        runs = [
            RolloutRun(
                rollout,
                [pods[key] for key in rollout.new if key in pods and key not in self.made.missing],
                delete=self._delete,
                create=self.player.put,
                is_placed=self._is_placed,
            )
            for rollout in scene.rollouts
        ]
        while any([run.step() for run in runs]):
            self._settle()
        self._stuck = {key_of(pod) for run in runs for pod in run.left}

    def _is_placed(self, key: Key) -> bool:
        stored = self.player.stored.get("Pod", *key)
        return stored is not None and bool(node_of(stored))

    def finish(self, scene: Scene) -> Played:
        """Adds what is wanted, and says what came of it."""
        with loading():
            self.add(scene)
        waiting = [each for each in scene.cluster.get("Pod", ()) if not node_of(each) and not is_terminal(each)]
        played = _Reading(self.player, self.made, self._stuck).played(waiting, self._problems)
        return replace(played, deleted=tuple(self._deleted))

    def _settle(self) -> None:
        try:
            self.player.settle(QUIET)
        except OutOfTime:
            if _STOPPED not in self._problems:
                self._problems.append(_STOPPED)
        except Endless as error:
            self._problems.append(f"the scheduler does not come to rest: {error}")


def is_created_again(pod: Object) -> bool:
    """Whether a controller creates the pod again, on any node, after it was evicted."""
    controller = controller_of(pod)
    static = MIRROR_ANNOTATION in (pod["metadata"].get("annotations") or ())
    return controller is not None and controller.get("kind") not in _NOT_RECREATED and not static


def _add(player: Player, scene: Scene, made: Made, rolled: Collection[Key]) -> None:
    """Adds what is wanted, but for the pods that a rollout creates."""
    for kind, objects in scene.wanted.items():
        if kind not in _LAST:
            for each in objects:
                player.put(each)
    for each in made.groups:
        player.put(each)
    pods = [each for each in made.pods if key_of(each) not in made.missing and key_of(each) not in rolled]
    claims = (*scene.wanted.get("ResourceClaim", ()), *made.claims)
    for kind, each in (*(("ResourceClaim", claim) for claim in claims), *(("Pod", pod) for pod in pods)):
        # What is in the cluster already stays as it is.
        if player.stored.get(kind, *key_of(each)) is None:
            player.put(each)


class _Reading:
    """Reads the outcome from a player that has come to rest."""

    def __init__(self, player: Player, made: Made, stuck: Collection[Key]) -> None:
        self._player = player
        self._made = made
        self._stuck = stuck
        self._positions = positions(player.scheduler)

    def played(self, waiting: list[Object], problems: list[str]) -> Played:
        pods = tuple(self._pod(key_of(each), each) for each in self._made.pods)
        started = tuple(found for each in waiting if (found := self._pod(key_of(each), each)).node)
        evicted = tuple(map(self._evicted, self._player.evictions))
        return Played(pods, evicted, started=started, problems=(*problems, *self._player.errors))

    def _pod(self, key: Key, wanted: Object) -> PlacedPod:
        if missing := self._made.missing.get(key):
            return PlacedPod(key, reason=missing, document=wanted)
        if key in self._stuck:
            return PlacedPod(key, reason="not rolled out: pods before it wait", document=wanted)
        stored = self._player.stored.get("Pod", *key)
        if stored is None:
            return PlacedPod(key, reason="evicted for others", document=wanted)
        scheduler = self._player.scheduler
        pod = read(stored, scheduler.state.signatures)
        group = group_of(scheduler, pod)
        if node := node_of(stored):
            return PlacedPod(key, node, group=group, devices=tuple(self._devices(stored)), document=stored)
        queue, position = self._positions.get(uid_of(stored), ("", 0))
        reason = self._player.reasons.get(uid_of(stored), "not tried")
        return PlacedPod(key, reason=reason, group=group, queue=queue, position=position, document=stored)

    def _devices(self, pod: Object) -> Iterator[tuple[str, Object]]:
        special = extended_claim(pod) or f"{key_of(pod)[1]}-special"
        for name in (*(name for _, name in claims_used(pod)), special):
            claim = self._player.stored.get("ResourceClaim", key_of(pod)[0], name)
            for result in results_of(claim) if claim is not None else ():
                yield name, result

    def _evicted(self, eviction: Eviction) -> Evicted:
        pod = eviction.pod
        again = pod.uid in self._player.recreated
        found = self._pod(pod.key, pod.document) if again else None
        node = str(spec_of(pod.document).get("nodeName") or "")
        return Evicted(pod.key, node, eviction.title, eviction.reason, eviction.reclaims, found)


def _settled(evicted: Evicted) -> bool:
    """Whether a pod that the plan itself moves has another node; a preempted pod may wait."""
    return bool(evicted.preemptor) or evicted.again is None or bool(evicted.again.node)
