"""Node authorizer: a node may touch what is its own.

A node is a user `system:node:<name>` in the group `system:nodes`. It may read its own Node, the pods bound to it, and
what these refer to: claims, secrets, config maps, service accounts, volumes and the secrets of volumes. It may write
its Node, its lease, its CSINode, the status of its pods and of their volume claims, and ResourceSlices that carry its
name. Where the decision needs the content of a write, it is left to `node_restriction`,
which the server must call too. `ClusterView` is what the authorizer wants to know; the server answers from memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from dray.api import pod_references, volumes
from dray.api.catalogue import RESOURCE_GROUP
from dray.api.objects import Key, Object, annotations_of, spec_of
from dray.api.pods import MIRROR_ANNOTATION
from dray.server.authorization import Access, Decision, User
from dray.server.security.rules import PolicyRule
from dray.server.security.users import DEVICE_DRIVER, SYSTEM_NAMESPACE, node_of
from dray.server.selection import pinned

LEASE_NAMESPACE = "kube-node-lease"


class ClusterView(Protocol):
    def get(self, group: str, resource: str, namespace: str, name: str) -> Object | None:
        """Returns the present object; None if there is none."""
        ...

    def pods_on(self, node: str) -> Iterable[Object]:
        """Returns the pods whose `spec.nodeName` is the node."""
        ...


_ALLOWED = Decision(True)
_NO_OPINION = Decision(False)
_READ = frozenset({"get", "list", "watch"})
_OWN = frozenset({"get", "create", "update", "patch", "delete"})

References = Callable[[Object], set[str]]


class NodeAuthorizer:
    """Authorizes nodes; `rules` are those of the role `system:node`, for accesses that are equal for all nodes."""

    def __init__(self, view: ClusterView, rules: Iterable[PolicyRule]) -> None:
        self._view = view
        self._rules = tuple(rules)

    def authorize(self, user: User, access: Access) -> Decision:
        node = node_of(user)
        if node is None:
            return _NO_OPINION
        if not node:
            return Decision(False, f'unknown node for user "{user.name}"')
        verb, group, resource, subresource = access.verb, access.group, access.resource, access.subresource
        namespace, name, field_selector = access.namespace, access.name, access.field_selector
        # A watch of one object names it in its field selector.
        one = name or pinned(field_selector, "metadata.name")
        if access.path:
            return _decide(any(rule.allows_path(verb, access.path) for rule in self._rules))
        match (group, resource):
            case ("", "nodes"):
                return self._node(node, verb, subresource, one)
            case ("", "pods"):
                return self._pod(node, verb, subresource, namespace, name, field_selector)
            case ("", "secrets"):
                return self._secret(node, verb, subresource, namespace, one)
            case ("", "configmaps"):
                return self._referred(node, verb, subresource, namespace, one, pod_references.config_maps, _READ)
            case (_, "resourceclaims") if group == RESOURCE_GROUP:
                return self._referred(node, verb, subresource, namespace, name, pod_references.claims, {"get"})
            case (_, "resourceslices") if group == RESOURCE_GROUP:
                return self._slice(node, verb, subresource, name, field_selector)
            case ("", "persistentvolumeclaims") if subresource == "status":
                verbs = ("update", "patch")
                return self._referred(node, verb, "", namespace, name, pod_references.volume_claims, verbs)
            case ("", "persistentvolumeclaims"):
                return self._referred(node, verb, subresource, namespace, name, pod_references.volume_claims, {"get"})
            case ("", "persistentvolumes"):
                return self._volume(node, verb, subresource, name)
            case ("", "serviceaccounts") if verb == "get" and not subresource:
                return self._referred(node, verb, subresource, namespace, name, _accounts, {"get"})
            case ("", "serviceaccounts"):
                return self._token(node, verb, subresource, namespace, name)
            case ("certificates.k8s.io", "podcertificaterequests"):
                return self._certificate(node, verb, subresource, namespace, name, field_selector)
            case ("storage.k8s.io", "volumeattachments"):
                return self._attachment(node, verb, subresource, name)
            case ("storage.k8s.io", "csinodes"):
                return _csi_node(node, verb, subresource, name)
            case ("coordination.k8s.io", "leases"):
                return _lease(node, verb, subresource, namespace, name)
        return _decide(any(rule.allows(verb, group, resource, subresource, name) for rule in self._rules))

    def _node(self, node: str, verb: str, subresource: str, name: str) -> Decision:
        # A node may read its Node before it exists, so the name decides, not the object.
        if verb in _READ and not subresource:
            what = f"'{name}'" if name else "all nodes"
            return _decide(name == node, f"node '{node}' cannot read {what}, only its own Node object")
        if verb == "create" and not subresource:
            return _ALLOWED
        return _decide(verb in ("update", "patch") and subresource in ("", "status"))

    def _pod(self, node: str, verb: str, subresource: str, namespace: str, name: str, field_selector: str) -> Decision:
        if subresource:
            verbs = {"status": ("update", "patch"), "eviction": ("create",)}.get(subresource, ())
            return _decide(verb in verbs)
        if verb in ("create", "delete"):
            return _ALLOWED
        if verb not in _READ:
            return _NO_OPINION
        # A selector counts only without a name.
        if not name:
            why = "can only list/watch pods with spec.nodeName field selector"
            return _decide(pinned(field_selector, "spec.nodeName") == node, why)
        pod = self._view.get("", "pods", namespace, name)
        return self._related(node, pod is not None and pod["spec"].get("nodeName") == node)

    def _referred(
        self,
        node: str,
        verb: str,
        subresource: str,
        namespace: str,
        name: str,
        references: References,
        verbs: Iterable[str],
    ) -> Decision:
        if verb not in verbs or subresource:
            return Decision(False, "can only read individual resources of this type")
        if not namespace or not name:
            return Decision(False, "No Object name found")
        return self._related(node, any(name in references(pod) for pod in self._pods_in(node, namespace)))

    def _slice(self, node: str, verb: str, subresource: str, name: str, field_selector: str) -> Decision:
        if subresource:
            return Decision(False, "cannot authorize ResourceSlice subresources")
        if verb == "create":
            return _ALLOWED
        if verb in ("list", "watch", "deletecollection") and not name:
            why = "can only list/watch/deletecollection resourceslices with nodeName field selector"
            return _decide(pinned(field_selector, "spec.nodeName") == node, why)
        if verb not in _OWN | _READ:
            return _NO_OPINION
        found = self._view.get(RESOURCE_GROUP, "resourceslices", "", name)
        return self._related(node, found is not None and found["spec"].get("nodeName") == node)

    def _certificate(
        self, node: str, verb: str, subresource: str, namespace: str, name: str, field_selector: str
    ) -> Decision:
        if subresource:
            return Decision(False, "nodes may not access the status subresource of PodCertificateRequests")
        if verb == "create":
            return _ALLOWED
        if verb not in _READ:
            return Decision(False, f"nodes may not {verb} podcertificaterequests")
        if not name:
            why = "can only list/watch podcertificaterequests with nodeName field selector"
            return _decide(pinned(field_selector, "spec.nodeName") == node, why)
        found = self._view.get("certificates.k8s.io", "podcertificaterequests", namespace, name)
        return self._related(node, found is not None and found["spec"].get("nodeName") == node)

    def _volume(self, node: str, verb: str, subresource: str, name: str) -> Decision:
        """Allows a node to get the volumes that claims of its pods are bound to."""
        if verb != "get" or subresource:
            return Decision(False, "can only read individual resources of this type")
        found = self._view.get("", "persistentvolumes", "", name)
        claim = (found or {"spec": {}})["spec"].get("claimRef") or {}
        pods = self._pods_in(node, claim.get("namespace") or "")
        return self._related(node, any(claim.get("name") in pod_references.volume_claims(pod) for pod in pods))

    def _secret(self, node: str, verb: str, subresource: str, namespace: str, name: str) -> Decision:
        """Allows a node to read the Secrets of its pods, and those of the volumes of its pods."""
        direct = self._referred(node, verb, subresource, namespace, name, pod_references.secrets, _READ)
        if direct.allowed or verb not in _READ or subresource or not (namespace and name):
            return direct
        bound = (self._bound(key) for pod in self._pods(node) for key, _ in volumes.claims_of(pod))
        keys = (volumes.node_secrets(volume) for volume in bound if volume is not None)
        return self._related(node, any((namespace, name) in found for found in keys))

    def _bound(self, claim: Key) -> Object | None:
        """Returns the volume of a claim, if both refer to each other."""
        found = self._view.get("", "persistentvolumeclaims", *claim)
        name = str(spec_of(found).get("volumeName") or "") if found is not None else ""
        volume = self._view.get("", "persistentvolumes", "", name) if name else None
        return volume if found is not None and volume is not None and volumes.is_for(volume, found) else None

    def _attachment(self, node: str, verb: str, subresource: str, name: str) -> Decision:
        if verb != "get" or subresource:
            return Decision(False, "can only get individual resources of this type")
        found = self._view.get("storage.k8s.io", "volumeattachments", "", name)
        return self._related(node, found is not None and spec_of(found).get("nodeName") == node)

    def _token(self, node: str, verb: str, subresource: str, namespace: str, name: str) -> Decision:
        if verb != "create" or subresource != "token" or not name:
            return Decision(False, "can only create tokens for individual service accounts")
        # That the token is bound to this node is checked with the content.
        if (namespace, name) == (SYSTEM_NAMESPACE, DEVICE_DRIVER):
            return _ALLOWED
        pods = self._pods_in(node, namespace)
        return self._related(node, any(pod_references.service_account(pod) == name for pod in pods))

    def _pods(self, node: str) -> Iterable[Object]:
        """Returns the pods of a node, without mirror pods, which the node makes itself."""
        return (pod for pod in self._view.pods_on(node) if MIRROR_ANNOTATION not in annotations_of(pod))

    def _pods_in(self, node: str, namespace: str) -> Iterable[Object]:
        return (pod for pod in self._pods(node) if pod["metadata"].get("namespace") == namespace)

    def _related(self, node: str, related: bool) -> Decision:
        return _decide(related, f"no relationship found between node '{node}' and this object")


def _accounts(pod: Object) -> set[str]:
    return {pod_references.service_account(pod)}


def _csi_node(node: str, verb: str, subresource: str, name: str) -> Decision:
    verbs = {"": _OWN, "status": _OWN - {"create", "delete"}}.get(subresource)
    if verbs is None:
        return Decision(False, "cannot authorize CSINode subresources")
    if verb not in verbs:
        return Decision(False, "can only get, create, update, patch, or delete a CSINode")
    why = "can only access CSINode with the same name as the requesting node"
    return _decide(verb == "create" or name == node, why)


def _lease(node: str, verb: str, subresource: str, namespace: str, name: str) -> Decision:
    if verb not in _OWN or subresource:
        return Decision(False, "can only get, create, update, patch, or delete a node lease")
    if namespace != LEASE_NAMESPACE:
        return Decision(False, f'can only access leases in the "{LEASE_NAMESPACE}" system namespace')
    why = "can only access node lease with the same name as the requesting node"
    return _decide(verb == "create" or name == node, why)


def _decide(allowed: bool, why: str = "") -> Decision:
    return _ALLOWED if allowed else Decision(False, why)
