"""The outcome of a Job: complete or failed, and why. One that is written into the status is final."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from dray.api.objects import condition_of
from dray.api.pods import phase_of, restarts
from dray.api.times import after
from dray.client.clock import moment
from dray.controllers.jobs import conditions, policies
from dray.controllers.jobs.view import JobView


@dataclass(frozen=True, slots=True)
class Outcome:
    succeeded: bool
    reason: str
    message: str

    @property
    def announcement(self) -> str:
        """The condition that is set while pods of the Job still run."""
        return conditions.SUCCESS_CRITERIA_MET if self.succeeded else conditions.FAILURE_TARGET

    @property
    def end(self) -> str:
        return conditions.COMPLETE if self.succeeded else conditions.FAILED


def judge(view: JobView, now: datetime) -> Outcome | None:
    """Returns the outcome that ends the Job while pods may still run; `completed` covers reached completions."""
    return _written(view) or _failed(view, now) or _failed_by_indexes(view) or _policy_met(view)


def _written(view: JobView) -> Outcome | None:
    for kind, succeeded in ((conditions.SUCCESS_CRITERIA_MET, True), (conditions.FAILURE_TARGET, False)):
        found = condition_of(view.job, kind, "True")
        if found is not None:
            return Outcome(succeeded, found.get("reason") or "", found.get("message") or "")
    return None


def _failed(view: JobView, now: datetime) -> Outcome | None:
    message = policies.failure_of_job(view.spec, view.pods)
    if message:
        return Outcome(False, "PodFailurePolicy", message)
    if view.failed > view.spec.backoff_limit or _restarted_too_often(view):
        return Outcome(False, "BackoffLimitExceeded", "Job has reached the specified backoff limit")
    left = deadline(view, now)
    if left is not None and left <= 0:
        return Outcome(False, "DeadlineExceeded", "Job was active longer than specified deadline")
    return None


def _restarted_too_often(view: JobView) -> bool:
    if not view.spec.restarts_in_place:
        return False
    restarted = sum(restarts(pod) for pod in view.pods if phase_of(pod) in ("Running", "Pending"))
    return restarted > 0 and restarted >= view.spec.backoff_limit


def deadline(view: JobView, now: datetime) -> float | None:
    """Seconds that the Job may still be active."""
    start = view.status.get("startTime")
    if view.spec.active_deadline is None or view.spec.suspended or not start:
        return None
    return (after(moment(start), view.spec.active_deadline) - now).total_seconds()


def _failed_by_indexes(view: JobView) -> Outcome | None:
    spec, failed = view.spec, view.failed_indexes.total
    if not failed:
        return None
    if spec.max_failed_indexes is not None and failed > spec.max_failed_indexes:
        message = "Job has exceeded the specified maximal number of failed indexes"
        return Outcome(False, "MaxFailedIndexesExceeded", message)
    if failed + view.succeeded >= (spec.completions or 0):
        return Outcome(False, "FailedIndexes", "Job has failed indexes")
    return None


def _policy_met(view: JobView) -> Outcome | None:
    message = policies.success(view.spec, view.succeeded_indexes) if view.spec.indexed else ""
    return Outcome(True, "SuccessPolicy", message) if message else None


def completed(view: JobView) -> Outcome | None:
    """Returns the outcome of a Job whose completions are reached and whose pods have ended; else None."""
    if has_enough(view) and not view.active:
        return Outcome(True, "CompletionsReached", "Reached expected number of succeeded pods")
    return None


def has_enough(view: JobView) -> bool:
    """Whether everything that was asked for has succeeded."""
    wanted = view.spec.completions
    return view.succeeded > 0 if wanted is None else view.succeeded >= wanted
