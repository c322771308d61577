"""Reads manifests as the objects that a cluster has after they are applied and controllers have run.

Workloads become pods, and Jobs with `spec.scheduling` also PodGroups. Pods get the priority of their PriorityClass.
Kinds that do not matter to the scheduler are ignored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from dray.answers.linting.examination import identity_findings
from dray.answers.manifests.claim_specs import made_pod_spec
from dray.answers.manifests.reading import Manifest
from dray.answers.manifests.stored import Namespaces, Unusable, decoded, read_workload
from dray.api.catalogue import KINDS, find, split_api_version
from dray.api.objects import Object, key_of, mapping, spec_of, text
from dray.api.suggestions import did_you_mean
from dray.api.times import text_of
from dray.api.validation.priority_classes import SYSTEM_CLASSES
from dray.controllers.jobs.groups import planned_group
from dray.planning.stored_objects import kind_of
from dray.scheduling.groups import jobs
from dray.scheduling.groups.front_ends import FRONT_ENDS, TOPOLOGIES
from dray.scheduling.quota.kai import queue as kai_queue
from dray.scheduling.quota.kueue import kinds as kueue
from dray.yaml.text import ManifestError

_PRIORITY_CLASS: Final = "PriorityClass"
_CHECKED: Final = frozenset(
    (
        "DeviceClass",
        "DeviceTaintRule",
        "Namespace",
        "Node",
        "PodDisruptionBudget",
        "PodGroup",
        "CompositePodGroup",
        "ResourceClaim",
        "ResourceClaimTemplate",
        "ResourceSlice",
        _PRIORITY_CLASS,
    )
)
"""Kinds of Kubernetes that the scheduler reads and that are checked as an API server does."""
_UNCHECKED: Final = frozenset((*FRONT_ENDS, *TOPOLOGIES, *kueue.KINDS, kai_queue.KIND)) - _CHECKED - {jobs.KIND}
"""Kinds of Kueue, KAI and other systems that the scheduler reads."""
_NAMESPACED: Final = (
    "CompositePodGroup",
    "LocalQueue",
    "PodDisruptionBudget",
    "PodGroup",
    "ResourceClaim",
    "ResourceClaimTemplate",
)


@dataclass(slots=True)
class Planned:
    """The objects after the manifests are applied, and notes about what is not planned."""

    objects: dict[str, list[Object]] = field(default_factory=dict)
    """Objects by the kind under which the scheduler receives them."""
    notes: list[str] = field(default_factory=list)

    def add(self, kind: str, obj: Object) -> None:
        self.objects.setdefault(kind, []).append(obj)


def planned_objects(
    manifests: Sequence[Manifest], namespace: str, priority_classes: Sequence[Object], now: float
) -> Planned:
    """Returns the planned objects; objects without a namespace get `namespace`. Raises Unusable."""
    planned, problems, namespaces = Planned(), list[ManifestError](), Namespaces(manifests)
    for manifest in manifests:
        if not manifest.namespace and (manifest.kind in _NAMESPACED or made_pod_spec(manifest.document) is not None):
            manifest.document.setdefault("metadata", {})["namespace"] = namespace
        try:
            _add_manifest(manifest, planned, namespaces, now)
        except Unusable as unusable:
            problems += unusable.problems
    if problems:
        raise Unusable(problems)
    classes = (*priority_classes, *planned.objects.pop(_PRIORITY_CLASS, ()))
    pods = planned.objects.get("Pod", [])
    planned.objects["Pod"] = [_with_priority(pod, classes) for pod in pods]
    return planned


def _add_manifest(manifest: Manifest, planned: Planned, namespaces: Namespaces, now: float) -> None:
    spec, kind = made_pod_spec(manifest.document), _kind(manifest)
    if spec is not None:
        workload = read_workload(manifest, spec)
        owner = None if manifest.kind == "Pod" else _owner(manifest)
        group = _job_group(manifest, planned)
        if manifest.kind == "DaemonSet":
            planned.notes.append(f"{workload.title} is planned as one pod, not one for each node")
        for number in range(1 if workload.replicas is None else workload.replicas):
            name = workload.name if workload.replicas is None else f"{workload.name}-{number}"
            pod = _planned_pod(workload.pod, workload.namespace, name, now, owner)
            planned.add("Pod", {**pod, "spec": {**pod["spec"], "schedulingGroup": group}} if group else pod)
    elif kind in _CHECKED:
        planned.add(kind, _with_uid(decoded(manifest, namespaces), kind))
    elif kind in _UNCHECKED:
        planned.add(kind, _with_uid(manifest.document, kind))
    elif problem := _misspelt_kind(manifest):
        place = manifest.place.find("kind")
        at = {"line": place.line, "column": place.column}
        raise Unusable([ManifestError(f"{manifest.title}: {problem}", source=manifest.source, **at)])
    else:
        planned.notes.append(f"{manifest.title} does not matter to the scheduler: ignored")


def _misspelt_kind(manifest: Manifest) -> str:
    """Returns a message about a kind that is similar to one of Kubernetes; empty if it is a different kind."""
    if find(manifest.api_version, manifest.kind) is not None:
        return ""
    if (unknown := next(identity_findings(manifest), None)) is not None:
        return f"{unknown.message} ({unknown.hint})" if unknown.hint else unknown.message
    group, _ = split_api_version(manifest.api_version)
    similar = did_you_mean(manifest.kind, (kind.name for kind in KINDS if kind.group == group))
    return f"there is no kind {manifest.kind} in {manifest.api_version}; {similar}" if similar else ""


def _kind(manifest: Manifest) -> str:
    return kind_of(manifest.document) if manifest.kind and manifest.api_version else ""


def _owner(manifest: Manifest) -> Object:
    """Returns the owner reference of the pods of a workload."""
    uid = f"{manifest.kind}/{manifest.namespace}/{manifest.name}"
    reference = {"apiVersion": manifest.api_version, "kind": manifest.kind, "name": manifest.name, "uid": uid}
    return {**reference, "controller": True}


def _job_group(manifest: Manifest, planned: Planned) -> Object | None:
    """Adds the Job and its PodGroup; returns `schedulingGroup` of its pods, None if they are in no group."""
    if (manifest.api_version, manifest.kind) != ("batch/v1", jobs.KIND):
        return None
    job = {**manifest.document, "metadata": {**manifest.document["metadata"], "uid": _owner(manifest)["uid"]}}
    group = planned_group(job)
    planned.add(jobs.KIND, job)
    if group is None:
        return None
    planned.add("PodGroup", _with_uid(group, "PodGroup"))
    return {"podGroupName": group["metadata"]["name"]}


def _planned_pod(document: Object, namespace: str, name: str, now: float, owner: Object | None) -> Object:
    metadata = {**document["metadata"], "namespace": namespace, "name": name, "uid": f"planned/{namespace}/{name}"}
    metadata["creationTimestamp"] = text_of(now)
    if owner is not None:
        metadata["ownerReferences"] = [owner]
    spec = {key: value for key, value in document["spec"].items() if key not in ("nodeName", "schedulerName")}
    status = {"phase": "Pending"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status}


def _with_uid(obj: Object, kind: str) -> Object:
    """Returns the object with a uid made of its kind and name, unless it has one."""
    namespace, name = key_of(obj)
    return {**obj, "metadata": {"uid": f"planned/{kind}/{namespace}/{name}", **obj["metadata"]}}


def _with_priority(pod: Object, classes: Sequence[Object]) -> Object:
    """Returns the pod with the priority of its class; an API server ignores any other priority in a manifest."""
    spec = spec_of(pod)
    return {**pod, "spec": {**spec, "priority": 0, **dict(_priorities(spec, classes))}}


def _priorities(spec: Mapping[str, object], classes: Sequence[Object]) -> Iterator[tuple[str, object]]:
    """Yields the fields that the API server sets from the PriorityClass of a pod."""
    name = text(spec.get("priorityClassName"))
    if name in SYSTEM_CLASSES:
        yield "priority", SYSTEM_CLASSES[name]
    for priority_class in classes:
        if key_of(priority_class)[1] == name or (not name and mapping(priority_class).get("globalDefault")):
            yield "priority", priority_class.get("value", 0)
            if priority_class.get("preemptionPolicy"):
                yield "preemptionPolicy", priority_class["preemptionPolicy"]
            return
