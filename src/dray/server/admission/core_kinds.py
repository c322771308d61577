"""Admission of the core kinds: namespaces, nodes, pods and jobs.

A namespace must exist before anything is put in it, carries its own name as a label, and some never go. A new node is
tainted until it is ready. A pod with scheduling gates gets the condition that says why it is not scheduled, and the
selector of a job is made of its name and uid, which an object has from here on.
"""

from __future__ import annotations

from dray.api.defaulting import generate_selector
from dray.api.names import generate_base
from dray.api.objects import labels_of
from dray.api.validation import jobs
from dray.server import status
from dray.server.admission.attributes import Attributes
from dray.server.context import Context
from dray.server.resources import Resource

NAME_LABEL = "kubernetes.io/metadata.name"
FINALIZER = "kubernetes"
_LASTING = ("default", "kube-system", "kube-public")
NOT_READY = "node.kubernetes.io/not-ready"


def require_namespace(context: Context, resource: Resource, namespace: str, name: str) -> None:
    """Refuses to create an object in a namespace that is missing or being deleted."""
    if not resource.namespaced:
        return
    found = context.namespace(namespace)
    if found is None:
        raise status.not_found("", "namespaces", namespace)
    if found["metadata"].get("deletionTimestamp"):
        why = f"unable to create new content in namespace {namespace} because it is being terminated"
        cause = {
            "reason": "NamespaceTerminating",
            "message": f"namespace {namespace} is being terminated",
            "field": "metadata.namespace",
        }
        raise status.forbidden(resource.group, resource.plural, name, why, [cause])


def fill_namespace(attributes: Attributes) -> None:
    namespace = attributes.obj
    finalizers = namespace["spec"].setdefault("finalizers", [])
    if FINALIZER not in finalizers:
        finalizers.append(FINALIZER)
    namespace["status"] = {"phase": "Active"}
    label_namespace(attributes)


def label_namespace(attributes: Attributes) -> None:
    metadata = attributes.obj["metadata"]
    if metadata.get("name"):
        metadata["labels"] = {**labels_of(attributes.obj), NAME_LABEL: metadata["name"]}


def protect_namespace(attributes: Attributes) -> None:
    if attributes.name in _LASTING:
        raise attributes.forbid("this namespace may not be deleted")


def taint_node(attributes: Attributes) -> None:
    taints = attributes.obj["spec"].setdefault("taints", [])
    if not any(taint["key"] == NOT_READY and taint["effect"] == "NoSchedule" for taint in taints):
        taints.append({"key": NOT_READY, "effect": "NoSchedule"})


def note_gates(attributes: Attributes) -> None:
    if not attributes.obj["spec"].get("schedulingGates"):
        return
    attributes.obj["status"]["conditions"] = [
        {
            "type": "PodScheduled",
            "status": "False",
            "lastProbeTime": None,
            "lastTransitionTime": attributes.context.now(),
            "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
        }
    ]


def select_job_pods(attributes: Attributes) -> None:
    metadata = attributes.obj["metadata"]
    if not metadata.get("name"):
        metadata["name"] = generate_base(metadata["generateName"]) + attributes.context.new_suffix()
    generate_selector(attributes.obj)
    problems = list(jobs.validate_generated(attributes.obj))
    if problems:
        raise status.invalid("Job", "batch", metadata["name"], problems)
