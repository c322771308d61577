"""Certificate requests of a node: sent with a key of its own, and waited for until they are decided."""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import Sequence
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization

from dray.api import certificate_requests
from dray.api.catalogue import CERTIFICATES_GROUP, built_in
from dray.api.certificate_requests import (
    CLIENT_AUTH,
    DENIED,
    FAILED,
    KUBELET_CLIENT,
    KUBELET_SERVING,
    NODE_GROUP,
    NODE_PREFIX,
    SERVER_AUTH,
)
from dray.api.objects import Object, condition_of
from dray.client.api import ApiClient
from dray.client.errors import NotFound
from dray.node.errors import NodeError
from dray.server.security import certificates
from dray.server.security.certificates import Credential, Key

REQUESTS: Final = built_in(f"{CERTIFICATES_GROUP}/v1", "CertificateSigningRequest")
_POLL: Final = 0.25
_LONGEST_POLL: Final = 5.0
# After this many seconds without a decision, log what is being waited for.
_PATIENCE: Final = 5.0
_logger = logging.getLogger("dray.node")


async def client_certificate(client: ApiClient, node: str, key: Key | None = None) -> Credential:
    """Requests a client certificate for the given key, or for a new key."""
    return await _obtain(client, node, KUBELET_CLIENT, CLIENT_AUTH, key=key)


async def serving_certificate(client: ApiClient, node: str) -> Credential:
    """Requests a serving certificate for the node's name alone, which is approved automatically."""
    return await _obtain(client, node, KUBELET_SERVING, SERVER_AUTH, hosts=[node])


async def _obtain(
    client: ApiClient, node: str, signer: str, usage: str, hosts: Sequence[str] = (), key: Key | None = None
) -> Credential:
    """Sends a request and waits for the certificate.

    Raises NodeError if it is denied, ClientError if the server fails.
    """
    key = key or certificates.new_key()
    asked = {
        "apiVersion": REQUESTS.api_version,
        "kind": REQUESTS.kind,
        "metadata": {"generateName": "node-csr-"},
        "spec": {
            "request": base64.b64encode(_document(node, key, hosts)).decode(),
            "signerName": signer,
            "usages": ["digital signature", usage],
        },
    }
    made = await client.create(REQUESTS, asked)
    return Credential(await _issued(client, made["metadata"]["name"]), certificates.encode_key(key))


def _document(node: str, key: Key, hosts: Sequence[str]) -> bytes:
    subject = certificates.subject(NODE_PREFIX + node, [NODE_GROUP])
    builder = x509.CertificateSigningRequestBuilder().subject_name(subject)
    if hosts:
        builder = builder.add_extension(certificates.alternative_names(hosts), critical=False)
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


async def _issued(client: ApiClient, name: str) -> bytes:
    loop = asyncio.get_running_loop()
    began, pause, told = loop.time(), _POLL, False
    while True:
        try:
            obj = await client.get(REQUESTS, name)
        except NotFound:
            raise NodeError(f"CertificateSigningRequest {name} was deleted before it was decided") from None
        if issued := certificate_requests.certificate_of(obj):
            return issued
        _refuse(obj, name)
        if not told and loop.time() - began > _PATIENCE:
            told = True
            _logger.warning("waiting for CertificateSigningRequest %s: %s", name, _advice(name))
        await asyncio.sleep(pause)
        pause = min(pause * 1.5, _LONGEST_POLL)


def _advice(name: str) -> str:
    return (
        f"`kubectl certificate approve {name}` lets it in; it is not let in by itself where a node of that name "
        "exists, where another machine was given the name, or where the controllers do not run"
    )


def _refuse(obj: Object, name: str) -> None:
    for decision in (DENIED, FAILED):
        if (condition := condition_of(obj, decision, "True")) is not None:
            why = condition.get("message") or condition.get("reason") or "no reason given"
            raise NodeError(f"CertificateSigningRequest {name} is {decision.lower()}: {why}")
