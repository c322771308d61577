"""Writes the status of a Job: ended pods are listed, released and counted, and the Job is ended."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import Counter

from dray.api.objects import Object, uid_of, version_of
from dray.client.clock import timestamp
from dray.client.informer import Informer
from dray.controllers.environment import Environment
from dray.controllers.jobs import accounting, conditions
from dray.controllers.jobs.actions import PodActions
from dray.controllers.jobs.outcome import Outcome
from dray.controllers.jobs.spec import JobSpec
from dray.controllers.jobs.view import JobView
from dray.controllers.kinds import JOBS
from dray.controllers.workloads.own_writes import OwnWrites


class StatusWriter:
    """Writes the status of Jobs. `pods_of` returns the pods of a Job."""

    def __init__(
        self, environment: Environment, jobs: Informer, pods_of: Callable[[Object], list[Object]], actions: PodActions
    ) -> None:
        self._client = environment.client
        self._events = environment.events
        self._time = environment.time
        self._finished = Counter(
            "job_controller_jobs_finished_total",
            "Jobs that ended",
            ("completion_mode", "result", "reason"),
            registry=environment.metrics,
        )
        self._pods_finished = Counter(
            "job_controller_job_pods_finished_total",
            "Pods of Jobs that were counted",
            ("completion_mode", "result"),
            registry=environment.metrics,
        )
        self._jobs = jobs
        self._written = OwnWrites(jobs)
        self._versions: dict[str, int] = {}
        self._pods_of = pods_of
        self._actions = actions

    def newest(self, cached: Object) -> Object:
        """Returns the Job at its newest version."""
        return self._written.newest(cached["metadata"]["uid"], [cached])[0]

    def version(self, uid: str) -> int:
        """Returns the version of the Job at its last status write here; -1 if there was none."""
        return self._versions.get(uid, -1)

    def forget(self, uid: str) -> None:
        self._written.forget(uid)
        self._versions.pop(uid, None)

    async def enter(self, view: JobView, found: Outcome | None) -> tuple[Object, bool]:
        """Lists ended pods in the status, removes their finalizers. Returns the Job, and whether pods are left."""
        uids = {uid_of(pod) for pod in view.tracked}
        settled = {**view.job, "status": accounting.settle(view.status, uids)}
        view = JobView(settled, view.spec, view.pods)
        entry = accounting.enter(view, found)
        status = _with_numbers(entry.status, view)
        job = view.job
        is_new = False
        if found is not None:
            now = timestamp(self._time.now())
            is_new = conditions.put(status, found.announcement, True, found.reason, found.message, now)
        if entry.released or is_new:
            job = await self._write(job, status)
            self._count_pods(view.spec, entry)
        else:
            job = {**job, "status": status}
        if found is not None:
            await self._actions.delete(job, view.active)
        await self._actions.release(job, entry.released)
        return job, entry.is_partial

    async def conclude(self, job: Object, found: Outcome | None) -> Object:
        """Counts the released pods; ends the Job if it is over and its pods are gone. Returns the Job."""
        view = JobView.of(job, self._pods_of(job))
        status = accounting.settle(view.status, {uid_of(pod) for pod in view.tracked})
        status = _with_numbers(status, view)
        is_over = accounting.is_settled(status) and not view.active and not view.terminating
        if found is None or not is_over:
            return await self._write(job, status)
        now = timestamp(self._time.now())
        conditions.put(status, found.end, True, found.reason, found.message, now)
        status.setdefault("startTime", now)
        if found.succeeded:
            status["completionTime"] = now
        job = await self._write(job, status)
        self._tell_end(view.spec, job, found)
        return job

    async def _write(self, job: Object, status: Object) -> Object:
        uid = job["metadata"]["uid"]
        stored = self._jobs.cache.get(job["metadata"]["name"], namespace=job["metadata"]["namespace"])
        newest = self.newest(stored) if stored is not None and stored["metadata"]["uid"] == uid else None
        if newest is not None and version_of(newest) == version_of(job) and newest.get("status") == status:
            return {**job, "status": status}
        after = await self._client.update_status(JOBS, {**job, "status": status})
        self._written.put(uid, after)
        self._versions[uid] = version_of(after)
        return after

    def _count_pods(self, spec: JobSpec, entry: accounting.Entry) -> None:
        mode = "Indexed" if spec.indexed else "NonIndexed"
        self._pods_finished.labels(mode, "succeeded").inc(entry.succeeded)
        self._pods_finished.labels(mode, "failed").inc(entry.failed)

    def _tell_end(self, spec: JobSpec, job: Object, found: Outcome) -> None:
        mode, result = "Indexed" if spec.indexed else "NonIndexed", "succeeded" if found.succeeded else "failed"
        self._finished.labels(mode, result, found.reason).inc()
        if found.succeeded:
            self._events.normal(job, "Completed", "Job completed")
        else:
            self._events.warning(job, found.reason, found.message)


def _with_numbers(status: Object, view: JobView) -> Object:
    """Returns the status with the numbers of ready, terminating and active pods."""
    numbered = {**status, "ready": view.ready, "terminating": len(view.terminating)}
    numbered.pop("active", None)
    if view.active:
        numbered["active"] = len(view.active)
    return numbered
