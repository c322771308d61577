"""Tokens of service accounts that a node may ask for: those of its pods, for audiences that the pods' volumes name.

An audience is named by a projected volume, or by the CSIDriver behind a volume, be that one of the pod itself or one
that is bound to a claim. Any other has to be granted: the verb `request-serviceaccounts-token-audience` on a resource
with the name of the audience. Drivers in the agent of a node have a service account whose tokens are the node's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from dray.api import pod_references, volumes
from dray.api.objects import Object, mapping, mappings, spec_of, uid_of
from dray.server.authorization import Access
from dray.server.security.node_authorizer import ClusterView
from dray.server.security.users import DEVICE_DRIVER, SYSTEM_NAMESPACE

_VERB = "request-serviceaccounts-token-audience"
_STORAGE = "storage.k8s.io"


def restrict(
    node: str, namespace: str, account: str, request: Object, view: ClusterView, may: Callable[[Access], bool]
) -> str | None:
    """Returns why the node may not have this token of the account; None if it may."""
    spec = request.get("spec") or {}
    reference = spec.get("boundObjectRef") or {}
    if (namespace, account) == (SYSTEM_NAMESPACE, DEVICE_DRIVER):
        return _driver_token(node, reference, view)
    if (reference.get("apiVersion"), reference.get("kind")) != ("v1", "Pod") or not reference.get("name"):
        return "node requested token not bound to a pod"
    if not reference.get("uid"):
        return "node requested token with a pod binding without a uid"
    pod = view.get("", "pods", namespace, reference["name"])
    if pod is None or uid_of(pod) != reference["uid"]:
        return "the pod in the bound object reference does not exist"
    if spec_of(pod).get("nodeName") != node:
        return "node requested token bound to a pod scheduled on a different node"
    audiences = spec.get("audiences") or [""]
    if len(audiences) > 1:
        return "node may only request 0 or 1 audiences"
    if audiences[0] in _named_audiences(pod, view):
        return None
    if may(Access(_VERB, "", audiences[0], namespace=namespace, name=account)):
        return None
    return f'system:node:{node} is not authorized to request tokens for audience "{audiences[0]}"'


def _driver_token(node: str, reference: Object, view: ClusterView) -> str | None:
    """Checks a token for drivers in the node's agent: it must be bound to this Node. Returns the problem or None."""
    if (reference.get("apiVersion"), reference.get("kind"), reference.get("name")) != ("v1", "Node", node):
        return f'node "{node}" can only request tokens of {DEVICE_DRIVER} that are bound to itself'
    found = view.get("", "nodes", "", node)
    same = found is not None and uid_of(found) == reference.get("uid")
    return None if same else "the node in the bound object reference does not exist"


def _named_audiences(pod: Object, view: ClusterView) -> Iterator[str]:
    for token in pod_references.projections(pod, "serviceAccountToken"):
        yield str(token.get("audience") or "")
    for name in _drivers(pod, view):
        driver = view.get(_STORAGE, "csidrivers", "", name) or {}
        for request in mappings(spec_of(driver).get("tokenRequests")):
            yield str(request.get("audience") or "")


def _drivers(pod: Object, view: ClusterView) -> Iterator[str]:
    """Yields the names of the CSI drivers of the pod's volumes."""
    for volume in mappings(spec_of(pod).get("volumes")):
        yield str(mapping(volume.get("csi")).get("driver") or "")
    for key, _ in volumes.claims_of(pod):
        claim = view.get("", "persistentvolumeclaims", *key) or {}
        bound = view.get("", "persistentvolumes", "", str(spec_of(claim).get("volumeName") or "")) or {}
        yield str(mapping(spec_of(bound).get("csi")).get("driver") or "")
