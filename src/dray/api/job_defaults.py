"""Defaults of a Job, and the selector that is made for it once it has a name and a uid."""

from __future__ import annotations

from dray.api.objects import Object, mapping
from dray.api.pod_defaults import default_pod_spec

NAME_LABELS = ("batch.kubernetes.io/job-name", "job-name")
UID_LABEL = "batch.kubernetes.io/controller-uid"
UID_LABELS = (UID_LABEL, "controller-uid")
BACKOFF_LIMIT = 6
_UNLIMITED = 2**31 - 1


def default_job(job: Object) -> None:
    spec = job["spec"]
    if spec.get("parallelism") is None:
        spec["parallelism"] = 1
        # Without either number it is a job of one pod; with completions alone they run one by one.
        spec.setdefault("completions", 1)
    spec.setdefault("backoffLimit", BACKOFF_LIMIT if spec.get("backoffLimitPerIndex") is None else _UNLIMITED)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    spec.setdefault("manualSelector", False)
    policy = spec.get("podFailurePolicy")
    spec.setdefault("podReplacementPolicy", "TerminatingOrFailed" if policy is None else "Failed")
    for rule in (policy or {}).get("rules") or ():
        for pattern in rule.get("onPodConditions") or ():
            if not pattern.get("status"):
                pattern["status"] = "True"
    default_pod_spec(spec["template"]["spec"], template=True)
    label(job)


def label(job: Object) -> None:
    """A job without labels has those of its pods."""
    labels = job["spec"]["template"]["metadata"].get("labels")
    if labels and not job["metadata"].get("labels"):
        job["metadata"]["labels"] = dict(labels)


def generate_selector(job: Object) -> None:
    """Pods are told apart by their job's uid, unless the job says that it brings a selector of its own.

    What is there already stays: if it is wrong, validation says so.
    """
    spec, metadata = job["spec"], job["metadata"]
    if spec.get("manualSelector"):
        return
    generated = dict.fromkeys(NAME_LABELS, metadata["name"]) | dict.fromkeys(UID_LABELS, metadata["uid"])
    template: Object = spec["template"]["metadata"]
    template["labels"] = {**generated, **mapping(template.get("labels"))}
    selector: Object = spec.setdefault("selector", {})
    selector["matchLabels"] = {UID_LABEL: metadata["uid"], **mapping(selector.get("matchLabels"))}
    label(job)
