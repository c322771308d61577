"""Writes of the Job controller on pods, each idempotent, and their events."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import datetime
from typing import Final

from dray.api.defaulting import UID_LABEL
from dray.api.objects import Object, finalizers_of, uid_of
from dray.client.api import ApiClient
from dray.client.clock import timestamp
from dray.client.errors import AlreadyExists, ApiError, ClientError, Conflict, NotFound
from dray.client.interface import PatchType, Selection
from dray.controllers.environment import Environment
from dray.controllers.jobs import pods as pod_facts
from dray.controllers.jobs import template
from dray.controllers.jobs.own_writes import OwnWrites
from dray.controllers.jobs.view import JobView
from dray.controllers.kinds import PODS

_AT_ONCE: Final = 32
_NAMES: Final = 4


class PodActions:
    def __init__(self, environment: Environment, written: OwnWrites) -> None:
        self._client = environment.client
        self._events = environment.events
        self._time = environment.time
        self._written = written
        self.uncertain: set[str] = set()
        """Jobs, by uid, of which a pod may have been made without the answer saying so."""

    async def create(self, view: JobView, indexes: Sequence[int | None], group: str) -> None:
        """First one, then twice as many each time, so that what cannot work is not tried five hundred times.

        `group` is the name of their PodGroup, if they have one.
        """
        done, size = 0, 1
        while done < len(indexes):
            batch = indexes[done : done + size]
            await _all(self._create(view, index, group) for index in batch)
            done, size = done + len(batch), min(size * 2, _AT_ONCE)

    async def _create(self, view: JobView, index: int | None, group: str) -> None:
        try:
            made = await self._create_named(view, index, group)
        except ClientError as error:
            if not isinstance(error, ApiError) or error.is_server_fault:
                self.uncertain.add(view.job["metadata"]["uid"])
            self._events.warning(view.job, "FailedCreate", f"Error creating: {error}")
            raise
        self._keep(view.job, made)
        self._events.normal(view.job, "SuccessfulCreate", f"Created pod: {made['metadata']['name']}")

    async def _create_named(self, view: JobView, index: int | None, group: str) -> Object:
        for _ in range(_NAMES):
            body = template.pod(view, index, group)
            try:
                return await self._client.create(PODS, body, namespace=body["metadata"]["namespace"])
            except AlreadyExists as error:
                # By chance another pod has the name.
                taken = error
        raise taken

    async def delete(self, job: Object, pods: Iterable[Object], *, uncounted: bool = False) -> None:
        """`uncounted`: without their finalizer first, so that they do not count as failed."""

        async def one(pod: Object) -> None:
            await self._delete(job, await self._release(job, pod, unchanged=True) if uncounted else pod)

        await _in_batches(one, list(pods))

    async def _delete(self, job: Object, pod: Object) -> None:
        after = pod
        try:
            answer = await self._client.delete_object(PODS, pod)
        except ApiError as error:
            if not _is_gone(error):
                self._events.warning(job, "FailedDelete", f"Error deleting: {error}")
                raise
        else:
            after = answer if answer.get("kind") == "Pod" else pod
            self._events.normal(job, "SuccessfulDelete", f"Deleted pod: {pod['metadata']['name']}")
        # Also where the answer only says that it succeeded.
        self._keep(job, _leaving(after, self._time.now()))

    async def release(self, job: Object, pods: Iterable[Object]) -> None:
        """Takes off the tracking finalizer."""
        await _in_batches(lambda pod: self._release(job, pod), list(pods))

    async def _release(self, job: Object, pod: Object, *, unchanged: bool = False) -> Object:
        """The pod as it is then."""
        if not pod_facts.is_tracked(pod):
            return pod
        after = await release(self._client, pod, unchanged=unchanged)
        if after is None:
            after = _leaving(_untracked(pod), self._time.now())
        self._keep(job, after)
        return after

    async def refresh(self, job: Object, known: Iterable[Object]) -> None:
        """Reads the Job's pods from the server; what is known and not there is gone."""
        uid, namespace = job["metadata"]["uid"], job["metadata"]["namespace"]
        labels = "" if job["spec"].get("manualSelector") else f"{UID_LABEL}={uid}"
        listed = await self._client.list_all(PODS, namespace=namespace, selection=Selection(labels=labels))
        there = set()
        for pod in listed["items"]:
            reference = pod_facts.job_of(pod)
            if reference is not None and reference["uid"] == uid:
                there.add(uid_of(pod))
                self._keep(job, {"apiVersion": "v1", "kind": "Pod", **pod})
        for pod in known:
            if uid_of(pod) not in there:
                self._keep(job, _leaving(_untracked(pod), self._time.now()))
        self.uncertain.discard(uid)

    def _keep(self, job: Object, pod: Object) -> None:
        self._written.put(job["metadata"]["uid"], pod)


def _leaving(pod: Object, now: datetime) -> Object:
    metadata = pod["metadata"]
    if metadata.get("deletionTimestamp"):
        return pod
    return {**pod, "metadata": {**metadata, "deletionTimestamp": timestamp(now)}}


def _untracked(pod: Object) -> Object:
    finalizers = [each for each in finalizers_of(pod) if each != pod_facts.TRACKING]
    return {**pod, "metadata": {**pod["metadata"], "finalizers": finalizers}}


async def release(client: ApiClient, pod: Object, *, unchanged: bool = False) -> Object | None:
    """Takes off the tracking finalizer; None if the pod is gone.

    `unchanged`: only if it is as it was seen. It may have ended since, and must be counted then.
    """
    metadata = pod["metadata"]
    change = {"uid": metadata["uid"], "$deleteFromPrimitiveList/finalizers": [pod_facts.TRACKING]}
    if unchanged:
        change["resourceVersion"] = metadata["resourceVersion"]
    body, place = {"metadata": change}, metadata["namespace"]
    try:
        return await client.patch(PODS, metadata["name"], body, namespace=place, patch_type=PatchType.STRATEGIC)
    except ApiError as error:
        if _is_gone(error):
            return None
        raise


def _is_gone(error: ApiError) -> bool:
    """The pod is not there, or another of its name is."""
    return isinstance(error, NotFound) or (isinstance(error, Conflict) and "UID in precondition" in str(error))


async def _in_batches(action: Callable[[Object], Awaitable[object]], pods: list[Object]) -> None:
    for start in range(0, len(pods), _AT_ONCE):
        await _all(action(pod) for pod in pods[start : start + _AT_ONCE])


async def _all(actions: Iterable[Awaitable[object]]) -> None:
    """Does all of them, then raises what went wrong first."""
    results = await asyncio.gather(*actions, return_exceptions=True)
    for result in results:
        if isinstance(result, ClientError):
            raise result
    for result in results:
        if isinstance(result, BaseException):
            raise result
