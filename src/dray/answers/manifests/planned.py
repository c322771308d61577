"""Reads manifests as the objects that a cluster would have once they are applied and their controllers have run.

Workloads become pods, Jobs with `spec.scheduling` also PodGroups. Pods get the priority of their PriorityClass. Kinds
that do not matter to the scheduler are ignored.
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
"""Kinds of Kubernetes that decide on pods."""
_OTHERS: Final = frozenset((*FRONT_ENDS, *TOPOLOGIES, *kueue.KINDS, kai_queue.KIND)) - _CHECKED - {jobs.KIND}
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
    objects: dict[str, list[Object]] = field(default_factory=dict)
    """By the kind under which the scheduler receives them."""
    notes: list[str] = field(default_factory=list)

    def add(self, kind: str, obj: Object) -> None:
        self.objects.setdefault(kind, []).append(obj)


def planned_objects(
    manifests: Sequence[Manifest], namespace: str, priority_classes: Sequence[Object], now: float
) -> Planned:
    """`namespace` is for objects that name none. Raises Unusable."""
    planned, problems, namespaces = Planned(), list[ManifestError](), Namespaces(manifests)
    for manifest in manifests:
        if not manifest.namespace and (manifest.kind in _NAMESPACED or made_pod_spec(manifest.document) is not None):
            manifest.document.setdefault("metadata", {})["namespace"] = namespace
        try:
            _read(manifest, planned, namespaces, now)
        except Unusable as unusable:
            problems += unusable.problems
    if problems:
        raise Unusable(problems)
    classes = (*priority_classes, *planned.objects.pop(_PRIORITY_CLASS, ()))
    pods = planned.objects.get("Pod", [])
    planned.objects["Pod"] = [_with_priority(each, classes) for each in pods]
    return planned


def _read(manifest: Manifest, planned: Planned, namespaces: Namespaces, now: float) -> None:
    spec, kind = made_pod_spec(manifest.document), _kind(manifest)
    if spec is not None:
        workload = read_workload(manifest, spec)
        owner = None if manifest.kind == "Pod" else _owner(manifest)
        group = _job_group(manifest, planned)
        if manifest.kind == "DaemonSet":
            planned.notes.append(f"{workload.title} is planned as one pod, not one for each node")
        for number in range(1 if workload.replicas is None else workload.replicas):
            name = workload.name if workload.replicas is None else f"{workload.name}-{number}"
            pod = _pod(workload.pod, workload.namespace, name, now, owner)
            planned.add("Pod", {**pod, "spec": {**pod["spec"], "schedulingGroup": group}} if group else pod)
    elif kind in _CHECKED:
        planned.add(kind, _identified(decoded(manifest, namespaces), kind))
    elif kind in _OTHERS:
        planned.add(kind, _identified(manifest.document, kind))
    elif wrong := _misspelt(manifest):
        place = manifest.place.find("kind")
        at = {"line": place.line, "column": place.column}
        raise Unusable([ManifestError(f"{manifest.title}: {wrong}", source=manifest.source, **at)])
    else:
        planned.notes.append(f"{manifest.title} does not matter to the scheduler: ignored")


def _misspelt(manifest: Manifest) -> str:
    """Returns what is wrong with a kind that is almost one of Kubernetes; empty if it is a kind of somebody else."""
    if find(manifest.api_version, manifest.kind) is not None:
        return ""
    if (unknown := next(identity_findings(manifest), None)) is not None:
        return f"{unknown.message} ({unknown.hint})" if unknown.hint else unknown.message
    group, _ = split_api_version(manifest.api_version)
    similar = did_you_mean(manifest.kind, (each.name for each in KINDS if each.group == group))
    return f"there is no kind {manifest.kind} in {manifest.api_version}; {similar}" if similar else ""


def _kind(manifest: Manifest) -> str:
    return kind_of(manifest.document) if manifest.kind and manifest.api_version else ""


def _owner(manifest: Manifest) -> Object:
    uid = f"{manifest.kind}/{manifest.namespace}/{manifest.name}"
    reference = {"apiVersion": manifest.api_version, "kind": manifest.kind, "name": manifest.name, "uid": uid}
    return {**reference, "controller": True}


def _job_group(manifest: Manifest, planned: Planned) -> Object | None:
    """Adds the Job and its PodGroup; returns what its pods say about the group, None if they are in none."""
    if (manifest.api_version, manifest.kind) != ("batch/v1", jobs.KIND):
        return None
    job = {**manifest.document, "metadata": {**manifest.document["metadata"], "uid": _owner(manifest)["uid"]}}
    group = planned_group(job)
    planned.add(jobs.KIND, job)
    if group is None:
        return None
    planned.add("PodGroup", _identified(group, "PodGroup"))
    return {"podGroupName": group["metadata"]["name"]}


def _pod(document: Object, namespace: str, name: str, now: float, owner: Object | None) -> Object:
    metadata = {**document["metadata"], "namespace": namespace, "name": name, "uid": f"planned/{namespace}/{name}"}
    metadata["creationTimestamp"] = text_of(now)
    if owner is not None:
        metadata["ownerReferences"] = [owner]
    spec = {key: value for key, value in document["spec"].items() if key not in ("nodeName", "schedulerName")}
    status = {"phase": "Pending"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status}


def _identified(obj: Object, kind: str) -> Object:
    namespace, name = key_of(obj)
    return {**obj, "metadata": {"uid": f"planned/{kind}/{namespace}/{name}", **obj["metadata"]}}


def _with_priority(pod: Object, classes: Sequence[Object]) -> Object:
    """Returns the pod with the priority of its class; an API server does not take any other from a manifest."""
    spec = spec_of(pod)
    return {**pod, "spec": {**spec, "priority": 0, **dict(_priorities(spec, classes))}}


def _priorities(spec: Mapping[str, object], classes: Sequence[Object]) -> Iterator[tuple[str, object]]:
    """Yields what the API server fills in from the PriorityClass of a pod."""
    name = text(spec.get("priorityClassName"))
    if name in SYSTEM_CLASSES:
        yield "priority", SYSTEM_CLASSES[name]
    for each in classes:
        if key_of(each)[1] == name or (not name and mapping(each).get("globalDefault")):
            yield "priority", each.get("value", 0)
            if each.get("preemptionPolicy"):
                yield "preemptionPolicy", each["preemptionPolicy"]
            return
