"""Reads manifests as the objects that a cluster has after they are applied and controllers have run.

Workloads become pods, and Jobs with `spec.scheduling` also PodGroups. A DaemonSet stays one object, since its pods
depend on the nodes. Pods get the priority of their PriorityClass. Other kinds do not matter to the scheduler.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from dray.answers.linting.examination import identity_findings
from dray.answers.manifests.claim_specs import made_pod_spec
from dray.answers.manifests.priorities import Priorities
from dray.answers.manifests.reading import Manifest
from dray.answers.manifests.stored import Namespaces, Unusable, decoded, decoded_workload
from dray.answers.manifests.workload_pods import MOST_PODS, RunningPods, TooMany, workload_pods
from dray.api.catalogue import KINDS, find, split_api_version
from dray.api.objects import Key, Object, key_of, mapping, mappings, spec_of, text, uid_of
from dray.api.pods import is_terminal
from dray.api.suggestions import did_you_mean, suggestion
from dray.api.times import text_of
from dray.controllers.jobs.groups import planned_group
from dray.planning.daemons import KIND as DAEMON_SET
from dray.planning.rollout import Rollout
from dray.planning.stored_objects import kind_of
from dray.scheduling.groups import jobs
from dray.scheduling.groups.front_ends import FRONT_ENDS, TOPOLOGIES
from dray.scheduling.quota.kai import queue as kai_queue
from dray.scheduling.quota.kueue import kinds as kueue
from dray.yaml.text import ManifestError

_PRIORITY_CLASS: Final = "PriorityClass"
_WITH_PRIORITY: Final = ("Pod", "PodGroup", "CompositePodGroup")
_VOLUME_CLAIM: Final = "PersistentVolumeClaim"
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
    leaving: dict[Key, str] = field(default_factory=dict)
    """Pods of the cluster that their controllers delete, and why."""
    rollouts: list[Rollout] = field(default_factory=list)
    refused: dict[Key, str] = field(default_factory=dict)
    """Pods that the API server would refuse, and why."""
    unplanned: list[str] = field(default_factory=list)
    """Messages about objects that make pods which are not planned."""

    @property
    def has_pods(self) -> bool:
        return bool(self.objects.get("Pod") or self.objects.get(DAEMON_SET))

    def add(self, kind: str, obj: Object) -> None:
        self.objects.setdefault(kind, []).append(obj)


def planned_objects(
    manifests: Sequence[Manifest],
    namespace: str,
    priority_classes: Sequence[Object] | None,
    now: float,
    cluster: Mapping[str, Sequence[Object]] | None = None,
) -> Planned:
    """Returns the planned objects; objects without a namespace get `namespace`. `cluster` has the objects of the
    cluster by kind: workloads that are there keep their pods. `priority_classes` are None if it is not known which
    there are. Raises Unusable."""
    planned, problems, namespaces = Planned(), list[ManifestError](), Namespaces(manifests)
    reader = _Reader(planned, namespaces, cluster or {}, now)
    for manifest in manifests:
        if not manifest.namespace and (manifest.kind in _NAMESPACED or made_pod_spec(manifest.document) is not None):
            manifest.document.setdefault("metadata", {})["namespace"] = namespace
        try:
            reader.add(manifest)
        except Unusable as unusable:
            problems += unusable.problems
    if problems:
        raise Unusable(problems)
    _assume_volumes(planned, manifests)
    _apply_priorities(planned, priority_classes)
    _refuse_missing_namespaces(planned, (cluster or {}).get("Namespace", ()))
    return planned


class _Reader:
    """Adds what becomes of each manifest to `planned`."""

    def __init__(
        self, planned: Planned, namespaces: Namespaces, cluster: Mapping[str, Sequence[Object]], now: float
    ) -> None:
        self._planned, self._namespaces, self._now = planned, namespaces, now
        self._running = RunningPods(cluster.get("Pod", ()))
        self._jobs = {key_of(each): each for each in cluster.get(jobs.KIND, ())}
        self._seen: dict[tuple[str, Key], Manifest] = {}
        self._generated = 0

    def add(self, manifest: Manifest) -> None:
        kind = _kind(manifest)
        if made_pod_spec(manifest.document) is not None:
            self._add_workload(manifest)
        elif kind in _CHECKED:
            self._planned.add(kind, _with_uid(decoded(manifest, self._namespaces), kind))
            if '"NoExecute"' in json.dumps(manifest.document.get("spec"), default=str):
                self._planned.notes.append(
                    f"{manifest.title}: pods that a NoExecute taint evicts stay in the plan; "
                    "--drain and --without plan their move"
                )
        elif kind in _UNCHECKED:
            self._planned.add(kind, _with_uid(manifest.document, kind))
        elif problem := _misspelt_kind(manifest):
            raise Unusable([_problem(manifest, "kind", problem)])
        elif _makes_pods(manifest.document):
            self._planned.unplanned.append(
                f"{manifest.title}: dray does not know which pods it makes; they are not planned; "
                "try a Job with their template"
            )
        elif manifest.kind != _VOLUME_CLAIM:
            self._planned.notes.append(f"{manifest.title} does not matter to the scheduler: ignored")

    def _add_workload(self, manifest: Manifest) -> None:
        document = decoded_workload(manifest)
        if manifest.kind == "PodTemplate":
            self._planned.notes.append(f"{manifest.title} makes no pods: ignored")
            return
        self._name(manifest, document)
        if manifest.kind == "Pod":
            self._add_pod(document)
            return
        metadata = document["metadata"]
        metadata["uid"] = f"{manifest.kind}/{metadata['namespace']}/{metadata['name']}"
        metadata["creationTimestamp"] = text_of(self._now)
        if manifest.kind == DAEMON_SET:
            self._planned.add(DAEMON_SET, _without_scheduler(document))
            return
        if manifest.kind == "CronJob":
            document = _job_of(document)
        self._add_pods(manifest, document)

    def _add_pod(self, document: Object) -> None:
        known = self._running.get(key_of(document))
        if known is not None and is_terminal(known):
            self._planned.notes.append(
                f"pod {'/'.join(key_of(document))} has ended in the cluster: it is not started again"
            )
        else:
            self._planned.add("Pod", known or _planned_pod(document, self._now))

    def _name(self, manifest: Manifest, document: Object) -> None:
        """Completes a name that the server would generate. Raises Unusable if an object has the name of another."""
        metadata = document["metadata"]
        if not manifest.name and metadata.get("generateName"):
            metadata["name"] = f"{metadata['generateName']}{self._generated}"
            self._generated += 1
        known = self._seen.setdefault((manifest.kind, key_of(document)), manifest)
        if known is not manifest:
            where = f"{known.source}:{known.place.line}"
            raise Unusable([_problem(manifest, "metadata.name", f"there is another one of this name in {where}")])

    def _add_pods(self, manifest: Manifest, document: Object) -> None:
        planned, known = self._planned, None
        if document["kind"] == jobs.KIND:
            known = self._jobs.get(key_of(document)) if manifest.kind == jobs.KIND else None
            planned.add(jobs.KIND, document)
        try:
            found = workload_pods(document, self._running, known, self._now)
        except TooMany as error:
            raise Unusable([_problem(manifest, "spec", str(error))]) from None
        group = self._group_of(document)
        for pod in found.pods:
            made = pod if uid_of(pod) else _planned_pod(pod, self._now)
            planned.add("Pod", {**made, "spec": {**made["spec"], "schedulingGroup": group}} if group else made)
        if len(planned.objects.get("Pod", ())) > MOST_PODS:
            raise Unusable([_problem(manifest, "spec", f"all together are more than {MOST_PODS:,} pods; plan fewer")])
        planned.leaving |= found.leaving
        planned.rollouts += found.rollouts
        planned.notes += found.notes

    def _group_of(self, document: Object) -> Object | None:
        """Adds the PodGroup of a Job; returns `schedulingGroup` of its pods, None if they are in no group."""
        group = planned_group(document) if document["kind"] == jobs.KIND else None
        if group is None:
            return None
        self._planned.add("PodGroup", _with_uid(group, "PodGroup"))
        return {"podGroupName": group["metadata"]["name"]}


def _apply_priorities(planned: Planned, known: Sequence[Object] | None) -> None:
    """Gives pods and groups the priorities of their classes; refuses pods with a class that does not exist."""
    priorities = Priorities((*(known or ()), *planned.objects.get(_PRIORITY_CLASS, ())))
    problems = {key_of(pod): problem for pod in planned.objects.get("Pod", ()) if (problem := priorities.problem(pod))}
    if known is None:
        planned.notes += [
            f"{each}: pods of this class have priority 0 here" for each in dict.fromkeys(problems.values())
        ]
    else:
        planned.refused |= problems
    for kind in planned.objects.keys() & _WITH_PRIORITY:
        planned.objects[kind] = list(map(priorities.applied, planned.objects[kind]))
    for each in planned.objects.get(DAEMON_SET, ()):
        each["spec"]["template"] = priorities.applied(each["spec"]["template"])


def _refuse_missing_namespaces(planned: Planned, known: Sequence[Object]) -> None:
    """Refuses pods of namespaces that the cluster does not have.

    Every server has the namespace `default`: without it the namespaces are not known.
    """
    names = {key_of(each)[1] for each in (*known, *planned.objects.get("Namespace", ()))}
    for pod in planned.objects.get("Pod", ()) if "default" in names else ():
        if (namespace := key_of(pod)[0]) not in names:
            planned.refused[key_of(pod)] = f"namespace {namespace} not found; {suggestion(namespace, names)}"


def _assume_volumes(planned: Planned, manifests: Sequence[Manifest]) -> None:
    """Removes volumes from pods whose volume claims are among the manifests: nobody has made a volume for them yet."""
    claims = {(each.namespace, each.name) for each in manifests if each.kind == _VOLUME_CLAIM}
    for pod in planned.objects.get("Pod", ()) if claims else ():
        volumes = [each for each in mappings(spec_of(pod).get("volumes")) if not _is_new(pod, each, claims)]
        if len(volumes) < len(mappings(spec_of(pod).get("volumes"))):
            pod["spec"] = {**spec_of(pod), "volumes": volumes}
    if claims:
        planned.notes.append("volume claims of the files are ignored: their volumes may be made on any node")


def _is_new(pod: Object, volume: Object, claims: set[tuple[str, str]]) -> bool:
    name = text(mapping(volume.get("persistentVolumeClaim")).get("claimName"))
    return bool(name) and not claims.isdisjoint({("", name), (key_of(pod)[0], name)})


def _makes_pods(value: Any) -> bool:
    """Returns True if there is a template of pods anywhere in an object of an unknown kind."""
    if isinstance(value, list):
        return any(map(_makes_pods, value))
    if not isinstance(value, dict):
        return False
    containers = mappings(value.get("containers"))
    return any("image" in each for each in containers) or any(map(_makes_pods, value.values()))


def _problem(manifest: Manifest, field: str, message: str) -> ManifestError:
    place = manifest.place.find(field)
    at = {"line": place.line, "column": place.column}
    return ManifestError(f"{manifest.title}: {message}", source=manifest.source, **at)


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


def _job_of(cron_job: Object) -> Object:
    """Returns the Job that a CronJob starts, under the name of the CronJob."""
    template = cron_job["spec"]["jobTemplate"]
    given = mapping(template.get("metadata"))
    kept = {name: given[name] for name in ("labels", "annotations") if given.get(name)}
    metadata = {**cron_job["metadata"], "labels": {}, "annotations": {}, **kept}
    return {"apiVersion": "batch/v1", "kind": jobs.KIND, "metadata": metadata, "spec": spec_of(template)}


def _planned_pod(document: Object, now: float) -> Object:
    metadata = {name: value for name, value in document["metadata"].items() if name != "finalizers"}
    metadata |= {"uid": f"planned/{'/'.join(key_of(document))}", "creationTimestamp": text_of(now)}
    volumes = [each for each in mappings(spec_of(document).get("volumes")) if "ephemeral" not in each]
    spec = {name: value for name, value in spec_of(document).items() if name != "schedulerName"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {**spec, "volumes": volumes},
        "status": {"phase": "Pending"},
    }


def _without_scheduler(daemon_set: Object) -> Object:
    template = daemon_set["spec"]["template"]
    spec = {name: value for name, value in spec_of(template).items() if name != "schedulerName"}
    return {**daemon_set, "spec": {**daemon_set["spec"], "template": {**template, "spec": spec}}}


def _with_uid(obj: Object, kind: str) -> Object:
    """Returns the object with a uid made of its kind and name, unless it has one."""
    namespace, name = key_of(obj)
    return {**obj, "metadata": {"uid": f"planned/{kind}/{namespace}/{name}", **obj["metadata"]}}
