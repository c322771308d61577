"""Membership of pods in a Job: those it controls and its selector selects.

A pod that is selected and has no controller is adopted. One that is no longer selected is released, uncounted: so
somebody can keep a pod to look into it, while the Job makes another.
"""

from __future__ import annotations

from typing import Final

from dray.api.label_selectors import Matcher, from_object
from dray.api.objects import Key, Object, controller_of, is_deleting, labels_of, mapping, uid_of
from dray.client.api import ApiClient
from dray.client.errors import NotFound
from dray.client.informer import Informer
from dray.client.interface import PatchType
from dray.controllers.jobs import conditions
from dray.controllers.jobs import pods as pod_facts
from dray.controllers.jobs.own_writes import OwnWrites
from dray.controllers.jobs.spec import is_managed_here
from dray.controllers.jobs.template import reference
from dray.controllers.kinds import JOBS, PODS

BY_JOB: Final = "job"
"""The index of pods by the uid of their Job; those that nobody controls are under their namespace."""
_NOBODYS: Final = "nobody's in "


def index_by_job(pod: Object) -> list[str]:
    metadata = pod["metadata"]
    if controller_of(pod) is None:
        return [_NOBODYS + str(metadata.get("namespace"))] if metadata.get("labels") else []
    owner = pod_facts.job_of(pod)
    return [owner["uid"]] if owner is not None else []


class Membership:
    def __init__(self, client: ApiClient, jobs: Informer, pods: Informer, written: OwnWrites) -> None:
        self._client = client
        self._jobs = jobs.cache
        self._pods = pods.cache
        self._written = written

    def of(self, job: Object) -> list[Object]:
        """The Job's pods, as they were last written here or by somebody else."""
        selects = _selector(job)
        return [pod for pod in self.controlled(job["metadata"]["uid"]) if selects(labels_of(pod))]

    def controlled(self, uid: str) -> list[Object]:
        """Those that say that the Job controls them, or did until they were let go."""
        return self._written.newest(uid, self._pods.by(BY_JOB, uid))

    def selecting(self, pod: Object) -> list[Key]:
        """The Jobs that would take in a pod that nobody controls."""
        labels, namespace = labels_of(pod), pod["metadata"]["namespace"]
        if not labels or controller_of(pod) is not None or is_deleting(pod):
            return []
        found = (job for job in self._jobs.in_namespace(namespace) if _takes_pods_in(job))
        return [(namespace, job["metadata"]["name"]) for job in found if _selector(job)(labels)]

    async def settle(self, job: Object) -> None:
        """Takes pods in and lets pods go."""
        if not _takes_pods_in(job):
            return
        uid, namespace, selects = job["metadata"]["uid"], job["metadata"]["namespace"], _selector(job)
        controlled = self.controlled(uid)
        for pod in controlled:
            if not selects(labels_of(pod)) and pod_facts.job_of(pod) is not None:
                await self._let_go(uid, pod)
        known = {uid_of(pod) for pod in controlled}
        found = [
            pod
            for pod in self._pods.by(BY_JOB, _NOBODYS + namespace)
            if selects(labels_of(pod)) and not is_deleting(pod) and uid_of(pod) not in known
        ]
        if found and await self._stands(job):
            for pod in found:
                await self._take_in(job, pod)

    async def _stands(self, job: Object) -> bool:
        """By the server's word: what is taken in by a Job that goes would go with it."""
        metadata = job["metadata"]
        try:
            live = await self._client.get(JOBS, metadata["name"], namespace=metadata["namespace"])
        except NotFound:
            return False
        return live["metadata"]["uid"] == metadata["uid"] and not live["metadata"].get("deletionTimestamp")

    async def _take_in(self, job: Object, pod: Object) -> None:
        change = {"ownerReferences": [reference(job)], "finalizers": [pod_facts.TRACKING]}
        await self._patch(job["metadata"]["uid"], pod, change)

    async def _let_go(self, uid: str, pod: Object) -> None:
        change = {
            "ownerReferences": [{"$patch": "delete", "uid": uid}],
            "$deleteFromPrimitiveList/finalizers": [pod_facts.TRACKING],
        }
        await self._patch(uid, pod, change)

    async def _patch(self, uid: str, pod: Object, change: Object) -> None:
        """Only the pod as it was seen: who came first has it."""
        metadata = pod["metadata"]
        pin = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
        body, place = {"metadata": {**pin, **change}}, metadata["namespace"]
        try:
            after = await self._client.patch(
                PODS, metadata["name"], body, namespace=place, patch_type=PatchType.STRATEGIC
            )
        except NotFound:
            return
        self._written.put(uid, after)


def _takes_pods_in(job: Object) -> bool:
    if job["spec"].get("selector") is None or job["metadata"].get("deletionTimestamp"):
        return False
    return is_managed_here(job) and conditions.end(job) is None


def _selector(job: Object) -> Matcher:
    """Where there is none, those that it controls are the Job's."""
    return from_object(mapping(job["spec"].get("selector")))
