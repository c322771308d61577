"""Nominations: resources and devices of nodes that are kept for pods until other pods have ended.

For pods of lower or equal priority the resources and devices are in use, as if the pod were on the node already. The
pod itself and pods of higher priority do not see the nomination. If pods were evicted to reclaim quota, pods of the
queues that compete for the quota see the nomination whatever their priority. Otherwise an evicted pod of higher
priority would be placed there again, and evicted again. *Reserved* places are kept apart: no pods are evicted for them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Final

from dray.api.objects import Key
from dray.scheduling.core.state import State
from dray.scheduling.model.actions import NominatedPlace
from dray.scheduling.model.pod import Pod
from dray.scheduling.quota.queues import Contention

_RESERVED: Final = "/reserved"
"""The suffix of the uid of a pod, in the key of a reserved place."""


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
        self._hidden: set[str] = set()
        """The uids of the placeholders that the current attempt does not see."""

    def __bool__(self) -> bool:
        return bool(self._kept)

    def node(self, uid: str) -> str:
        """Returns the node that is kept for the pod; empty if there is none."""
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
        """Returns the lowest priority of pods with a nomination, by node: pods of higher priority can use the node."""
        found: dict[str, int] = {}
        for kept in self._kept.values():
            node, priority = kept.place.node, kept.pod.priority
            found[node] = min(priority, found.get(node, priority))
        return found

    def keep(self, places: Mapping[Pod, NominatedPlace], *, reclaims: bool = False, reserved: bool = False) -> None:
        """Keeps the places of pods that are placed together. A place that was reclaimed stays marked as reclaimed if it
        is kept again. No pods are evicted for places that are `reserved`."""
        keys = {pod: f"{pod.uid}{_RESERVED}" if reserved else pod.uid for pod in places}
        again = Counter(_taken(pod, place) for pod, place in places.items())
        before = {pod: self._kept.pop(key) for pod, key in keys.items() if key in self._kept}
        for nomination in before.values():
            # Keeping the same place again frees nothing, even if another of the pods gets it.
            taken = _taken(nomination.placeholder, nomination.place)
            again[taken] -= 1
            self._release(nomination, helps=again[taken] < 0)
        seen = self._state.helped.end
        for pod, place in places.items():
            known = before.get(pod)
            contention = self._state.queues.contention_of(pod) if reclaims else known.contention if known else None
            placeholder = replace(pod, uid=f"{keys[pod]}/nominated", group=None, is_placeholder=True)
            self._hidden.discard(placeholder.uid)
            nomination = _Nomination(pod, placeholder, place, keys[pod], reserved, contention, seen)
            self._kept[nomination.key] = nomination
            self._take(nomination)

    def drop(self, uid: str, *, reserved: bool = False) -> None:
        nomination = self._kept.pop(f"{uid}{_RESERVED}" if reserved else uid, None)
        if nomination is not None:
            self._release(nomination, helps=True)

    def give_up(self, uid: str) -> None:
        """Drops the place and the reserved quota of a pod that cannot use them."""
        self.drop(uid)
        self._state.queues.give_up(uid)

    def hidden_from(self, *pods: Pod) -> AbstractContextManager[None]:
        """Hides the nominations that the pods do not see, for one attempt; all pods have the same priority."""
        return self._hiding(self._unseen_by(pods)) if self._kept else nullcontext()

    def without_reservations(self) -> AbstractContextManager[None]:
        """Hides all reserved places, for one attempt."""
        reserved = [kept for kept in self._kept.values() if kept.reserved and kept.placeholder.uid not in self._hidden]
        return self._hiding(reserved)

    def _unseen_by(self, pods: Sequence[Pod]) -> list[_Nomination]:
        uids, priority = {pod.uid for pod in pods}, pods[0].priority
        contention = self._state.queues.contention_of(pods[0])
        return [
            kept
            for kept in self._kept.values()
            if kept.placeholder.uid not in self._hidden
            if kept.pod.uid in uids
            or (kept.pod.priority < priority and (kept.contention is None or kept.contention != contention))
        ]

    @contextmanager
    def _hiding(self, hidden: Sequence[_Nomination]) -> Iterator[None]:
        try:
            for nomination in hidden:
                self._release(nomination, helps=False)
                self._hidden.add(nomination.placeholder.uid)
            yield
        finally:
            for nomination in hidden:
                if nomination.placeholder.uid in self._hidden:
                    self._hidden.discard(nomination.placeholder.uid)
                    if self._kept.get(nomination.key) is nomination:
                        self._take(nomination)

    def _take(self, nomination: _Nomination) -> None:
        self._state.place(nomination.placeholder, nomination.place.node)
        if nomination.place.devices:
            self._state.hold(nomination.claim, nomination.place.devices)

    def _release(self, nomination: _Nomination, *, helps: bool) -> None:
        place = nomination.place
        if nomination.placeholder.uid not in self._hidden:
            self._state.displace(nomination.placeholder, place.node, helps=False)
            if place.devices:
                self._state.release(nomination.claim, helps=False)
        if helps:
            self._state.vacated(place.node, place.devices)


def _taken(pod: Pod, place: NominatedPlace) -> Hashable:
    """Returns what a nomination takes from other pods. Nominations with equal values take the same."""
    devices = sorted(
        (device["driver"], device["pool"], device["device"], str(device.get("consumedCapacity") or ""))
        for device in place.devices
    )
    needs = pod.requirements
    requests = frozenset((*needs.requests.items(), *pod.extra.items()))
    return place.node, pod.priority, requests, needs.ports, frozenset(pod.labels.items()), tuple(devices)
