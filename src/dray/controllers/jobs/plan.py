"""The plan of a Job: which pods to delete or to create next. Never both at once: deletions are observed first.

A failed pod is replaced after 10 s, doubling to 10 minutes. A pod that was disrupted is replaced after 10 s however
often that happens, and at once if the scheduler removed it: then the new pod waits in the scheduler's queue.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from typing import Final

from dray.api.objects import Object, uid_of
from dray.controllers.jobs import pods as pod_facts
from dray.controllers.jobs.indexes import Indexes
from dray.controllers.jobs.view import JobView
from dray.controllers.workloads.removal import removal_order

_FIRST: Final = 10.0
_LONGEST: Final = 600.0
MOST_AT_ONCE: Final = 500


def remaining(failures: int, last: datetime | None, now: datetime) -> float:
    """Seconds still to wait after so many failures in a row."""
    if not failures or last is None:
        return 0.0
    wait = min(_LONGEST, _FIRST * 2.0 ** min(failures - 1, 30))
    return max(0.0, wait - (now - last).total_seconds())


@dataclass(frozen=True, slots=True)
class Record:
    """Number of failures since the last success, and the time of the last one."""

    failures: int = 0
    last: datetime | None = None

    def after(self, succeeded: Iterable[Object], failed: Iterable[Object]) -> Record:
        """Returns the record after these pods have ended."""
        success = max(map(pod_facts.finish_time, succeeded), default=None)
        before = self if success is None else Record()
        ends = [(pod_facts.finish_time(pod), pod) for pod in failed if not pod_facts.is_preempted(pod)]
        ends = [(end, pod) for end, pod in ends if success is None or end > success]
        last = max([*(end for end, _ in ends), *([before.last] if before.last else [])], default=None)
        failures = before.failures + sum(not pod_facts.is_disrupted(pod) for _, pod in ends)
        return Record(max(failures, 1) if ends else failures, last)

    def remaining(self, now: datetime) -> float:
        return remaining(self.failures, self.last, now)


@dataclass(frozen=True, slots=True)
class Plan:
    delete: list[Object] = field(default_factory=list)
    # For an Indexed Job the index of each new pod, otherwise None for each.
    create: list[int | None] = field(default_factory=list)
    # When pods may be made that may not be made yet.
    wait: float | None = None


def plan(view: JobView, record: Record, now: datetime) -> Plan:
    if view.spec.suspended:
        return Plan(delete=view.active[:MOST_AT_ONCE])
    number = wanted(view) - len(view.active)
    surplus = _surplus(view, -number)
    if surplus:
        return Plan(delete=surplus[:MOST_AT_ONCE])
    if view.spec.replaces_ended_only:
        number -= len(view.terminating)
    if number <= 0:
        return Plan()
    if view.spec.backoff_limit_per_index is not None:
        return _plan_by_index(view, min(number, MOST_AT_ONCE), now)
    wait = record.remaining(now)
    if wait > 0:
        return Plan(wait=wait)
    number = min(number, MOST_AT_ONCE)
    if view.spec.indexed:
        return Plan(create=list(islice(_settled_indexes(view).missing(view.spec.completions or 0), number)))
    return Plan(create=[None] * number)


def wanted(view: JobView) -> int:
    """Returns how many pods should be active."""
    spec = view.spec
    if spec.completions is None:
        # Once one has succeeded there is no work left: the others end by themselves.
        return min(len(view.active), spec.parallelism) if view.succeeded else spec.parallelism
    left = spec.completions - view.succeeded - view.failed_indexes.total
    return max(0, min(left, spec.parallelism))


def _surplus(view: JobView, number: int) -> list[Object]:
    """Returns active pods to delete: misplaced ones first, then the least valuable."""
    misplaced = _misplaced(view) if view.spec.indexed else []
    if len(misplaced) >= number:
        return misplaced
    gone = {uid_of(pod) for pod in misplaced}
    others = sorted((pod for pod in view.active if uid_of(pod) not in gone), key=removal_order)
    return misplaced + others[: number - len(misplaced)]


def _misplaced(view: JobView) -> list[Object]:
    found = []
    taken: Counter[int] = Counter()
    done = (view.succeeded_indexes, view.failed_indexes)
    for pod in sorted(view.active, key=removal_order, reverse=True):
        index = pod_facts.completion_index(pod)
        if index is None or not view.has_place(pod) or taken[index] or any(index in indexes for indexes in done):
            found.append(pod)
        else:
            taken[index] += 1
    return found


def _settled_indexes(view: JobView) -> Indexes:
    """Indexes that need no new pod."""
    busy = view.active + view.terminating if view.spec.replaces_ended_only else view.active
    indexes = (pod_facts.completion_index(pod) for pod in busy)
    return view.succeeded_indexes | view.failed_indexes | Indexes.of(index for index in indexes if index is not None)


def _plan_by_index(view: JobView, number: int, now: datetime) -> Plan:
    ready: list[int | None] = []
    waits = []
    for index in _settled_indexes(view).missing(view.spec.completions or 0):
        if len(ready) == number:
            break
        previous = view.retained.get(index)
        wait = _wait_of(previous, now) if previous is not None else 0.0
        if wait > 0:
            waits.append(wait)
        else:
            ready.append(index)
    return Plan(create=ready, wait=min(waits, default=None))


def _wait_of(failed: Object, now: datetime) -> float:
    if pod_facts.is_preempted(failed):
        return 0.0
    if pod_facts.is_disrupted(failed):
        return remaining(1, pod_facts.finish_time(failed), now)
    failures = pod_facts.failure_count(failed) + pod_facts.ignored_failure_count(failed) + 1
    return remaining(failures, pod_facts.finish_time(failed), now)
