"""Accounting of ended pods in the status of a Job: each is counted once, whatever breaks in between.

1. A pod that ended is written into `status.uncountedTerminatedPods`, by uid (a succeeded pod of an Indexed Job into
   `completedIndexes`, which cannot count it twice), while its finalizer holds it.
2. Its finalizer is taken off.
3. Its uid is moved from there into the counter, in one write.

Whoever comes after a crash finds it at one of these points and goes on: with finalizer and not listed, 1; with
finalizer and listed, 2; listed without finalizer, or gone, 3.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from dray.api.objects import Object, mapping, uid_of
from dray.api.pods import phase_of
from dray.controllers.jobs import pods as pod_facts
from dray.controllers.jobs import policies
from dray.controllers.jobs.indexes import Indexes
from dray.controllers.jobs.outcome import Outcome
from dray.controllers.jobs.view import JobView

MOST_UNCOUNTED: Final = 500


@dataclass(frozen=True, slots=True)
class Entry:
    """Result of step 1: the status to write, and the pods whose finalizers may be removed afterwards."""

    status: Object
    released: list[Object]
    # Pods ended that did not fit.
    is_partial: bool
    succeeded: int
    failed: int


def enter(view: JobView, outcome: Outcome | None) -> Entry:
    status = dict(view.status)
    succeeded, failed = list(view.uncounted_succeeded), list(view.uncounted_failed)
    listed = {"succeeded": set(succeeded), "failed": set(failed)}
    indexes: set[int] = set()
    released: list[Object] = []
    new_failed, partial = 0, False
    for pod in view.tracked:
        if not _may_go(view, outcome, pod):
            continue
        if len(indexes) + len(succeeded) + len(failed) >= MOST_UNCOUNTED:
            partial = True
            break
        released.append(pod)
        uid = uid_of(pod)
        if uid in listed["succeeded"] or uid in listed["failed"] or not view.has_place(pod):
            continue
        if phase_of(pod) == "Succeeded":
            if not view.fulfils(pod):
                continue
            if view.spec.indexed:
                indexes.add(pod_facts.completion_index(pod) or 0)
            else:
                succeeded.append(uid)
        elif _counts_as_failed(view, outcome, pod):
            failed.append(uid)
            new_failed += 1
    new_succeeded = len(succeeded) - len(view.uncounted_succeeded)
    _list(status, succeeded, failed)
    if view.spec.indexed:
        new_succeeded = _put_indexes(view, status, indexes)
    return Entry(status, released, partial, new_succeeded, new_failed)


def _may_go(view: JobView, outcome: Outcome | None, pod: Object) -> bool:
    if view.is_leaving or outcome is not None or phase_of(pod) == "Succeeded":
        return True
    if not view.has_failed(pod):
        return False
    index = pod_facts.completion_index(pod)
    retained = view.retained.get(index) if index is not None else None
    return retained is None or uid_of(retained) != uid_of(pod)


def _counts_as_failed(view: JobView, outcome: Outcome | None, pod: Object) -> bool:
    # With the Job's failure everything fails that has not ended.
    ended_by_job = outcome is not None and not outcome.succeeded
    return (view.has_failed(pod) or ended_by_job) and policies.counts(view.spec, pod)


def _put_indexes(view: JobView, status: Object, new: set[int]) -> int:
    """Writes the indexes that are done; how many of them are new."""
    before = Indexes.parse(view.status.get("completedIndexes") or "", below=view.spec.completions)
    done = before | Indexes.of(new)
    _put(status, "completedIndexes", str(done))
    _put(status, "succeeded", done.total)
    if view.spec.backoff_limit_per_index is not None:
        # Said even if there is none: the Job keeps track of them.
        status["failedIndexes"] = str(view.failed_indexes)
    return done.total - before.total


def settle(status: Object, tracked: set[str]) -> Object:
    """Step 3: counts listed pods whose finalizer is gone; `tracked` are the uids that still have it."""
    uncounted = mapping(status.get("uncountedTerminatedPods"))
    left: dict[str, list[str]] = {}
    settled = dict(status)
    for name in ("succeeded", "failed"):
        listed = uncounted.get(name) or []
        left[name] = [uid for uid in listed if uid in tracked]
        _put(settled, name, int(status.get(name) or 0) + len(listed) - len(left[name]))
    _list(settled, left["succeeded"], left["failed"])
    return settled


def is_settled(status: Object) -> bool:
    return not any(mapping(status.get("uncountedTerminatedPods")).values())


def _list(status: Object, succeeded: list[str], failed: list[str]) -> None:
    listed = {"succeeded": succeeded, "failed": failed}
    status["uncountedTerminatedPods"] = {name: uids for name, uids in listed.items() if uids}


def _put(status: Object, name: str, value: int | str) -> None:
    """Sets a member; zero and empty values are left out, as in Kubernetes."""
    if value:
        status[name] = value
    else:
        status.pop(name, None)
