"""Nominations: places that are kept for pods until the pods there have ended, which were evicted or end by themselves.

To pods of lower or equal priority the place and its devices are taken, as if the pod were there already; the pod itself
and those of higher priority do not see it (`seen_by`). A place that was reclaimed for the pod's queue is taken for all
pods of the queues that contend for it: else an evicted pod would take it again by its priority, and be evicted again.
Places that are *reserved* are kept apart: no pod was evicted for them. Places are kept and dropped outside of trials.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from dray.api.objects import Key
from dray.scheduling.core.state import State
from dray.scheduling.core.what_if import Trial
from dray.scheduling.model.actions import NominatedPlace
from dray.scheduling.model.pod import Pod
from dray.scheduling.quota.queues import Contention

_RESERVED: Final = "/reserved"
"""Follows the uid of a pod whose place is reserved."""
_AS_IT_IS: Final = nullcontext()


@dataclass(frozen=True, slots=True)
class _Nomination:
    pod: Pod
    placeholder: Pod
    place: NominatedPlace
    key: str
    reserved: bool
    contention: Contention | None
    """Pods of these queues see it whatever their priority."""
    seen: int
    """How far the log of what became free is the pod's own doing, or known to it."""

    @property
    def claim(self) -> Key:
        return "", self.placeholder.uid


class Nominations:
    def __init__(self, state: State) -> None:
        self._state = state
        self._kept: dict[str, _Nomination] = {}

    def __bool__(self) -> bool:
        return bool(self._kept)

    def node(self, uid: str) -> str:
        """Returns the node on which a place is kept for the pod; empty if there is none."""
        kept = self._kept.get(uid)
        return kept.place.node if kept is not None else ""

    def places(self) -> list[tuple[str, str]]:
        """(uid of a pod, node) of all that are kept, but for those that are reserved."""
        return [(uid, kept.place.node) for uid, kept in self._kept.items() if not kept.reserved]

    def reserved_places(self) -> list[tuple[str, str]]:
        """The same of those that are reserved."""
        return [(kept.pod.uid, kept.place.node) for kept in self._kept.values() if kept.reserved]

    def to_retry(self, since: int) -> list[str]:
        """The pods, by uid, that have a place kept where something became free after a position of the log, or may
        have. No pod is retried because of what it freed itself when it was last tried: that would have no end."""
        helped, nodes = self._state.helped, self._state.nodes
        changes = {seen: helped.since(max(since, seen)) for seen in {each.seen for each in self._kept.values()}}
        return [
            each.pod.uid
            for each in self._kept.values()
            if (changed := changes[each.seen]) is None
            or ((node := nodes.get(each.place.node)) is not None and node.number in changed)
        ]

    def lowest(self) -> dict[str, int]:
        """Returns by node the lowest priority of pods with a place there, which pods of higher priority may take."""
        found: dict[str, int] = {}
        for kept in self._kept.values():
            node, priority = kept.place.node, kept.pod.priority
            found[node] = min(priority, found.get(node, priority))
        return found

    def keep(self, places: Mapping[Pod, NominatedPlace], *, reclaims: bool = False, reserved: bool = False) -> None:
        """Keeps the places of pods that are placed together. What was reclaimed once stays so, whoever is evicted
        beside. Nobody is evicted for places that are `reserved`."""
        assert not self._state.journal.is_open
        keys = {pod: f"{pod.uid}{_RESERVED}" if reserved else pod.uid for pod in places}
        again = Counter(_taken(pod, place) for pod, place in places.items())
        before = {pod: self._kept.pop(key) for pod, key in keys.items() if key in self._kept}
        for each in before.values():
            # Keeping the same place once more helps nobody, whichever of the pods has it.
            taken = _taken(each.placeholder, each.place)
            again[taken] -= 1
            self._leave(each)
            if again[taken] < 0:
                self._state.vacated(each.place.node, each.place.devices)
        seen = self._state.helped.end
        for pod, place in places.items():
            known = before.get(pod)
            contention = self._state.queues.contention_of(pod) if reclaims else known.contention if known else None
            placeholder = replace(pod, uid=f"{keys[pod]}/nominated", group=None, is_placeholder=True)
            nomination = _Nomination(pod, placeholder, place, keys[pod], reserved, contention, seen)
            self._kept[nomination.key] = nomination
            self._enter(nomination)

    def drop(self, uid: str, *, reserved: bool = False) -> None:
        assert not self._state.journal.is_open
        nomination = self._kept.pop(f"{uid}{_RESERVED}" if reserved else uid, None)
        if nomination is not None:
            self._leave(nomination)
            self._state.vacated(nomination.place.node, nomination.place.devices)

    def give_up(self, uid: str) -> None:
        """The pod cannot have its place: neither that nor quota is kept for it any longer."""
        self.drop(uid)
        self._state.queues.give_up(uid)

    def seen_by(self, *pods: Pod) -> AbstractContextManager[object]:
        """Returns a trial of the state as the pods see it, which are of one priority: what is kept or reserved for
        them is free, and so are places that are kept for pods of lower priority."""
        return self._seen_by(pods) if self._kept or self._state.queues.reservations else _AS_IT_IS

    @contextmanager
    def _seen_by(self, pods: Sequence[Pod]) -> Iterator[None]:
        with self._state.what_if() as trial:
            self._state.queues.reservations.free_for(pods, trial)
            self._hide(self._unseen_by(pods), trial)
            yield

    @contextmanager
    def without_reservations(self) -> Iterator[None]:
        """Tries out the state as if no place were reserved."""
        with self._state.what_if() as trial:
            self._hide([each for each in self._kept.values() if each.reserved], trial)
            yield

    def _unseen_by(self, pods: Sequence[Pod]) -> list[_Nomination]:
        uids, priority = {each.uid for each in pods}, pods[0].priority
        contention = self._state.queues.contention_of(pods[0])
        return [
            each
            for each in self._kept.values()
            if each.pod.uid in uids
            or (each.pod.priority < priority and (each.contention is None or each.contention != contention))
        ]

    def _hide(self, nominations: Sequence[_Nomination], trial: Trial) -> None:
        for each in nominations:
            if not self._state.journal.has(("nomination", each.key)):
                self._leave(each)
                trial.record(("nomination", each.key), partial(self._enter, each))

    def _enter(self, nomination: _Nomination) -> None:
        self._state.place(nomination.placeholder, nomination.place.node)
        if nomination.place.devices:
            self._state.hold(nomination.claim, nomination.place.devices)

    def _leave(self, nomination: _Nomination) -> None:
        self._state.displace(nomination.placeholder, nomination.place.node, helps=False)
        if nomination.place.devices:
            self._state.release(nomination.claim, helps=False)


def _taken(pod: Pod, place: NominatedPlace) -> Hashable:
    """Returns what others see taken where a place is kept for a pod. Equal values leave others the same."""
    devices = sorted(
        (each["driver"], each["pool"], each["device"], str(each.get("consumedCapacity") or ""))
        for each in place.devices
    )
    needs = pod.requirements
    requests = frozenset((*needs.requests.items(), *pod.extra.items()))
    return place.node, pod.priority, requests, needs.ports, frozenset(pod.labels.items()), tuple(devices)
