"""Signer of CertificateSigningRequests: approved ones get a certificate of the cluster's authority.

Kubernetes has this in its controller manager, which is given the authority's key; here the key stays in the server, and
the signer with it. It signs for three signers: clients, and nodes as clients and as servers. Of a request it takes the
key, the name, the groups and the host names; everything else is left out. What it may not sign fails for good.

No node gets a name of the API server. Certificates that nodes show as servers come from an authority of their own,
which only the API server trusts: even one with the address of the API server does not stand for it towards other
clients. A token gets a name once: see `node_names`.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import socket
from datetime import timedelta
from typing import Final

from dray.api import certificate_requests
from dray.api.bootstrap_tokens import SERVER_MACHINE
from dray.api.catalogue import CERTIFICATES_GROUP
from dray.api.certificate_requests import (
    APPROVED,
    CLIENT,
    FAILED,
    KUBELET_CLIENT,
    KUBELET_SERVING,
    Request,
    RequestError,
)
from dray.api.intake import Place
from dray.api.objects import Object, condition_of, is_true, mapping, spec_of, status_of, strings
from dray.process.tasks import end_tasks
from dray.server import documents, reads, status, updates
from dray.server.context import Context
from dray.server.node_names import NodeNames
from dray.server.resources import Resource, key_prefix
from dray.server.security import authority
from dray.server.security.certificates import CLIENT as CLIENT_PURPOSE
from dray.server.security.certificates import SERVER as SERVER_PURPOSE
from dray.server.security.server_names import is_of_one_machine, server_name_in
from dray.store.interface import StoreError

_log = logging.getLogger("dray.server")
PREFIX: Final = key_prefix(CERTIFICATES_GROUP, "certificatesigningrequests")
LIFETIME: Final = timedelta(days=365)
_SHORTEST: Final = timedelta(minutes=10)
_RETRY_SECONDS: Final = 30.0
# Reason of automatic approvals, here and in kube-controller-manager.
AUTOMATIC: Final = "AutoApproved"
_PURPOSES: Final = {CLIENT: CLIENT_PURPOSE, KUBELET_CLIENT: CLIENT_PURPOSE, KUBELET_SERVING: SERVER_PURPOSE}


class CertificateSigner:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._names = NodeNames(context)
        # Of two requests for one name, the second is decided after the first is recorded.
        self._one_at_a_time = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        context.observe(PREFIX, self._observe)

    def start(self) -> None:
        """Signs requests that were approved while no server ran."""
        self._names.start()
        for record in self._context.store.list(PREFIX).records:
            self._consider(documents.decode(record.value))

    async def close(self) -> None:
        await end_tasks(self._tasks)
        await self._names.close()

    def _observe(self, resource: Resource, key: str, obj: Object | None) -> None:
        if obj is not None:
            self._consider(obj)

    def _consider(self, obj: Object) -> None:
        if _is_due(obj):
            task = asyncio.get_running_loop().create_task(self._settle(obj["metadata"]["name"]), name="signer")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _settle(self, name: str) -> None:
        """Signs a request; retries on other failures, such as a full disk or a webhook that does not answer."""
        while True:
            try:
                await self._decide(Place(name=name))
                return
            except (status.ApiError, StoreError) as error:
                if isinstance(error, status.ApiError) and error.code == 404:
                    return
                _log.warning("CertificateSigningRequest %s cannot be signed yet: %s", name, error)
            await asyncio.sleep(_RETRY_SECONDS)

    async def _decide(self, place: Place) -> None:
        resource = self._context.registry.find(CERTIFICATES_GROUP, "v1", "certificatesigningrequests")
        assert resource is not None
        async with self._one_at_a_time:
            obj = resource.read(reads.get(self._context, resource, place).value)
            if _is_due(obj):
                outcome = await self._outcome(obj)
                await updates.modify(self._context, resource, place, lambda found: _conclude(found, outcome))

    async def _outcome(self, obj: Object) -> Object:
        """Returns the status with a certificate, or with the reason why the request is refused for good."""
        try:
            request = certificate_requests.read(obj)
            certificate_requests.check(obj, request)
            self._refuse_names(obj, request)
            if spec_of(obj)["signerName"] == KUBELET_CLIENT:
                await self._record(obj, request)
            made = self._sign(obj, request)
        except RequestError as error:
            return _failed(status_of(obj), str(error), self._context.now())
        return {**status_of(obj), "certificate": base64.b64encode(made).decode()}

    def _refuse_names(self, obj: Object, request: Request) -> None:
        if request.common_name == authority.KUBELET_CLIENT:
            raise RequestError(f"{authority.KUBELET_CLIENT} is the server's own name towards its nodes")
        if spec_of(obj)["signerName"] == CLIENT:
            return
        own = self._context.security.node_authority.server_names
        if _is_on_server_machine(spec_of(obj), request):
            own -= {request.node}
        if found := server_name_in((request.node, *request.hosts), own):
            advice = "choose another --node-name (kubelet: --hostname-override)"
            if found == socket.gethostname().lower():
                advice += ", or join with a token of dray join-token --this-machine"
            raise RequestError(f"{found} is a name of the API server: {advice}")
        for host in request.hosts:
            if host.lower() != request.node and self._names.exists(host.lower()):
                raise RequestError(f"{host} is the name of another node")
        for address in request.addresses:
            if not is_of_one_machine(address):
                raise RequestError(f"{address} is not an address of one machine")

    async def _record(self, obj: Object, request: Request) -> None:
        """Records the name for the key.

        Raises RequestError if another machine has it, except for approvals by a person and renewals by the node.
        """
        spec, approval = spec_of(obj), condition_of(obj, APPROVED, "True") or {}
        automatic = approval.get("reason") == AUTOMATIC and spec.get("username") != request.common_name
        if automatic and (why := self._names.refusal(request.node, request.key_hash)):
            raise RequestError(why)
        expires = self._context.clock() + _lifetime(spec.get("expirationSeconds"))
        await self._names.record(request.node, request.key_hash, expires)

    def _sign(self, obj: Object, request: Request) -> bytes:
        spec, security = spec_of(obj), self._context.security
        signer = str(spec["signerName"])
        serving = signer == KUBELET_SERVING
        issuer = security.serving_authority if serving else security.node_authority
        return issuer.certify(
            request.document.public_key(),
            request.common_name,
            request.organizations,
            _PURPOSES[signer],
            lifetime=_lifetime(spec.get("expirationSeconds")),
            hosts=(*request.hosts, *request.addresses) if serving else (),
        )


def _is_on_server_machine(spec: Object, request: Request) -> bool:
    """Returns True if the request may have this machine's host name: by its join token, or as a renewal."""
    if request.node != socket.gethostname().lower():
        return False
    return SERVER_MACHINE in strings(spec.get("groups")) or spec.get("username") == request.common_name


def _conclude(obj: Object, outcome: Object) -> None:
    if _is_due(obj):
        obj["status"] = outcome


def _is_due(obj: Object) -> bool:
    return (
        spec_of(obj).get("signerName") in _PURPOSES
        and certificate_requests.is_approved(obj)
        and not is_true(obj, FAILED)
        and not status_of(obj).get("certificate")
    )


def _lifetime(seconds: int | None) -> timedelta:
    return LIFETIME if seconds is None else min(max(timedelta(seconds=seconds), _SHORTEST), LIFETIME)


def _failed(before: Object, message: str, now: str) -> Object:
    condition = {
        "type": FAILED,
        "status": "True",
        "reason": "SignerValidationFailure",
        "message": message,
        "lastUpdateTime": now,
        "lastTransitionTime": now,
    }
    return {**mapping(before), "conditions": [*(before.get("conditions") or ()), condition]}
