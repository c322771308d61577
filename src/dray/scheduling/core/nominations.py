"""Places that are kept for pods while those they displace are going, or while those that are there end by themselves.

To pods of lower or equal priority the place and its devices are taken, as if the pod were there already; the pod itself
and those of higher priority do not see it. A place that others left because it is due to the pod's queue is taken for
all pods of those queues: else whoever left it would come again and have it, by its priority, and be removed once more.
Places that are *reserved* are kept apart: no pod was evicted for them.
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
"""Follows the uid of a pod whose place is reserved."""


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
        self._lifted: set[str] = set()
        """Of those that an attempt does not see at the moment, the uids."""

    def __bool__(self) -> bool:
        return bool(self._kept)

    def node(self, uid: str) -> str:
        """Where the pod has a place kept for it, if anywhere."""
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
        """By node, the lowest priority of those that have a place kept there: the more urgent can have it."""
        found: dict[str, int] = {}
        for kept in self._kept.values():
            node, priority = kept.place.node, kept.pod.priority
            found[node] = min(priority, found.get(node, priority))
        return found

    def keep(self, places: Mapping[Pod, NominatedPlace], *, reclaims: bool = False, reserved: bool = False) -> None:
        """Keeps the places of pods that are placed together. What was reclaimed once stays so, whoever is evicted
        beside. Nobody is evicted for places that are `reserved`."""
        keys = {pod: f"{pod.uid}{_RESERVED}" if reserved else pod.uid for pod in places}
        again = Counter(_taken(pod, place) for pod, place in places.items())
        before = {pod: self._kept.pop(key) for pod, key in keys.items() if key in self._kept}
        for each in before.values():
            # Keeping the same place once more helps nobody, whichever of the pods has it.
            taken = _taken(each.placeholder, each.place)
            again[taken] -= 1
            self._leave(each, helps=again[taken] < 0)
        seen = self._state.helped.end
        for pod, place in places.items():
            known = before.get(pod)
            contention = self._state.queues.contention_of(pod) if reclaims else known.contention if known else None
            placeholder = replace(pod, uid=f"{keys[pod]}/nominated", group=None, is_placeholder=True)
            self._lifted.discard(placeholder.uid)
            nomination = _Nomination(pod, placeholder, place, keys[pod], reserved, contention, seen)
            self._kept[nomination.key] = nomination
            self._enter(nomination)

    def drop(self, uid: str, *, reserved: bool = False) -> None:
        nomination = self._kept.pop(f"{uid}{_RESERVED}" if reserved else uid, None)
        if nomination is not None:
            self._leave(nomination, helps=True)

    def give_up(self, uid: str) -> None:
        """The pod cannot have its place: neither that nor quota is kept for it any longer."""
        self.drop(uid)
        self._state.queues.give_up(uid)

    def hidden_from(self, *pods: Pod) -> AbstractContextManager[None]:
        """For one attempt of the pods, which are of one priority."""
        return self._lifting(self._unseen_by(pods)) if self._kept else nullcontext()

    def without_reservations(self) -> AbstractContextManager[None]:
        """Tries out an attempt as if no place were reserved."""
        seen = [each for each in self._kept.values() if each.reserved and each.placeholder.uid not in self._lifted]
        return self._lifting(seen)

    def _unseen_by(self, pods: Sequence[Pod]) -> list[_Nomination]:
        uids, priority = {each.uid for each in pods}, pods[0].priority
        contention = self._state.queues.contention_of(pods[0])
        return [
            each
            for each in self._kept.values()
            if each.placeholder.uid not in self._lifted
            if each.pod.uid in uids
            or (each.pod.priority < priority and (each.contention is None or each.contention != contention))
        ]

    @contextmanager
    def _lifting(self, lifted: Sequence[_Nomination]) -> Iterator[None]:
        try:
            for nomination in lifted:
                self._leave(nomination, helps=False)
                self._lifted.add(nomination.placeholder.uid)
            yield
        finally:
            for nomination in lifted:
                if nomination.placeholder.uid in self._lifted:
                    self._lifted.discard(nomination.placeholder.uid)
                    if self._kept.get(nomination.key) is nomination:
                        self._enter(nomination)

    def _enter(self, nomination: _Nomination) -> None:
        self._state.place(nomination.placeholder, nomination.place.node)
        if nomination.place.devices:
            self._state.hold(nomination.claim, nomination.place.devices)

    def _leave(self, nomination: _Nomination, *, helps: bool) -> None:
        place = nomination.place
        if nomination.placeholder.uid not in self._lifted:
            self._state.displace(nomination.placeholder, place.node, helps=False)
            if place.devices:
                self._state.release(nomination.claim, helps=False)
        if helps:
            self._state.vacated(place.node, place.devices)


def _taken(pod: Pod, place: NominatedPlace) -> Hashable:
    """Returns what others see taken where a place is kept for a pod. Equal values leave others the same."""
    devices = sorted(
        (each["driver"], each["pool"], each["device"], str(each.get("consumedCapacity") or ""))
        for each in place.devices
    )
    needs = pod.requirements
    requests = frozenset((*needs.requests.items(), *pod.extra.items()))
    return place.node, pod.priority, requests, needs.ports, frozenset(pod.labels.items()), tuple(devices)
