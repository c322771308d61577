"""The approver of certificates for nodes, so that machines join and renew without anybody at a terminal.

Three kinds of requests are approved, each if its sender may create a subresource that nobody ever creates, which is how
Kubernetes lets an administrator switch it off:

    nodeclient        the first certificate of a machine that holds a token, unless a node has that name already:
                      a token lets new machines in, and does not let one take the place of another
    selfnodeclient    the next certificate of a node as a client
    selfnodeserver    the certificate that a node shows as a server, for the node's name and nothing else: addresses
                      are what a node says of itself, and it might name that of the API server
"""

from __future__ import annotations

from typing import Final

from dray.api import certificate_requests
from dray.api.catalogue import CERTIFICATES_GROUP, built_in
from dray.api.certificate_requests import (
    APPROVED,
    KUBELET_CLIENT,
    KUBELET_SERVING,
    NODE_PREFIX,
    Request,
    RequestError,
)
from dray.api.objects import Object, mapping, spec_of, status_of
from dray.client.cache import Change
from dray.client.errors import NotFound
from dray.controllers.environment import Environment, QueueController, named
from dray.controllers.kinds import NODES

REQUESTS: Final = built_in(f"{CERTIFICATES_GROUP}/v1", "CertificateSigningRequest")
_REVIEWS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_AGAIN: Final = 30.0


class CertificateApprover(QueueController[str]):
    """Keyed by the names of requests."""

    def __init__(self, environment: Environment) -> None:
        super().__init__(environment)
        called = named("CertificateSigningRequest")
        self._workers = environment.workers("certificates", self.reconcile, called=called, count=2)
        self._requests = environment.informers.of(REQUESTS)
        self._requests.add_handler(self._changed)

    def _changed(self, change: Change) -> None:
        if change.type != "DELETED" and certificate_requests.is_open(change.object):
            self._workers.queue.add(change.key[1])

    async def reconcile(self, name: str) -> float | None:
        obj = self._requests.cache.get(name)
        if obj is None or not certificate_requests.is_open(obj) or status_of(obj).get("certificate"):
            return None
        part, request = _recognised(obj)
        if not part or request is None or not await self._may(obj, part):
            return None
        if part == "nodeclient" and await self._is_taken(request.common_name):
            node = request.common_name.removeprefix(NODE_PREFIX)
            text = f"Node {node} is there already: delete it, or approve this with kubectl certificate approve {name}"
            self._events.warning(obj, "NodeExists", text)
            return _AGAIN
        await self._approve(obj, part)
        return None

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

    async def _is_taken(self, user: str) -> bool:
        try:
            await self._client.get(NODES, user.removeprefix(NODE_PREFIX))
        except NotFound:
            return False
        return True

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
    """What its sender must be allowed to do; empty for a request that somebody has to look at."""
    spec = spec_of(obj)
    signer, user = spec.get("signerName"), spec.get("username")
    if signer not in (KUBELET_CLIENT, KUBELET_SERVING):
        return "", None
    try:
        request = certificate_requests.read(obj)
        certificate_requests.check(obj, request)
    except RequestError:
        return "", None
    if signer == KUBELET_CLIENT:
        return ("selfnodeclient" if user == request.common_name else "nodeclient"), request
    own = request.common_name.removeprefix(NODE_PREFIX)
    if user == request.common_name and request.hosts == (own,) and not request.addresses:
        return "selfnodeserver", request
    return "", None
