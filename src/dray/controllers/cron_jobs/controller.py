"""The CronJob controller: event handlers, and one reconciliation of a CronJob.

One pass: bring the status up to date with the Jobs there are, start the Job that is due, delete ended Jobs that are too
many, write the status. A Job has the time it was due in its name, so that a pass which is repeated after a crash finds
the Job it made.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime

from dray.api.objects import Key, Object, controller_of, key_of, status_of, uid_of
from dray.client.cache import Change
from dray.client.clock import timestamp
from dray.client.errors import AlreadyExists, ApiError, ClientError, NotFound
from dray.controllers.cron_jobs import history, template
from dray.controllers.cron_jobs.decision import Decision, decide, read_schedule, until_next
from dray.controllers.environment import Environment, QueueController, named
from dray.controllers.jobs import conditions
from dray.controllers.kinds import CRON_JOBS, JOBS
from dray.controllers.workloads.adoption import BY_CONTROLLER, index_by_controller
from dray.controllers.workloads.own_writes import OwnWrites


class CronJobController(QueueController[Key]):
    def __init__(self, environment: Environment) -> None:
        super().__init__(environment)
        self._cron_jobs = environment.informers.of(CRON_JOBS)
        self._jobs = environment.informers.of(JOBS, {BY_CONTROLLER: index_by_controller})
        self._written = OwnWrites(self._cron_jobs)
        self._written_jobs = OwnWrites(self._jobs)
        self._workers = environment.workers("cronjob", self._reconcile, called=named("CronJob"), count=4)
        self._cron_jobs.add_handler(self._on_cron_job)
        self._jobs.add_handler(self._on_job)

    def _on_cron_job(self, change: Change) -> None:
        if change.type == "DELETED":
            self._written.forget(uid_of(change.object))
            self._written_jobs.forget(uid_of(change.object))
            return
        before, spec = change.previous, change.object["spec"]
        if before is not None and _times(before["spec"]) != _times(spec):
            # Times that the new schedule would have been due at before are not made up for.
            found = read_schedule(spec)
            wait = None if isinstance(found, Decision) else until_next(found[0], self._time.now())
            self._workers.queue.add_after(change.key, wait or 0.0)
        else:
            self._workers.queue.add(change.key)

    def _on_job(self, change: Change) -> None:
        owner = controller_of(change.object)
        if owner is None or owner.get("kind") != CRON_JOBS.kind:
            return
        if change.type == "DELETED":
            self._written_jobs.removed(owner["uid"], uid_of(change.object))
        self._workers.queue.add((change.key[0], owner["name"]))

    async def _reconcile(self, key: Key) -> float | None:
        cron_job = self._written.newest_owner(key, CRON_JOBS)
        if cron_job is None:
            return None
        jobs = self._written_jobs.newest(uid_of(cron_job), self._jobs.cache.by(BY_CONTROLLER, uid_of(cron_job)))
        now = self._time.now()
        found = history.observe(cron_job, jobs)
        await self._look_for(cron_job, found)
        decision = decide({**cron_job, "status": found.status}, now)
        self._tell(cron_job, [*found.news, *decision.news])
        failure = None
        try:
            if decision.start is not None:
                await self._start(cron_job, found.status, decision, decision.start)
            for job in history.surplus(cron_job, jobs):
                await self._delete(cron_job, job)
        except ClientError as error:
            # What is known by now stands in the status all the same.
            failure = error
        await self._write(cron_job, found.status)
        if failure is not None:
            raise failure
        return decision.wait

    async def _look_for(self, cron_job: Object, found: history.Observation) -> None:
        """Asks the server for active Jobs that are not cached; removes deleted Jobs from `status.active`."""
        gone = set()
        for reference in found.missing:
            try:
                live = await self._client.get(JOBS, reference["name"], namespace=cron_job["metadata"]["namespace"])
            except NotFound:
                live = {}
            if uid_of(live) != reference.get("uid"):
                gone.add(reference.get("uid"))
                self._events.normal(cron_job, "MissingJob", f"Active job went missing: {reference['name']}")
        if gone:
            history.put_active(
                found.status, (reference for reference in found.status["active"] if reference.get("uid") not in gone)
            )

    async def _start(self, cron_job: Object, status: Object, decision: Decision, due: datetime) -> None:
        """Creates the Job, or finds the one of an earlier attempt, and adds it to the status."""
        if decision.replaces:
            for reference in status.pop("active", ()):
                await self._delete(cron_job, {"metadata": reference})
        found = read_schedule(cron_job["spec"])
        body = template.job(cron_job, due, None if isinstance(found, Decision) else found[1])
        namespace, name = key_of(body)
        try:
            made = await self._client.create(JOBS, body, namespace=namespace)
        except AlreadyExists:
            made = await self._client.get(JOBS, name, namespace=namespace)
            if (controller_of(made) or {}).get("uid") != uid_of(cron_job):
                raise
        except ClientError as error:
            if isinstance(error, ApiError) and error.is_namespace_ending:
                return
            self._events.warning(cron_job, "FailedCreate", f"Error creating job: {error}")
            raise
        else:
            self._events.normal(cron_job, "SuccessfulCreate", f"Created job {name}")
        self._written_jobs.put(uid_of(cron_job), made)
        status["lastScheduleTime"] = timestamp(due)
        if conditions.end(made) is None:
            history.put_active(status, [*(status.get("active") or ()), template.listed(made)])

    async def _delete(self, cron_job: Object, job: Object) -> None:
        name = key_of(job)[1]
        try:
            with suppress(NotFound):
                await self._client.delete_object(JOBS, job, propagation="Background")
        except ClientError as error:
            self._events.warning(cron_job, "FailedDelete", f"Deleted job: {error}")
            raise
        self._events.normal(cron_job, "SuccessfulDelete", f"Deleted job {name}")

    async def _write(self, cron_job: Object, status: Object) -> None:
        if status == status_of(cron_job):
            return
        after = await self._client.update_status(CRON_JOBS, {**cron_job, "status": status})
        self._written.put(uid_of(cron_job), after)

    def _tell(self, cron_job: Object, news: list[tuple[str, str, str]]) -> None:
        for type_, reason, message in news:
            (self._events.warning if type_ == "Warning" else self._events.normal)(cron_job, reason, message)


def _times(spec: Object) -> tuple[object, object]:
    return spec.get("schedule"), spec.get("timeZone")
