"""Queues of namespaces: the default queue, and namespaces whose pods and Jobs must name a queue.

As in Kueue, pods and Jobs without a queue get the LocalQueue named `default` of their namespace, if there is one. With
the label `dray.dev/queue-required: "true"` on the namespace, or `--require-queue` for all namespaces, those that name
no queue then are refused. Pods of a Job belong to the queue of the Job.
"""

from __future__ import annotations

from typing import Final

from dray.api.objects import annotations_of, controller_of, labels_of, uid_of
from dray.api.pod_queues import words_of
from dray.server import documents
from dray.server.admission.attributes import Attributes
from dray.server.resources import key_prefix
from dray.server.security.users import NODES

KINDS: Final = "Pod Job.batch"
REQUIRED_LABEL: Final = "dray.dev/queue-required"
QUEUE_LABEL: Final = "kueue.x-k8s.io/queue-name"
_DEFAULT: Final = "default"
_LOCAL_QUEUES: Final = key_prefix("kueue.x-k8s.io", "localqueues")
_JOBS: Final = key_prefix("batch", "jobs")
_MIRROR: Final = "kubernetes.io/config.mirror"
_SYSTEM: Final = frozenset({"kube-system", "kube-public", "kube-node-lease"})


def choose(attributes: Attributes) -> None:
    if attributes.subresource or not _needs_queue(attributes):
        return
    namespace = attributes.namespace
    if attributes.context.store.get(f"{_LOCAL_QUEUES}{namespace}/{_DEFAULT}") is not None:
        attributes.obj["metadata"].setdefault("labels", {})[QUEUE_LABEL] = _DEFAULT
    elif _is_required(attributes):
        raise attributes.forbid(
            f"namespace {namespace} requires a queue: set the label {QUEUE_LABEL} to a LocalQueue of the namespace"
        )


def _needs_queue(attributes: Attributes) -> bool:
    """Whether the object is in no queue yet. Owners and mirror pods are believed only if they are true."""
    obj = attributes.obj
    if words_of(obj):
        return False
    if _MIRROR in annotations_of(obj) and NODES in attributes.user.groups:
        return False
    return not _is_of_job(attributes)


def _is_of_job(attributes: Attributes) -> bool:
    """Whether a Job owns it: then the Job has the queue, or was admitted without one."""
    owner = controller_of(attributes.obj)
    if owner is None or owner.get("kind") != "Job":
        return False
    record = attributes.context.store.get(f"{_JOBS}{attributes.namespace}/{owner.get('name')}")
    return record is not None and uid_of(documents.decode(record.value)) == owner.get("uid")


def _is_required(attributes: Attributes) -> bool:
    namespace = attributes.namespace
    if namespace in _SYSTEM:
        return False
    found = attributes.context.namespace(namespace)
    return attributes.context.require_queue or labels_of(found or {}).get(REQUIRED_LABEL) == "true"
