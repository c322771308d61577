"""Places that are kept for pods while those they displace are going.

To pods of lower or equal priority the place and its devices are taken, as if the pod were there already; the pod itself
and those of higher priority do not see it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace

from dray.api.objects import Key
from dray.scheduling.actions import Preemption
from dray.scheduling.model import Pod
from dray.scheduling.state import State


@dataclass(frozen=True, slots=True)
class _Nomination:
    pod: Pod
    ghost: Pod
    preemption: Preemption

    @property
    def claim(self) -> Key:
        return "", self.ghost.uid


class Nominations:
    def __init__(self, state: State) -> None:
        self._state = state
        self._kept: dict[str, _Nomination] = {}
        self._lifted: set[str] = set()
        """Of those that an attempt does not see at the moment, the uids."""

    def node(self, uid: str) -> str:
        """Where the pod has a place kept for it, if anywhere."""
        kept = self._kept.get(uid)
        return kept.preemption.node if kept is not None else ""

    def places(self) -> list[tuple[str, str]]:
        """(uid of a pod, node) of all that are kept."""
        return [(uid, kept.preemption.node) for uid, kept in self._kept.items()]

    def keep(self, pod: Pod, preemption: Preemption) -> None:
        before = self._kept.pop(pod.uid, None)
        if before is not None:
            # Keeping the same place once more helps nobody.
            self._leave(before, helps=before.preemption.node != preemption.node)
        ghost = replace(pod, uid=f"{pod.uid}/nominated", group=None, ghost=True)
        self._lifted.discard(ghost.uid)
        nomination = self._kept[pod.uid] = _Nomination(pod, ghost, preemption)
        self._enter(nomination)

    def drop(self, uid: str) -> None:
        nomination = self._kept.pop(uid, None)
        if nomination is not None:
            self._leave(nomination, helps=True)

    def out_of_sight_of(self, *pods: Pod) -> AbstractContextManager[None]:
        """For one attempt of the pods, which are of one priority."""
        return self._lifting(pods) if self._kept else nullcontext()

    @contextmanager
    def _lifting(self, pods: Sequence[Pod]) -> Iterator[None]:
        uids, priority = {each.uid for each in pods}, pods[0].priority
        lifted = [
            nomination
            for nomination in self._kept.values()
            if nomination.pod.uid in uids or nomination.pod.priority < priority
        ]
        try:
            for nomination in lifted:
                self._leave(nomination, helps=False)
                self._lifted.add(nomination.ghost.uid)
            yield
        finally:
            for nomination in lifted:
                if nomination.ghost.uid in self._lifted:
                    self._lifted.discard(nomination.ghost.uid)
                    if self._kept.get(nomination.pod.uid) is nomination:
                        self._enter(nomination)

    def _enter(self, nomination: _Nomination) -> None:
        self._state.place(nomination.ghost, nomination.preemption.node)
        if nomination.preemption.allocation:
            self._state.hold(nomination.claim, nomination.preemption.allocation)

    def _leave(self, nomination: _Nomination, *, helps: bool) -> None:
        if nomination.ghost.uid in self._lifted:
            if helps:
                self._state.vacated(nomination.preemption.node, nomination.preemption.allocation)
            return
        self._state.displace(nomination.ghost, nomination.preemption.node, helps=helps)
        if nomination.preemption.allocation:
            self._state.release(nomination.claim, helps=helps)
