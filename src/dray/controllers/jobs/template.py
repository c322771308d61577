"""A pod of a Job, made from its template."""

from __future__ import annotations

import random
from typing import Final

from dray.api.defaulting import NAME_LABELS, UID_LABELS
from dray.api.objects import Object, labels_of, mapping, metadata_of, spec_of
from dray.controllers.jobs import pods as pod_facts
from dray.controllers.jobs import policies
from dray.controllers.jobs.view import JobView
from dray.controllers.kinds import JOBS
from dray.controllers.workloads.pod_template import reference
from dray.scheduling.quota.kueue.kinds import QUEUE_LABEL

_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX: Final = 5
_LONGEST_NAME: Final = 63
_INDEX_VARIABLE: Final = "JOB_COMPLETION_INDEX"


def pod(view: JobView, index: int | None, group: str = "") -> Object:
    job = view.job
    template = job["spec"]["template"]
    given = metadata_of(template)
    prefix = _prefix(job["metadata"]["name"], index)
    labels, annotations = dict(mapping(given.get("labels"))), dict(mapping(given.get("annotations")))
    if not job["spec"].get("manualSelector"):
        labels.update(_identity(job))
    if queue := labels_of(job).get(QUEUE_LABEL):
        # A Job is in a queue by its own label; its pods are what is counted.
        labels.setdefault(QUEUE_LABEL, queue)
    spec = dict(spec_of(template))
    if group:
        spec["schedulingGroup"] = {"podGroupName": group}
    if index is not None:
        labels[pod_facts.COMPLETION_INDEX] = annotations[pod_facts.COMPLETION_INDEX] = str(index)
        annotations.update(_failure_counts(view, index))
        spec = _with_index(spec, f"{job['metadata']['name']}-{index}")
    metadata: Object = {
        "name": prefix + "".join(random.choices(_LETTERS, k=_SUFFIX)),
        "generateName": prefix,
        "namespace": job["metadata"]["namespace"],
        "labels": labels,
        "annotations": annotations,
        "finalizers": [*(given.get("finalizers") or ()), pod_facts.TRACKING],
        "ownerReferences": [reference(job, JOBS)],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {name: value for name, value in metadata.items() if value},
        "spec": spec,
    }


def _identity(job: Object) -> dict[str, str]:
    """Returns the labels by which a Job's pods are found, even if the template lacks them."""
    name, uid = job["metadata"]["name"], job["metadata"]["uid"]
    return dict.fromkeys(NAME_LABELS, name) | dict.fromkeys(UID_LABELS, uid)


def _prefix(name: str, index: int | None) -> str:
    """Returns the name prefix of a pod: shortens the Job's name, never the index."""
    end = "-" if index is None else f"-{index}-"
    return name[: _LONGEST_NAME - _SUFFIX - len(end)] + end


def _with_index(spec: Object, hostname: str) -> Object:
    spec["hostname"] = hostname[:63].rstrip("-.")
    for member in ("containers", "initContainers"):
        if spec.get(member):
            spec[member] = [_with_index_variable(container) for container in spec[member]]
    return spec


def _with_index_variable(container: Object) -> Object:
    variables = container.get("env") or []
    if any(variable.get("name") == _INDEX_VARIABLE for variable in variables):
        return container
    source = {"fieldRef": {"apiVersion": "v1", "fieldPath": f"metadata.labels['{pod_facts.COMPLETION_INDEX}']"}}
    return {**container, "env": [*variables, {"name": _INDEX_VARIABLE, "valueFrom": source}]}


def _failure_counts(view: JobView, index: int) -> dict[str, str]:
    """Returns the failure counts of the new pod, continued from the failed pod of its index."""
    if view.spec.backoff_limit_per_index is None:
        return {}
    previous = view.retained.get(index)
    failures = ignored = 0
    if previous is not None:
        counts = policies.counts(view.spec, previous)
        failures = pod_facts.failure_count(previous) + counts
        ignored = pod_facts.ignored_failure_count(previous) + (not counts)
    found = {pod_facts.FAILURE_COUNT: str(failures)}
    if ignored:
        found[pod_facts.IGNORED_FAILURE_COUNT] = str(ignored)
    return found
