"""Node restriction: what a node may write, the half of its rules that needs the content.

`restrict` is called for every write by a node, with the object as it was and as it will be, and answers why not, or
None. A node changes its own Node but not its taints, its owners or the labels that steer workloads; it reports the
status of its pods but not which claims they have; it creates mirror pods that refer to nothing; it publishes slices
for itself; it asks for the tokens that its pods' volumes want.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from dray.api import pod_references
from dray.api.catalogue import RESOURCE_GROUP
from dray.api.objects import Object
from dray.api.pods import MIRROR_ANNOTATION
from dray.server.authorization import User
from dray.server.security import node_labels, pod_certificates
from dray.server.security.node_authorizer import LEASE_NAMESPACE, ClusterView
from dray.server.security.users import DEVICE_DRIVER, SYSTEM_NAMESPACE, node_of

CREATE = "CREATE"
UPDATE = "UPDATE"
DELETE = "DELETE"

_CLAIM_STATUSES = ("resourceClaimStatuses", "extendedResourceClaimStatus", "nodeAllocatableResourceClaimStatuses")


class Write(msgspec.Struct, frozen=True):
    """`namespace` and `name` are those of the request; for an eviction or a token, of the pod or service account."""

    operation: str
    group: str
    resource: str
    subresource: str
    namespace: str
    name: str
    old: Object | None = None
    new: Object | None = None


def restrict(user: User, write: Write, view: ClusterView) -> str | None:
    """Why a node may not do this; None where it may, and for everybody who is no node."""
    node = node_of(user)
    if node is None:
        return None
    if not node:
        return f'could not determine node from user "{user.name}"'
    match (write.group, write.resource):
        case ("", "pods"):
            return _pod(node, write, view)
        case ("", "nodes"):
            return _node(node, write)
        case ("", "serviceaccounts") if write.subresource == "token":
            return _token(node, write, view)
        case ("certificates.k8s.io", "podcertificaterequests"):
            return pod_certificates.restrict(node, write.operation, write.subresource, write.new or {}, view)
        case ("coordination.k8s.io", "leases"):
            return _lease(node, write)
        case (_, "resourceslices") if write.group == RESOURCE_GROUP:
            return _slice(node, write)
    return None


def _pod(node: str, write: Write, view: ClusterView) -> str | None:
    match (write.subresource, write.operation):
        case ("", "CREATE"):
            return _mirror_pod(node, write.new or {}, view)
        case ("", "DELETE"):
            return (
                None if _on(node, write.old) else f'node "{node}" can only delete pods with spec.nodeName set to itself'
            )
        case ("status", "UPDATE"):
            return _pod_status(node, write.old or {}, write.new or {})
        case ("eviction", "CREATE"):
            pod = view.get("", "pods", write.namespace, write.name)
            return None if _on(node, pod) else f"node {node} can only evict pods with spec.nodeName set to itself"
        case ("", _):
            return f'unexpected operation "{write.operation}", node "{node}" can only create and delete mirror pods'
    return f"unexpected pod subresource \"{write.subresource}\", only 'status' and 'eviction' are allowed"


def _mirror_pod(node: str, pod: Object, view: ClusterView) -> str | None:
    metadata = pod.get("metadata") or {}
    if MIRROR_ANNOTATION not in (metadata.get("annotations") or {}):
        return f'pod does not have "{MIRROR_ANNOTATION}" annotation, node "{node}" can only create mirror pods'
    if not _on(node, pod):
        return f'node "{node}" can only create pods with spec.nodeName set to itself'
    if not _owned_by(node, metadata.get("ownerReferences") or [], view):
        return f'node "{node}" can only create pods with a controller owner reference set to itself'
    named = pod_references.api_objects(pod)
    return f'node "{node}" can not create pods that reference {named}' if named else None


def _owned_by(node: str, owners: list[Object], view: ClusterView) -> bool:
    if len(owners) != 1:
        return False
    owner, existing = owners[0], view.get("", "nodes", "", node)
    return (
        (owner.get("apiVersion"), owner.get("kind"), owner.get("name")) == ("v1", "Node", node)
        and owner.get("controller") is True
        and not owner.get("blockOwnerDeletion")
        and existing is not None
        and existing["metadata"].get("uid") == owner.get("uid")
    )


def _pod_status(node: str, old: Object, new: Object) -> str | None:
    if not _on(node, old):
        return f'node "{node}" can only update pod status for pods with spec.nodeName set to itself'
    if (old["metadata"].get("labels") or {}) != (new["metadata"].get("labels") or {}):
        return f'node "{node}" cannot update labels through pod status'
    before, after = old.get("status") or {}, new.get("status") or {}
    for member in _CLAIM_STATUSES:
        if (before.get(member) or None) != (after.get(member) or None):
            return f'node "{node}" cannot update {member}'
    return None


def _node(node: str, write: Write) -> str | None:
    # The name of a request that creates may be no more than the beginning of one.
    name = _name(write.new) if write.operation == CREATE else write.name
    if name != node:
        return f'node "{node}" is not allowed to modify node "{name}"'
    if write.operation == DELETE or write.new is None:
        return None
    old, new = write.old or {}, write.new
    before, after = old.get("spec") or {}, new.get("spec") or {}
    if after.get("configSource") and after["configSource"] != before.get("configSource"):
        return f'node "{node}" is not allowed to set configSource'
    if write.operation == UPDATE and (before.get("taints") or []) != (after.get("taints") or []):
        return f'node "{node}" is not allowed to modify taints'
    if write.operation == UPDATE and _owners(old) != _owners(new):
        # A node that made another object its owner would be deleted with it, and could come back as it likes.
        return f'node "{node}" is not allowed to modify ownerReferences'
    labels = node_labels.forbidden(_labels(old), _labels(new))
    return f'node "{node}" is not allowed to modify labels: {", ".join(labels)}' if labels else None


def _token(node: str, write: Write, view: ClusterView) -> str | None:
    reference = ((write.new or {}).get("spec") or {}).get("boundObjectRef") or {}
    if (write.namespace, write.name) == (SYSTEM_NAMESPACE, DEVICE_DRIVER):
        return _driver_token(node, reference, view)
    if (reference.get("apiVersion"), reference.get("kind")) != ("v1", "Pod") or not reference.get("name"):
        return "node requested token not bound to a pod"
    if not reference.get("uid"):
        return "node requested token with a pod binding without a uid"
    pod = view.get("", "pods", write.namespace, reference["name"])
    if pod is None or pod["metadata"].get("uid") != reference["uid"]:
        return "the pod in the bound object reference does not exist"
    if not _on(node, pod):
        return "node requested token bound to a pod scheduled on a different node"
    return _audience(pod, ((write.new or {}).get("spec") or {}).get("audiences") or [""])


def _driver_token(node: str, reference: Object, view: ClusterView) -> str | None:
    """For the drivers in the agent of this node, which report about devices in the status of its claims."""
    if (reference.get("apiVersion"), reference.get("kind"), reference.get("name")) != ("v1", "Node", node):
        return f'node "{node}" can only request tokens of {DEVICE_DRIVER} that are bound to itself'
    found = view.get("", "nodes", "", node)
    same = found is not None and found["metadata"].get("uid") == reference.get("uid")
    return None if same else "the node in the bound object reference does not exist"


def _audience(pod: Object, audiences: list[str]) -> str | None:
    """A node asks for the tokens that the pod's volumes want, and for no others."""
    if len(audiences) > 1:
        return f"node may only request 0 or 1 audiences, {len(audiences)} requested"
    wanted = {token.get("audience") or "" for token in pod_references.projections(pod, "serviceAccountToken")}
    return None if audiences[0] in wanted else f'audience "{audiences[0]}" not found in pod spec volume'


def _lease(node: str, write: Write) -> str | None:
    if write.namespace != LEASE_NAMESPACE:
        return f'can only access leases in the "{LEASE_NAMESPACE}" system namespace'
    name = _name(write.new) if write.operation == CREATE else write.name
    return None if name == node else "can only access node lease with the same name as the requesting node"


def _slice(node: str, write: Write) -> str | None:
    for obj in (write.old, write.new):
        if obj is not None and (obj.get("spec") or {}).get("nodeName") != node:
            operation = write.operation.lower()
            return f'node "{node}" can only {operation} resourceslices with spec.nodeName set to itself'
    return None


def _on(node: str, pod: Object | None) -> bool:
    return pod is not None and (pod.get("spec") or {}).get("nodeName") == node


def _name(obj: Object | None) -> str:
    return str(((obj or {}).get("metadata") or {}).get("name") or "")


def _labels(obj: Object) -> Mapping[str, str]:
    return (obj.get("metadata") or {}).get("labels") or {}


def _owners(obj: Object) -> list[Object]:
    return (obj.get("metadata") or {}).get("ownerReferences") or []
