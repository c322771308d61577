"""QueueDemand: the amounts that waiting pods want of their queues; a claim that several pods share counts once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from typing import NamedTuple

from dray.allocation.usage import ClaimKey

Amounts = Mapping[str, int]
Count = Callable[[str, Amounts, int], None]


class _Waiting(NamedTuple):
    queue: str
    own: Amounts
    claims: tuple[ClaimKey, ...]
    job: Hashable


class QueueDemand:
    def __init__(self, count: Count) -> None:
        """`count` is called with each change of the demand of a queue, and its sign."""
        self._count = count
        self._waiting: dict[str, _Waiting] = {}
        """The pods that wait, by uid."""
        self._claims: dict[tuple[str, ClaimKey], tuple[Amounts, set[str]]] = {}
        """The amounts of a claim, and the uids of its waiting pods, by queue and claim."""
        self._jobs: dict[Hashable, Counter[str]] = {}
        """The amounts that the pods of a job want together."""

    def add(self, uid: str, queue: str, own: Amounts, claims: Mapping[ClaimKey, Amounts], job: Hashable) -> None:
        self.remove(uid)
        self._waiting[uid] = _Waiting(queue, own, tuple(claims), job)
        self._change(queue, job, own, 1)
        for key, amounts in claims.items():
            known = self._claims.get((queue, key))
            if known is None:
                known = self._claims[queue, key] = amounts, set()
                self._change(queue, job, amounts, 1)
            known[1].add(uid)

    def remove(self, uid: str) -> None:
        known = self._waiting.pop(uid, None)
        if known is None:
            return
        self._change(known.queue, known.job, known.own, -1)
        for key in known.claims:
            amounts, users = self._claims[known.queue, key]
            users.discard(uid)
            if not users:
                del self._claims[known.queue, key]
                self._change(known.queue, known.job, amounts, -1)

    def of(self, job: Hashable) -> Amounts:
        """Returns the amounts that pods of a job want together."""
        return self._jobs.get(job) or {}

    def _change(self, queue: str, job: Hashable, amounts: Amounts, sign: int) -> None:
        self._count(queue, amounts, sign)
        total = self._jobs.setdefault(job, Counter())
        for name, amount in amounts.items():
            total[name] += sign * amount
        if not any(total.values()):
            del self._jobs[job]
