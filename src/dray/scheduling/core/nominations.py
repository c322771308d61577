"""Nominations: places on nodes that are kept for pods until other pods there have ended, evicted or by themselves.

For pods of lower or equal priority the resources and devices of the place are in use, as if the pod were on the node
already. The pod itself and pods of higher priority do not see the nomination (`seen_by`). If the place was reclaimed
for the pod's queue, all pods of the queues that contend for it see the nomination. Otherwise an evicted pod of higher
priority would be placed there again, and evicted again. *Reserved* places are kept apart: no pods are evicted for them.
Places are kept and dropped outside of trials.
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
"""The suffix of the uid of a pod, in the key of a reserved place."""
_AS_IT_IS: Final = nullcontext()


@dataclass(frozen=True, slots=True)
class _Nomination:
    pod: Pod
    placeholder: Pod
    place: NominatedPlace
    key: str
    reserved: bool
    contention: Contention | None
    """Pods of these queues see the nomination whatever their priority."""
    seen: int
    """The position in `State.helped` up to which changes do not retry the pod: it caused or knew them."""

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
        """Returns the uids of pods with a nomination that is not reserved, each with its node."""
        return [(uid, kept.place.node) for uid, kept in self._kept.items() if not kept.reserved]

    def reserved_places(self) -> list[tuple[str, str]]:
        """Returns the uids of pods with a reserved place, each with its node."""
        return [(kept.pod.uid, kept.place.node) for kept in self._kept.values() if kept.reserved]

    def to_retry(self, since: int) -> list[str]:
        """Returns the uids of pods on whose nodes something may have become free after a position in `State.helped`. A
        pod is not retried because of what its own last attempt freed, which would never end."""
        helped, nodes = self._state.helped, self._state.nodes
        changes = {seen: helped.since(max(since, seen)) for seen in {kept.seen for kept in self._kept.values()}}
        return [
            kept.pod.uid
            for kept in self._kept.values()
            if (changed := changes[kept.seen]) is None
            or ((node := nodes.get(kept.place.node)) is not None and node.number in changed)
        ]

    def lowest(self) -> dict[str, int]:
        """Returns by node the lowest priority of pods with a place there, which pods of higher priority may take."""
        found: dict[str, int] = {}
        for kept in self._kept.values():
            node, priority = kept.place.node, kept.pod.priority
            found[node] = min(priority, found.get(node, priority))
        return found

    def keep(self, places: Mapping[Pod, NominatedPlace], *, reclaims: bool = False, reserved: bool = False) -> None:
        """Keeps the places of pods that are placed together. A place that was reclaimed stays marked as reclaimed if it
        is kept again. No pods are evicted for places that are `reserved`."""
        assert not self._state.journal.is_open
        keys = {pod: f"{pod.uid}{_RESERVED}" if reserved else pod.uid for pod in places}
        again = Counter(_taken(pod, place) for pod, place in places.items())
        before = {pod: self._kept.pop(key) for pod, key in keys.items() if key in self._kept}
        for nomination in before.values():
            # Keeping the same place again frees nothing, even if another of the pods gets it.
            taken = _taken(nomination.placeholder, nomination.place)
            again[taken] -= 1
            self._release(nomination)
            if again[taken] < 0:
                self._state.vacated(nomination.place.node, nomination.place.devices)
        seen = self._state.helped.end
        for pod, place in places.items():
            known = before.get(pod)
            contention = self._state.queues.contention_of(pod) if reclaims else known.contention if known else None
            placeholder = replace(pod, uid=f"{keys[pod]}/nominated", group=None, is_placeholder=True)
            nomination = _Nomination(pod, placeholder, place, keys[pod], reserved, contention, seen)
            self._kept[nomination.key] = nomination
            self._take(nomination)

    def drop(self, uid: str, *, reserved: bool = False) -> None:
        if not self._kept:
            return
        assert not self._state.journal.is_open
        nomination = self._kept.pop(f"{uid}{_RESERVED}" if reserved else uid, None)
        if nomination is not None:
            self._release(nomination)
            self._state.vacated(nomination.place.node, nomination.place.devices)

    def give_up(self, uid: str) -> None:
        """Drops the place and the reserved quota of a pod that cannot use them."""
        self.drop(uid)
        self._state.queues.give_up(uid)

    def seen_by(self, *pods: Pod) -> AbstractContextManager[object]:
        """Returns a trial of the state as the pods see it: their own places and reserved quota are free, and so are
        places of pods of lower priority. All pods have the same priority."""
        return self._seen_by(pods) if self._kept or self._state.queues.reservations else _AS_IT_IS

    @contextmanager
    def _seen_by(self, pods: Sequence[Pod]) -> Iterator[None]:
        with self._state.what_if() as trial:
            self._state.queues.reservations.free_for(pods, trial)
            self._hide(self._unseen_by(pods), trial)
            yield

    @contextmanager
    def without_reservations(self) -> Iterator[None]:
        """Tries out the state without reserved places."""
        with self._state.what_if() as trial:
            self._hide([kept for kept in self._kept.values() if kept.reserved], trial)
            yield

    def _unseen_by(self, pods: Sequence[Pod]) -> list[_Nomination]:
        uids, priority = {pod.uid for pod in pods}, pods[0].priority
        contention = self._state.queues.contention_of(pods[0])
        return [
            kept
            for kept in self._kept.values()
            if kept.pod.uid in uids
            or (kept.pod.priority < priority and (kept.contention is None or kept.contention != contention))
        ]

    def _hide(self, nominations: Sequence[_Nomination], trial: Trial) -> None:
        for nomination in nominations:
            if not self._state.journal.has(("nomination", nomination.key)):
                self._release(nomination)
                trial.record(("nomination", nomination.key), partial(self._take, nomination))

    def _take(self, nomination: _Nomination) -> None:
        self._state.place(nomination.placeholder, nomination.place.node)
        if nomination.place.devices:
            self._state.hold(nomination.claim, nomination.place.devices)

    def _release(self, nomination: _Nomination) -> None:
        self._state.displace(nomination.placeholder, nomination.place.node, helps=False)
        if nomination.place.devices:
            self._state.release(nomination.claim, helps=False)


def _taken(pod: Pod, place: NominatedPlace) -> Hashable:
    """Returns what a nomination takes from other pods. Nominations with equal values take the same."""
    devices = sorted(
        (device["driver"], device["pool"], device["device"], str(device.get("consumedCapacity") or ""))
        for device in place.devices
    )
    needs = pod.requirements
    requests = frozenset((*needs.requests.items(), *pod.extra.items()))
    return place.node, pod.priority, requests, needs.ports, frozenset(pod.labels.items()), tuple(devices)
