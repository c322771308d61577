"""The Job controller: event handlers and one reconciliation of a Job.

One pass over a Job: find out which pods are its, judge whether it is over, make or delete pods, enter the pods that
ended into the status, take off their finalizers, count them. Each step finds out by itself whether an earlier pass,
here or elsewhere, has done it.

Pods whose Job is gone or over are let go by a queue of their own.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final

from dray.api.objects import Key, Object, condition_of, controller_of, status_of, uid_of, version_of
from dray.api.pods import is_active, is_ready, phase_of, restarts
from dray.api.times import after
from dray.client.cache import Change
from dray.client.clock import moment, timestamp
from dray.client.errors import ClientError, NotFound
from dray.controllers.environment import Environment, Workers, named
from dray.controllers.jobs import accounting, conditions, outcome
from dray.controllers.jobs import pods as pod_facts
from dray.controllers.jobs.actions import PodActions, release
from dray.controllers.jobs.groups import JobGroups
from dray.controllers.jobs.membership import Membership
from dray.controllers.jobs.plan import Plan, Record, plan
from dray.controllers.jobs.spec import JobSpec, is_known_mode, is_managed_here
from dray.controllers.jobs.status_writer import StatusWriter
from dray.controllers.jobs.view import JobView
from dray.controllers.kinds import JOBS, PODS
from dray.controllers.workloads.adoption import BY_CONTROLLER, index_by_controller
from dray.controllers.workloads.own_writes import OwnWrites, is_behind

# How often to look whether the informer has come to what was written here.
_CATCH_UP: Final = 5.0
_GATHER_PER_POD: Final = 0.0002
_LONGEST_GATHER: Final = 1.0


class JobController:
    def __init__(self, environment: Environment) -> None:
        self._client = environment.client
        self._events = environment.events
        self._time = environment.time
        self._jobs = environment.informers.of(JOBS)
        self._pods = environment.informers.of(PODS, {BY_CONTROLLER: index_by_controller})
        self._written_pods = OwnWrites(self._pods)
        self._membership = Membership(self._client, self._jobs, self._pods, self._written_pods)
        self._records: dict[str, Record] = {}
        """Consecutive failures by Job; after a restart they are derived from the remaining pods."""
        self._gather: dict[str, float] = {}
        """Seconds that a Job waits to gather more pod changes."""
        self._groups = JobGroups(environment)
        self._actions = PodActions(environment, self._written_pods)
        self._status = StatusWriter(environment, self._jobs, self._membership.of, self._actions)
        self._workers: Workers[Key] = environment.workers("job", self._reconcile, called=named("Job"))
        self._orphans: Workers[Key] = environment.workers(
            "pods of ended jobs", self._release_orphan, called=named("Pod"), count=4
        )
        self._jobs.add_handler(self._on_job)
        self._pods.add_handler(self._on_pod)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._workers.run())
            group.create_task(self._orphans.run())

    # What happened

    def _on_job(self, change: Change) -> None:
        uid = change.object["metadata"].get("uid") or ""
        if change.type == "DELETED":
            self._forget(uid)
            for pod in self._pods.cache.by(BY_CONTROLLER, uid):
                self._orphans.queue.add((pod["metadata"]["namespace"], pod["metadata"]["name"]))
        elif version_of(change.object) > self._status.version(uid):
            # Not for what was written here.
            self._workers.queue.add(change.key)

    def _on_pod(self, change: Change) -> None:
        before, pod = change.previous, change.object
        reference = pod_facts.job_of(pod)
        former = pod_facts.job_of(before) if before is not None else None
        if former is not None and (reference is None or reference["uid"] != former["uid"]):
            self._wake(change.key[0], former)
        if reference is None:
            if change.type != "DELETED" and (before is None or _is_moved(before, pod)):
                self._on_nobodys(change.key, pod)
            return
        if change.type == "DELETED":
            self._written_pods.removed(reference["uid"], uid_of(pod))
        elif before is not None and not _matters(before, pod):
            return
        if not self._wake(change.key[0], reference) and change.type != "DELETED" and pod_facts.is_tracked(pod):
            self._orphans.queue.add(change.key)

    def _on_nobodys(self, key: Key, pod: Object) -> None:
        takers = self._membership.selecting(pod)
        for taker in takers:
            self._workers.queue.add(taker)
        if not takers and pod_facts.is_tracked(pod):
            self._orphans.queue.add(key)

    def _wake(self, namespace: str, reference: Object) -> bool:
        """Queues the Job; returns False if it does not exist."""
        job = self._jobs.cache.get(reference["name"], namespace=namespace)
        if job is None or job["metadata"]["uid"] != reference["uid"]:
            return False
        self._workers.queue.add_after((namespace, reference["name"]), self._gather.get(reference["uid"], 0.0))
        return True

    def _forget(self, uid: str) -> None:
        self._written_pods.forget(uid)
        self._records.pop(uid, None)
        self._gather.pop(uid, None)
        self._actions.uncertain.discard(uid)
        self._groups.forget(uid)
        self._status.forget(uid)

    # Pods without a Job

    async def _release_orphan(self, key: Key) -> None:
        pod = self._pods.cache.get(key[1], namespace=key[0])
        if pod is None or not pod_facts.is_tracked(pod):
            return
        reference = pod_facts.job_of(pod)
        if reference is not None:
            if await self._exists(reference, pod):
                return
        elif controller_of(pod) is not None or self._membership.selecting(pod):
            return
        await release(self._client, pod)

    async def _exists(self, reference: Object, pod: Object) -> bool:
        name, namespace = reference["name"], pod["metadata"]["namespace"]
        job = self._jobs.cache.get(name, namespace=namespace)
        is_it = job is not None and job["metadata"]["uid"] == reference["uid"]
        if is_it or not is_behind(self._jobs, pod):
            return is_it
        # The cache of Jobs may be behind that of pods: what it does not know may be new.
        try:
            job = await self._client.get(JOBS, name, namespace=namespace)
        except NotFound:
            return False
        return bool(job["metadata"]["uid"] == reference["uid"])

    # Jobs

    async def _reconcile(self, key: Key) -> float | None:
        cached = self._jobs.cache.get(key[1], namespace=key[0])
        if cached is None or not is_managed_here(cached):
            return None
        job = self._status.newest(cached)
        end = conditions.end(job)
        if end is not None:
            return await self._after_end(job, end)
        if not is_known_mode(job):
            self._events.warning(job, "UnknownCompletionMode", "Skipped Job sync because completion mode is unknown")
            return None
        try:
            return await self._advance(job)
        finally:
            if self._jobs.cache.get(key[1], namespace=key[0]) is None:
                # It went in the meantime.
                self._forget(job["metadata"]["uid"])

    async def _after_end(self, job: Object, end: Object) -> float | None:
        uid = job["metadata"]["uid"]
        self._records.pop(uid, None)
        left = [pod for pod in self._membership.controlled(uid) if pod_facts.is_tracked(pod)]
        await self._actions.release(job, left)
        self._written_pods.forget(uid)
        ttl = JobSpec.of(job).ttl
        ended = end.get("lastTransitionTime")
        # Whoever wrote the condition need not have said when.
        if ttl is None or not ended or job["metadata"].get("deletionTimestamp"):
            return None
        wait = (after(moment(ended), ttl) - self._time.now()).total_seconds()
        if wait > 0:
            return wait
        # Only as it was judged: a later write may have given it more time.
        with suppress(NotFound):
            await self._client.delete_object(JOBS, job, pinned=True, propagation="Foreground")
        return None

    async def _advance(self, job: Object) -> float | None:
        uid, now = job["metadata"]["uid"], self._time.now()
        pods = await self._true_pods(job)
        news: list[tuple[str, str]] = []
        if not (job["spec"].get("suspend") and outcome.has_enough(JobView.of(job, pods))):
            # Not for what is done: that is over, and not suspended.
            job, news = _started(job, timestamp(now))
        view = JobView.of(job, pods)
        record = self._record(view)
        found, wait, failure = outcome.judge(view, now), None, None
        if found is None and not view.is_leaving:
            next_ = plan(view, record, now)
            failure = await self._carry_out(view, next_)
            # Once it is over there is nothing to wait for but its pods, and they make themselves heard.
            waits = (outcome.deadline(view, now), next_.wait)
            wait = min((delay for delay in waits if delay is not None), default=None)
            view = JobView.of(job, self._membership.of(job))
            record = self._record(view)
        found = found or outcome.completed(view)
        job, is_partial = await self._status.enter(view, found)
        self._records[uid] = record
        if is_partial:
            # What is left over is new again next time: then the failures are read off the pods.
            del self._records[uid]
        job = await self._status.conclude(job, found if not is_partial else None)
        for reason, message in news:
            self._events.normal(job, reason, message)
        end = conditions.end(job)
        if end is not None:
            return await self._after_end(job, end)
        again = self._again(uid, wait, is_partial)
        if failure is not None:
            # Its time may be up before that is tried again.
            if again is not None:
                self._workers.queue.add_after((job["metadata"]["namespace"], job["metadata"]["name"]), again)
            raise failure
        return again

    async def _carry_out(self, view: JobView, next_: Plan) -> ClientError | None:
        """Deletes and creates pods by the plan. Returns the error, if any: the status is still computed and written."""
        try:
            await self._actions.delete(view.job, next_.delete, uncounted=True)
            group = await self._groups.ensure(view) if not view.spec.suspended else ""
            await self._actions.create(view, next_.create, group)
        except ClientError as error:
            return error
        return None

    def _again(self, uid: str, wait: float | None, is_partial: bool) -> float | None:
        if is_partial:
            return 0.0
        if self._written_pods.pending(uid):
            return _CATCH_UP if wait is None else min(_CATCH_UP, wait)
        return wait

    async def _true_pods(self, job: Object) -> list[Object]:
        """Returns the Job's pods, from the server if cached ones could be counted or created twice.

        That is the case if another process wrote the Job last and the cache lags behind, or if a pod creation was not
        answered.
        """
        uid = job["metadata"]["uid"]
        await self._membership.settle(job)
        pods = self._membership.of(job)
        by_others = version_of(job) != self._status.version(uid) and is_behind(self._pods, job)
        status = status_of(job)
        ended = (pod_facts.is_tracked(pod) and not is_active(pod) for pod in pods)
        is_open = not accounting.is_settled(status) or any(ended)
        if (by_others and is_open) or uid in self._actions.uncertain:
            await self._actions.refresh(job, pods)
            pods = self._membership.of(job)
        self._gather[uid] = min(_LONGEST_GATHER, len(pods) * _GATHER_PER_POD)
        return pods

    def _record(self, view: JobView) -> Record:
        known = self._records.get(view.job["metadata"]["uid"])
        if known is not None:
            return known.after(view.newly_succeeded, view.newly_failed)
        succeeded = [pod for pod in view.pods if phase_of(pod) == "Succeeded"]
        return Record().after(succeeded, [pod for pod in view.pods if view.has_failed(pod)])


def _started(job: Object, now: str) -> tuple[Object, list[tuple[str, str]]]:
    """Returns the Job with start time and suspension in its status, and the events to send."""
    status = dict(status_of(job))
    news: list[tuple[str, str]] = []
    if any(condition_of(job, kind, "True") for kind in (conditions.FAILURE_TARGET, conditions.SUCCESS_CRITERIA_MET)):
        return job, news
    if job["spec"].get("suspend"):
        if conditions.put(status, conditions.SUSPENDED, True, "JobSuspended", "Job suspended", now):
            news.append(("Suspended", "Job suspended"))
        # Its template may be changed as if it had never started.
        status.pop("startTime", None)
    elif conditions.put(status, conditions.SUSPENDED, False, "JobResumed", "Job resumed", now):
        news.append(("Resumed", "Job resumed"))
        # The time it may be active starts anew.
        status["startTime"] = now
    else:
        status.setdefault("startTime", now)
    return {**job, "status": status}, news


def _matters(before: Object, now: Object) -> bool:
    """Whether a change of a pod may change what becomes of its Job."""
    old, new = before["metadata"], now["metadata"]
    if _is_moved(before, now) or any(old.get(name) != new.get(name) for name in ("deletionTimestamp", "finalizers")):
        return True
    if phase_of(before) != phase_of(now) or is_ready(before) != is_ready(now):
        return True
    restarts_in_place = now["spec"].get("restartPolicy") == "OnFailure"
    return restarts_in_place and restarts(before) != restarts(now)


def _is_moved(before: Object, now: Object) -> bool:
    """Whether the pod may have become another Job's."""
    old, new = before["metadata"], now["metadata"]
    return bool(old.get("labels") != new.get("labels") or old.get("ownerReferences") != new.get("ownerReferences"))
