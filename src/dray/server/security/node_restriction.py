"""Node restriction: what a node may write, the half of its rules that needs the content.

`restrict` is called for every write by a node, with the object as it was and as it will be, and answers why not, or
None. A node changes its own Node but not its taints, its owners or the labels that steer workloads; it reports the
status of its pods but not which claims they have; it creates mirror pods that refer to nothing; it publishes slices
for itself; it asks for the tokens that its pods' volumes want, and for certificates of its own name.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from dray.api import certificate_requests, pod_references
from dray.api.catalogue import RESOURCE_GROUP
from dray.api.certificate_requests import RequestError
from dray.api.objects import Object, spec_of
from dray.api.pods import MIRROR_ANNOTATION
from dray.server.authorization import Authorizer, User
from dray.server.security import node_labels, node_tokens, pod_certificates
from dray.server.security.node_authorizer import LEASE_NAMESPACE, ClusterView
from dray.server.security.users import node_of

CREATE = "CREATE"
UPDATE = "UPDATE"
DELETE = "DELETE"

_CLAIM_STATUSES = ("resourceClaimStatuses", "extendedResourceClaimStatus", "nodeAllocatableResourceClaimStatuses")

_KEPT_BY_SERVER = ("managedFields", "resourceVersion")
_SIZES = ("allocatedResourceStatuses", "allocatedResources", "capacity", "conditions")


class Write(msgspec.Struct, frozen=True):
    """A write; `namespace` and `name` are those of the request: for an eviction or a token, of the pod or account."""

    operation: str
    group: str
    resource: str
    subresource: str
    namespace: str
    name: str
    old: Object | None = None
    new: Object | None = None


def restrict(user: User, write: Write, view: ClusterView, authorizer: Authorizer) -> str | None:
    """Returns why a node may not do the write; None if it may, and for all other users."""
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
            return node_tokens.restrict(
                node,
                write.namespace,
                write.name,
                write.new or {},
                view,
                lambda access: authorizer.authorize(user, access).allowed,
            )
        case ("", "persistentvolumeclaims"):
            return _volume_claim(node, write)
        case ("storage.k8s.io", "csinodes"):
            return _csi_node(node, write)
        case ("certificates.k8s.io", "certificatesigningrequests"):
            return _certificate_request(node, write)
        case ("certificates.k8s.io", "podcertificaterequests"):
            return pod_certificates.restrict(node, write.operation, write.subresource, write.new or {}, view)
        case ("coordination.k8s.io", "leases"):
            return _lease(node, write)
        case (_, "resourceslices") if write.group == RESOURCE_GROUP:
            return _slice(node, write, view)
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
    name = _written_name(write)
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
        # A node with an owner would be deleted with it, and could register again with any labels.
        return f'node "{node}" is not allowed to modify ownerReferences'
    labels = node_labels.forbidden(_labels(old), _labels(new))
    return f'node "{node}" is not allowed to modify labels: {", ".join(labels)}' if labels else None


def _volume_claim(node: str, write: Write) -> str | None:
    """Allows a node to report the size of a volume, and no other change of its claim."""
    if write.subresource != "status":
        return "may only update PVC status"
    if write.operation != UPDATE:
        return f'unexpected operation "{write.operation}"'
    if _beside_size(write.old or {}) == _beside_size(write.new or {}):
        return None
    return f'node "{node}" is not allowed to update fields other than status.quantity and status.conditions'


def _beside_size(claim: Object) -> Object:
    metadata = {member: value for member, value in claim["metadata"].items() if member not in _KEPT_BY_SERVER}
    told = {member: value for member, value in (claim.get("status") or {}).items() if member not in _SIZES}
    return {**claim, "metadata": metadata, "status": told}


def _certificate_request(node: str, write: Write) -> str | None:
    """Allows certificate requests only in the node's own name."""
    spec = (write.new or {}).get("spec") or {}
    of_node = spec.get("signerName") in (certificate_requests.KUBELET_CLIENT, certificate_requests.KUBELET_SERVING)
    if write.operation != CREATE or not of_node:
        return None
    try:
        request = certificate_requests.read(write.new or {})
    except RequestError as error:
        return f"unable to parse csr: {error}"
    wanted = certificate_requests.NODE_PREFIX + node
    return None if request.common_name == wanted else f"can only create a node CSR with CN={wanted}"


def _csi_node(node: str, write: Write) -> str | None:
    same = _written_name(write) == node
    return None if same else "can only access CSINode with the same name as the requesting node"


def _lease(node: str, write: Write) -> str | None:
    if write.namespace != LEASE_NAMESPACE:
        return f'can only access leases in the "{LEASE_NAMESPACE}" system namespace'
    same = _written_name(write) == node
    return None if same else "can only access node lease with the same name as the requesting node"


def _slice(node: str, write: Write, view: ClusterView) -> str | None:
    for obj in (write.old, write.new):
        if obj is not None and (obj.get("spec") or {}).get("nodeName") != node:
            operation = write.operation.lower()
            return f'node "{node}" can only {operation} resourceslices with spec.nodeName set to itself'
    if write.new is None:
        return None
    # Pools of nodes have the node's name. In another node's pool, a device would look like that node's.
    pool = str((spec_of(write.new).get("pool") or {}).get("name") or "")
    owner = pool.partition("/")[0]
    if owner != node and view.get("", "nodes", "", owner) is not None:
        return f'node "{node}" can not publish resourceslices in pool "{pool}", which belongs to node "{owner}"'
    return None


def _on(node: str, pod: Object | None) -> bool:
    return pod is not None and (pod.get("spec") or {}).get("nodeName") == node


def _written_name(write: Write) -> str:
    # A create request may have only generateName.
    if write.operation != CREATE:
        return write.name
    return str(((write.new or {}).get("metadata") or {}).get("name") or "")


def _labels(obj: Object) -> Mapping[str, str]:
    return (obj.get("metadata") or {}).get("labels") or {}


def _owners(obj: Object) -> list[Object]:
    return (obj.get("metadata") or {}).get("ownerReferences") or []
