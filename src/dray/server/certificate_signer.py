"""Signer of CertificateSigningRequests: approved ones get a certificate of the cluster's authority.

Kubernetes has this in its controller manager, which is given the authority's key; here the key stays in the server, and
the signer with it. It signs for three signers: clients, and nodes as clients and as servers. Of a request it takes the
key, the name, the groups and the host names; everything else is left out. What it may not sign fails for good.
"""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import Set
from datetime import timedelta
from typing import Final

from dray.api import certificate_requests
from dray.api.catalogue import CERTIFICATES_GROUP
from dray.api.certificate_requests import (
    CLIENT,
    FAILED,
    KUBELET_CLIENT,
    KUBELET_SERVING,
    NODE_PREFIX,
    Request,
    RequestError,
)
from dray.api.intake import Place
from dray.api.objects import Object, is_true, mapping, spec_of, status_of
from dray.process.tasks import end_tasks
from dray.server import documents, status, updates
from dray.server.context import Context
from dray.server.resources import Resource, key_prefix
from dray.server.security import authority
from dray.server.security.certificates import CLIENT as CLIENT_PURPOSE
from dray.server.security.certificates import SERVER as SERVER_PURPOSE

_log = logging.getLogger("dray.server")
PREFIX: Final = key_prefix(CERTIFICATES_GROUP, "certificatesigningrequests")
LIFETIME: Final = timedelta(days=365)
_SHORTEST: Final = timedelta(minutes=10)
_PURPOSES: Final = {CLIENT: CLIENT_PURPOSE, KUBELET_CLIENT: CLIENT_PURPOSE, KUBELET_SERVING: SERVER_PURPOSE}


class CertificateSigner:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._tasks: set[asyncio.Task[None]] = set()
        context.observe(PREFIX, self._observe)

    def start(self) -> None:
        """Takes up what was approved while no server ran."""
        for record in self._context.store.list(PREFIX).records:
            self._consider(documents.decode(record.value))

    async def close(self) -> None:
        await end_tasks(self._tasks)

    def _observe(self, resource: Resource, key: str, obj: Object | None) -> None:
        if obj is not None:
            self._consider(obj)

    def _consider(self, obj: Object) -> None:
        if _is_due(obj):
            task = asyncio.get_running_loop().create_task(self._settle(obj["metadata"]["name"]), name="signer")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _settle(self, name: str) -> None:
        resource = self._context.registry.find(CERTIFICATES_GROUP, "v1", "certificatesigningrequests")
        assert resource is not None
        try:
            await updates.modify(self._context, resource, Place(name=name), self._change)
        except status.ApiError as error:
            if error.code != 404:
                _log.warning("CertificateSigningRequest %s cannot be signed: %s", name, error.message)

    def _change(self, obj: Object) -> None:
        if not _is_due(obj):
            return
        try:
            request = certificate_requests.read(obj)
            certificate_requests.check(obj, request)
            made = self._sign(obj, request)
        except RequestError as error:
            obj["status"] = _failed(status_of(obj), str(error), self._context.now())
        else:
            obj["status"] = {**status_of(obj), "certificate": base64.b64encode(made).decode()}

    def _sign(self, obj: Object, request: Request) -> bytes:
        spec = spec_of(obj)
        signer = str(spec["signerName"])
        if request.common_name == authority.KUBELET_CLIENT:
            raise RequestError(f"{authority.KUBELET_CLIENT} is the server's own name towards its nodes")
        issuer = self._context.security.node_authority
        if signer != CLIENT:
            _refuse_names(request, issuer.server_names)
        return issuer.certify(
            request.document.public_key(),
            request.common_name,
            request.organizations,
            _PURPOSES[signer],
            lifetime=_lifetime(spec.get("expirationSeconds")),
            hosts=(*request.hosts, *request.addresses) if signer == KUBELET_SERVING else (),
        )


def _refuse_names(request: Request, taken: Set[str]) -> None:
    """A node that had the server's name could answer its clients."""
    asked = {request.common_name.removeprefix(NODE_PREFIX), *request.hosts, *request.addresses}
    if found := sorted({each.lower() for each in asked} & taken):
        raise RequestError(f"{found[0]} is a name of the API server: choose another --node-name")


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
