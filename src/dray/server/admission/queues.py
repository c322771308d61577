"""Queues of namespaces: the default queue, and namespaces whose pods and Jobs must name a queue.

As in Kueue, pods and Jobs without a queue get the LocalQueue named `default` of their namespace, if there is one. With
the label `dray.dev/queue-required: "true"` on the namespace, or `--require-queue` for all namespaces, those that name
no queue then are refused. Pods of a Job get the queue of the Job from its controller; pods that only say that they
belong to a Job are treated as all others. Labels of groups name no queue, nor does KAI's label if there is no such
Queue: the scheduler would place these pods without quota. So it is for pods that choose their node themselves.
"""

from __future__ import annotations

from typing import Final

from dray.api import pod_queues, pod_requests
from dray.api.objects import Object, annotations_of, labels_of, mapping, mappings, spec_of, strings, text
from dray.api.pods import MIRROR_ANNOTATION
from dray.server import documents
from dray.server.admission.attributes import Attributes
from dray.server.authorization import MASTERS
from dray.server.resources import key_prefix
from dray.server.security.users import NODES

KINDS: Final = "Pod Job.batch"
REQUIRED_LABEL: Final = "dray.dev/queue-required"
QUEUE_LABEL: Final = "kueue.x-k8s.io/queue-name"
_KAI_LABEL: Final = "kai.scheduler/queue"
_DEFAULT: Final = "default"
_LOCAL_QUEUES: Final = key_prefix("kueue.x-k8s.io", "localqueues")
_CLUSTER_QUEUES: Final = key_prefix("kueue.x-k8s.io", "clusterqueues")
_KAI_QUEUES: Final = key_prefix("scheduling.run.ai", "queues")
_SYSTEM: Final = frozenset({"kube-system", "kube-public", "kube-node-lease"})


def choose(attributes: Attributes) -> None:
    """Puts a new pod or Job into the default queue, and refuses it if a queue is required."""
    if attributes.subresource or _is_mirror_pod(attributes):
        return
    has_default = _has_default(attributes)
    if not has_default and not _is_required(attributes):
        return
    namespace = attributes.namespace
    if not labels_of(attributes.obj).get(QUEUE_LABEL):
        if has_default:
            attributes.obj["metadata"]["labels"] = {**labels_of(attributes.obj), QUEUE_LABEL: _DEFAULT}
        elif not _is_in_kai_queue(attributes, attributes.obj):
            raise attributes.forbid(
                f"namespace {namespace} requires a queue: set the label {QUEUE_LABEL} to a LocalQueue of the namespace"
            )
    if attributes.old is None and attributes.resource.kind == "Pod" and spec_of(attributes.obj).get("nodeName"):
        raise attributes.forbid(
            f"pods of namespace {namespace} are in a queue, so that the scheduler chooses their node: "
            "remove spec.nodeName"
        )


def keep(attributes: Attributes) -> None:
    """Refuses an update that removes a pod or Job from its queue."""
    assert attributes.old is not None
    before, now = (_names_queue(attributes, obj) for obj in (attributes.old, attributes.obj))
    if before and not now:
        choose(attributes)


def check_resize(attributes: Attributes) -> None:
    """Refuses a resize to more of a resource that the queue limits, because only new pods wait for quota."""
    assert attributes.old is not None
    before, after = (pod_requests.requests(spec_of(pod)) for pod in (attributes.old, attributes.obj))
    grown = sorted(name for name, amount in after.items() if amount > before.get(name, 0))
    for name in grown:
        if queue := _queue_with_quota(attributes, name):
            raise attributes.forbid(
                f"the pod is in queue {queue}, which has quota for {name}, and would request more of it: "
                "delete the pod and create a larger one, which waits for quota"
            )


def _queue_with_quota(attributes: Attributes, resource: str) -> str:
    """Returns the queue of a pod if it has a quota for the resource; empty otherwise."""
    obj = attributes.obj
    admission = pod_queues.recorded(obj)
    name = admission.queues.get(QUEUE_LABEL, "") if admission is not None else ""
    if not name and (label := labels_of(obj).get(QUEUE_LABEL)):
        local = _stored(attributes, f"{_LOCAL_QUEUES}{attributes.namespace}/{label}")
        name = text(spec_of(local).get("clusterQueue"))
    groups = mappings(spec_of(_stored(attributes, _CLUSTER_QUEUES + name)).get("resourceGroups"))
    if any(resource in strings(group.get("coveredResources")) for group in groups):
        return name
    # KAI counts cpu and memory in all its queues.
    return str(labels_of(obj)[_KAI_LABEL]) if _is_in_kai_queue(attributes, obj) else ""


def _stored(attributes: Attributes, key: str) -> Object:
    record = attributes.context.store.get(key)
    return mapping(documents.decode(record.value)) if record is not None else {}


def _names_queue(attributes: Attributes, obj: Object) -> bool:
    return bool(labels_of(obj).get(QUEUE_LABEL)) or _is_in_kai_queue(attributes, obj)


def _is_in_kai_queue(attributes: Attributes, obj: Object) -> bool:
    name = labels_of(obj).get(_KAI_LABEL)
    return bool(name) and attributes.context.store.get(f"{_KAI_QUEUES}{name}") is not None


def _is_mirror_pod(attributes: Attributes) -> bool:
    """Returns True for mirror pods written by their node; annotations written by other users prove nothing."""
    by_node = not {NODES, MASTERS}.isdisjoint(attributes.user.groups)
    return by_node and MIRROR_ANNOTATION in annotations_of(attributes.obj)


def _has_default(attributes: Attributes) -> bool:
    return attributes.context.store.get(f"{_LOCAL_QUEUES}{attributes.namespace}/{_DEFAULT}") is not None


def _is_required(attributes: Attributes) -> bool:
    namespace = attributes.namespace
    if namespace in _SYSTEM:
        return False
    found = attributes.context.namespace(namespace)
    return attributes.context.require_queue or labels_of(found or {}).get(REQUIRED_LABEL) == "true"
