"""The approver of certificates for nodes, so that machines join and renew without anybody at a terminal.

Three kinds of requests are approved, each if its sender may create a subresource that nobody ever creates, which is how
Kubernetes lets an administrator switch it off:

    nodeclient        the first certificate of a machine that holds a token, unless a node has that name already, or
                      another machine was given it: a token lets new machines in, and does not let one take the place
                      of another
    selfnodeclient    the next certificate of a node as a client
    selfnodeserver    the certificate that a node shows as a server, for the node's name and for addresses that its Node
                      object has, and no other Node. An address of the API server may be among them: both may run on
                      one machine, and only the API server trusts the authority of these certificates
"""

from __future__ import annotations

import ipaddress
from typing import Final

from dray.api import certificate_requests, node_certificates
from dray.api.catalogue import CERTIFICATES_GROUP, built_in
from dray.api.certificate_requests import (
    APPROVED,
    KUBELET_CLIENT,
    KUBELET_SERVING,
    Request,
    RequestError,
)
from dray.api.kind import KindVersion
from dray.api.objects import Object, mapping, mappings, metadata_of, spec_of, status_of
from dray.client.cache import Change
from dray.client.errors import NotFound
from dray.controllers.environment import Environment, QueueController, named
from dray.controllers.kinds import NODES

REQUESTS: Final = built_in(f"{CERTIFICATES_GROUP}/v1", "CertificateSigningRequest")
_REVIEWS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_CONFIG_MAPS: Final = built_in("v1", "ConfigMap")
_AGAIN: Final = 30.0


class CertificateApprover(QueueController[str]):
    """Approves certificate requests of nodes. Keys are the names of requests."""

    def __init__(self, environment: Environment) -> None:
        super().__init__(environment)
        called = named("CertificateSigningRequest")
        self._workers = environment.workers("certificates", self.reconcile, called=called, count=2)
        self._requests = environment.informers.of(REQUESTS)
        self._requests.add_handler(self._changed)
        self._nodes = environment.informers.of(NODES)
        self._nodes.add_handler(self._node_changed)
        self._waiting: set[str] = set()
        """Names of requests that wait for the addresses or the end of a Node."""

    def _changed(self, change: Change) -> None:
        if change.type != "DELETED" and certificate_requests.is_open(change.object):
            self._workers.queue.add(change.key[1])

    def _node_changed(self, change: Change) -> None:
        old, new = change.previous, change.object
        if self._waiting and (change.type == "DELETED" or old is None or _addresses(old) != _addresses(new)):
            for name in self._waiting:
                self._workers.queue.add(name)

    async def reconcile(self, name: str) -> float | None:
        self._waiting.discard(name)
        obj = self._requests.cache.get(name)
        if obj is None or not certificate_requests.is_open(obj) or status_of(obj).get("certificate"):
            return None
        try:
            part, request = _recognised(obj)
        except RequestError as error:
            self._events.warning(obj, "NotSigned", f"{error}; such a request cannot be approved")
            return None
        if not part and request is not None:
            why = f"a node gets a serving certificate for itself, under its name {request.node} and its addresses"
            self._leave(obj, "NotOfNode", why)
        if not part or request is None or not await self._may(obj, part):
            return None
        if part == "nodeclient" and (why := await self._refusal(request)):
            self._leave(obj, "NodeExists", why)
        elif part == "selfnodeserver" and (why := self._foreign_address(request)):
            self._leave(obj, "AddressNotOfNode", why)
        else:
            await self._approve(obj, part)
            return None
        self._waiting.add(name)
        return _AGAIN

    def _leave(self, obj: Object, reason: str, why: str) -> None:
        """Leaves a request to manual approval, with the reason in an event."""
        name = metadata_of(obj)["name"]
        self._events.warning(obj, reason, f"{why}; kubectl certificate approve {name} approves it anyway")

    async def _may(self, obj: Object, part: str) -> bool:
        spec = spec_of(obj)
        attributes = {
            "group": REQUESTS.group,
            "resource": REQUESTS.plural,
            "subresource": part,
            "verb": "create",
            "version": "*",
        }
        who = {"user": spec.get("username"), "uid": spec.get("uid"), "groups": spec.get("groups")}
        asked = {**{key: value for key, value in who.items() if value}, "extra": spec.get("extra") or {}}
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {**asked, "resourceAttributes": attributes},
        }
        answer = await self._client.request("POST", _REVIEWS, body=review)
        return mapping(answer.get("status")).get("allowed") is True

    async def _refusal(self, request: Request) -> str:
        """Returns why a machine with a token does not get the requested name; empty if it gets the name."""
        node, place = request.node, (node_certificates.record_name(request.node), node_certificates.NAMESPACE)
        return node_certificates.refusal(
            node,
            await self._found(_CONFIG_MAPS, *place),
            node_exists=await self._found(NODES, node) is not None,
            key_hash=request.key_hash,
            now=self._time.now(),
        )

    def _foreign_address(self, request: Request) -> str:
        """Returns why a requested address does not belong to the node; empty if all addresses do."""
        of_nodes = {metadata_of(node)["name"]: _addresses(node) for node in self._nodes.cache}
        for address in request.addresses:
            if address not in of_nodes.get(request.node, ()):
                return f"{address} is not among the addresses in the status of Node {request.node}"
            others = [name for name, found in of_nodes.items() if name != request.node and address in found]
            if others:
                return f"{address} is also an address of Node {min(others)}"
        return ""

    async def _found(self, kind: KindVersion, name: str, namespace: str = "") -> Object | None:
        try:
            return await self._client.get(kind, name, namespace=namespace)
        except NotFound:
            return None

    async def _approve(self, obj: Object, part: str) -> None:
        condition = {
            "type": APPROVED,
            "status": "True",
            "reason": "AutoApproved",
            "message": f"its sender may create certificatesigningrequests/{part}",
        }
        conditions = [*(status_of(obj).get("conditions") or ()), condition]
        body = {**obj, "status": {**status_of(obj), "conditions": conditions}}
        await self._client.update(REQUESTS, body, subresource="approval")


def _recognised(obj: Object) -> tuple[str, Request | None]:
    """Returns the permission that the sender needs for approval, and the parsed request of a node.

    The permission is empty if only a person may approve the request. Raises RequestError for a
    request that no signer of nodes signs.
    """
    spec = spec_of(obj)
    signer, user = spec.get("signerName"), spec.get("username")
    if signer not in (KUBELET_CLIENT, KUBELET_SERVING):
        return "", None
    request = certificate_requests.read(obj)
    certificate_requests.check(obj, request)
    if signer == KUBELET_CLIENT:
        return ("selfnodeclient" if user == request.common_name else "nodeclient"), request
    # The server finds out by the name that it reached the right node; a name may also have the form of an address.
    names_node = request.node in (*request.hosts, *request.addresses)
    if user == request.common_name and names_node and set(request.hosts) <= {request.node}:
        return "selfnodeserver", request
    return "", request


def _addresses(node: Object) -> set[str]:
    """Returns the addresses in a Node's status, in canonical form."""
    return {_canonical(str(address.get("address"))) for address in mappings(status_of(node).get("addresses"))}


def _canonical(text: str) -> str:
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        return text
