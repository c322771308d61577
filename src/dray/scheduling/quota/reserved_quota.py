"""QuotaReservations: quota that is reserved for pods while the pods that use it are ending.

Quota stays reserved until the pod is placed, is deleted or cannot be placed any more. In an attempt of the pod itself
the quota is free (`free_for`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from dray.scheduling.model.journal import Changes, Journal
from dray.scheduling.model.pod import Pod
from dray.scheduling.quota.queue_policy import Ask, Asset, QueuePolicy


@dataclass(frozen=True, slots=True)
class ReservedQuota:
    """Quota that is, or is to be, reserved for a pod, which may stand for several that are placed together."""

    pod: Pod
    policy: QueuePolicy
    queue: str
    assets: Mapping[Asset, int]

    @property
    def root(self) -> str:
        return self.policy.queue(self.queue).root

    def charge(self, sign: int) -> None:
        self.policy.charge(self.queue, self.assets, sign)

    def awaits_others(self) -> bool:
        """Whether pods that are ending still use the quota, so that the pod cannot be placed yet."""
        ending = (self.policy.queue(queue).root for queue in self.policy.charges.ending_queues())
        return self.root in ending and not self.policy.evictions(Ask((), self.queue, {}, 0)).has_room(self.assets)


class QuotaReservations:
    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._known: dict[str, ReservedQuota] = {}
        """The reservations by pod uid."""

    def __bool__(self) -> bool:
        return bool(self._known)

    def uids(self) -> list[str]:
        return list(self._known)

    def reserve(self, quota: ReservedQuota) -> None:
        self.remove(quota.pod.uid)
        self._known[quota.pod.uid] = quota
        quota.charge(1)

    def remove(self, uid: str) -> ReservedQuota | None:
        """Ends the reservation for a pod, if there is one, and returns it."""
        quota = self._known.pop(uid, None)
        if quota is not None:
            quota.charge(-1)
        return quota

    def remove_all(self, policy: QueuePolicy) -> None:
        for uid in [uid for uid, quota in self._known.items() if quota.policy is policy]:
            self.remove(uid)

    def free_for(self, pods: Iterable[Pod], trial: Changes) -> None:
        """Frees the quota that is reserved for the pods, inside the trial, unless an outer trial frees it already."""
        for uid in {pod.uid for pod in pods} & self._known.keys():
            if self._journal.has(("reserved quota", uid)):
                continue
            quota = self._known[uid]
            quota.charge(-1)
            trial.record(("reserved quota", uid), partial(quota.charge, 1))

    def is_reserved(self, policy: QueuePolicy, queues: Iterable[str]) -> bool:
        """Whether quota of one of the queues is reserved, for others than the pods that are being tried."""
        related = set(queues) if self._known else ()
        return any(
            quota.policy is policy and quota.queue in related and not self._journal.has(("reserved quota", uid))
            for uid, quota in self._known.items()
        )

    def awaits_others(self, uid: str) -> bool:
        """Whether quota is reserved for the pod, and pods that are ending still use it."""
        return uid in self._known and self._known[uid].awaits_others()

    def ready(self, policy: QueuePolicy, queue: str) -> list[str]:
        """Returns the uids of pods whose reserved quota is free now, after a pod of the queue ended."""
        root = policy.queue(queue).root if queue else None
        waiting: dict[tuple[str, frozenset[tuple[Asset, int]]], bool] = {}
        """Answers by queue and reserved assets: many pods may wait for the same."""
        found = []
        for uid, quota in self._known.items():
            if quota.policy is policy and quota.root == root:
                key = quota.queue, frozenset(quota.assets.items())
                if key not in waiting:
                    waiting[key] = quota.awaits_others()
                if not waiting[key]:
                    found.append(uid)
        return found
