"""The PodGroup of a Job that says how its pods are to be scheduled (`spec.scheduling`): all or none of them, near each
other, with claims they share.

A Job gets a Workload with one template, and a PodGroup of it, before its first pod, or not at all. Both are named after
the Job and its uid, so that whoever comes after a crash finds them. A gang is never larger than the number of pods that
there should be now: otherwise the last pods of a Job would wait for others that never come.
"""

from __future__ import annotations

import hashlib
from typing import Final

from dray.api.catalogue import KindVersion, built_in
from dray.api.objects import Object, controller_uid, mapping, spec_of
from dray.api.pods import group_name
from dray.client.errors import AlreadyExists, ClientError
from dray.controllers.environment import Environment
from dray.controllers.jobs.plan import wanted
from dray.controllers.jobs.view import JobView
from dray.controllers.kinds import JOBS, POD_GROUPS
from dray.controllers.workloads.pod_template import reference

_VERSION: Final = "scheduling.k8s.io/v1beta1"
_TEMPLATE: Final = "pods"
_LONGEST_NAME: Final = 63


WORKLOADS: Final = built_in(_VERSION, "Workload")


class JobGroups:
    def __init__(self, environment: Environment) -> None:
        self._client = environment.client
        self._events = environment.events
        gates = environment.gates
        self._enabled = gates["GenericWorkload"] and gates["WorkloadWithJob"]
        self._sizes: dict[str, int] = {}
        """Size of the gang that was written, by uid of the Job; 0 if the group is no gang."""

    async def ensure(self, view: JobView) -> str:
        """Creates or resizes the Job's PodGroup. Returns its name, or "" if its pods have none."""
        job = view.job
        if not (self._enabled and _has_group(job)):
            return ""
        name, uid, size = _name(job), job["metadata"]["uid"], _size(view)
        if uid not in self._sizes and view.pods and not any(group_name(pod) == name for pod in view.pods):
            return ""
        if self._sizes.get(uid) != size:
            spec = _spec(job, size)
            try:
                workload = await self._put(WORKLOADS, _workload(job, name, spec))
                await self._put(POD_GROUPS, _group(job, name, spec, workload))
            except ClientError as error:
                self._events.warning(job, "FailedCreate", f"Error creating the PodGroup: {error}")
                raise
            self._sizes[uid] = size
        return name

    def forget(self, uid: str) -> None:
        self._sizes.pop(uid, None)

    async def _put(self, kind: KindVersion, body: Object) -> Object:
        """Creates the object, or updates its gang size. Raises ClientError if it has another owner."""
        metadata = body["metadata"]
        try:
            return await self._client.create(kind, body)
        except AlreadyExists:
            pass
        there = await self._client.get(kind, metadata["name"], namespace=metadata["namespace"])
        if controller_uid(there) != controller_uid(body):
            raise ClientError(f"{kind.kind} {metadata['name']} belongs to another owner")
        spec = _resized(there["spec"], body["spec"])
        return there if spec == there["spec"] else await self._client.update(kind, {**there, "spec": spec})


def planned_group(job: Object) -> Object | None:
    """Returns the PodGroup that a new Job gets before its first pod; None if it gets none."""
    if not _has_group(job):
        return None
    given = job["spec"]
    parallelism = given.get("parallelism", 1)
    gang = mapping(given["scheduling"].get("schedulingPolicy")).get("gang")
    most = min(parallelism, given.get("completions") or parallelism)
    size = max(1, min(mapping(gang).get("minCount") or parallelism, most)) if gang is not None else 0
    name = _name(job)
    return _group(job, name, _spec(job, size), {"metadata": {"uid": name}})


def _has_group(job: Object) -> bool:
    """Returns False if the pods name another group, or if the Job itself is controlled by another object."""
    if job["spec"].get("scheduling") is None or controller_uid(job):
        return False
    return not spec_of(job["spec"]["template"]).get("schedulingGroup")


def _name(job: Object) -> str:
    suffix = hashlib.sha256(job["metadata"]["uid"].encode()).hexdigest()[:8]
    return f"{job['metadata']['name'][: _LONGEST_NAME - len(suffix) - 1]}-{suffix}"


def _size(view: JobView) -> int:
    gang = mapping(view.job["spec"]["scheduling"].get("schedulingPolicy")).get("gang")
    if gang is None:
        return 0
    return max(1, min(gang.get("minCount") or view.spec.parallelism, wanted(view)))


def _spec(job: Object, size: int) -> Object:
    """Builds the spec that PodGroup and Workload template share. Its priority has to be that of the pods."""
    given = job["spec"]["scheduling"]
    priority = spec_of(job["spec"]["template"]).get("priorityClassName")
    members = ("schedulingConstraints", "resourceClaims", "disruptionMode")
    found = {member: given[member] for member in members if given.get(member)}
    found["schedulingPolicy"] = {"gang": {"minCount": size}} if size else {"basic": {}}
    return {**found, "priorityClassName": priority} if priority else found


def _workload(job: Object, name: str, spec: Object) -> Object:
    controller = {"apiGroup": "batch", "kind": "Job", "name": job["metadata"]["name"]}
    return {
        "apiVersion": _VERSION,
        "kind": "Workload",
        "metadata": {
            "name": name,
            "namespace": job["metadata"]["namespace"],
            "ownerReferences": [reference(job, JOBS)],
        },
        "spec": {"controllerRef": controller, "podGroupTemplates": [{"name": _TEMPLATE, **spec}]},
    }


def _group(job: Object, name: str, spec: Object, workload: Object) -> Object:
    also = {"apiVersion": _VERSION, "kind": "Workload", "name": name, "uid": workload["metadata"]["uid"]}
    namespace = job["metadata"]["namespace"]
    return {
        "apiVersion": _VERSION,
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": namespace, "ownerReferences": [reference(job, JOBS), also]},
        "spec": {"workloadRef": {"workloadName": name, "templateName": _TEMPLATE}, **spec},
    }


def _resized(there: Object, wished: Object) -> Object:
    """Returns the spec with the wanted gang size; other members stay as they are."""
    if "podGroupTemplates" in there:
        pairs = zip(there["podGroupTemplates"], wished["podGroupTemplates"], strict=False)
        return {**there, "podGroupTemplates": [_resized(*pair) for pair in pairs]}
    return {**there, "schedulingPolicy": wished["schedulingPolicy"]}
