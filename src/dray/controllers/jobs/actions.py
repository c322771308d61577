"""Writes of the Job controller on pods, each idempotent, and their events."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dray.api.defaulting import UID_LABEL
from dray.api.objects import Object, finalizers_of, uid_of
from dray.client.api import ApiClient
from dray.client.errors import ApiError, ClientError
from dray.client.interface import PatchType, Selection
from dray.controllers.environment import Environment
from dray.controllers.jobs import pods as pod_facts
from dray.controllers.jobs import template
from dray.controllers.jobs.view import JobView
from dray.controllers.kinds import PODS
from dray.controllers.workloads.batches import in_batches, slow_start
from dray.controllers.workloads.own_writes import OwnWrites
from dray.controllers.workloads.pod_control import PodControl, is_gone, leaving


class PodActions:
    def __init__(self, environment: Environment, written: OwnWrites) -> None:
        self._client = environment.client
        self._time = environment.time
        self._control = PodControl(environment, written)
        self.uncertain: set[str] = set()
        """Uids of Jobs with a pod creation that was not answered: the pod may exist."""

    async def create(self, view: JobView, indexes: Sequence[int | None], group: str) -> None:
        """Creates pods in batches of doubling size, so that a failing template is not tried 500 times.

        `group` is the name of their PodGroup, if they have one.
        """
        await slow_start(lambda index: self._create(view, index, group), indexes)

    async def _create(self, view: JobView, index: int | None, group: str) -> None:
        try:
            await self._control.create(view.job, lambda: template.pod(view, index, group))
        except ClientError as error:
            if not isinstance(error, ApiError) or error.is_server_fault:
                self.uncertain.add(view.job["metadata"]["uid"])
            raise

    async def delete(self, job: Object, pods: Iterable[Object], *, uncounted: bool = False) -> None:
        """Deletes pods. `uncounted`: removes their finalizer first, so that they do not count as failed."""

        async def one(pod: Object) -> None:
            await self._control.delete(job, await self._release(job, pod, unchanged=True) if uncounted else pod)

        await in_batches(one, list(pods))

    async def release(self, job: Object, pods: Iterable[Object]) -> None:
        """Removes the tracking finalizer."""
        await in_batches(lambda pod: self._release(job, pod), list(pods))

    async def _release(self, job: Object, pod: Object, *, unchanged: bool = False) -> Object:
        """Removes the tracking finalizer. Returns the updated pod."""
        if not pod_facts.is_tracked(pod):
            return pod
        after = await release(self._client, pod, unchanged=unchanged)
        if after is None:
            after = leaving(_untracked(pod), self._time.now())
        self._control.keep(job, after)
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
                self._control.keep(job, {"apiVersion": "v1", "kind": "Pod", **pod})
        for pod in known:
            if uid_of(pod) not in there:
                self._control.keep(job, leaving(_untracked(pod), self._time.now()))
        self.uncertain.discard(uid)


def _untracked(pod: Object) -> Object:
    finalizers = [finalizer for finalizer in finalizers_of(pod) if finalizer != pod_facts.TRACKING]
    return {**pod, "metadata": {**pod["metadata"], "finalizers": finalizers}}


async def release(client: ApiClient, pod: Object, *, unchanged: bool = False) -> Object | None:
    """Removes the tracking finalizer; returns None if the pod is gone.

    `unchanged`: only at the version that was read. The pod may have ended since, and must be counted then.
    """
    metadata = pod["metadata"]
    change = {"uid": metadata["uid"], "$deleteFromPrimitiveList/finalizers": [pod_facts.TRACKING]}
    if unchanged:
        change["resourceVersion"] = metadata["resourceVersion"]
    body, place = {"metadata": change}, metadata["namespace"]
    try:
        return await client.patch(PODS, metadata["name"], body, namespace=place, patch_type=PatchType.STRATEGIC)
    except ApiError as error:
        if is_gone(error):
            return None
        raise
