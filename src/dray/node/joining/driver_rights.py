"""Rights of the drivers in an agent that joined: what they report of their devices, no node may write.

That goes into the status of claims. It is sent with a token of the service account `device-driver` in kube-system,
which the agent asks for with its own certificate; the token is bound to the Node, and so are the rights it gives.
Everything else is sent with the node's certificate.
"""

from __future__ import annotations

import asyncio
import re
from typing import Final

from msgspec.structs import replace

from dray.api.catalogue import built_in
from dray.api.objects import mapping, metadata_of
from dray.client.api import ApiClient
from dray.client.transport import Answer, Request, Stream, Transport
from dray.server.security.users import DEVICE_DRIVER, SYSTEM_NAMESPACE

CLAIM_STATUS: Final = re.compile(r"/apis/resource\.k8s\.io/[^/]+/namespaces/[^/]+/resourceclaims/[^/]+/status")
_NODES: Final = built_in("v1", "Node")
_ACCOUNTS: Final = built_in("v1", "ServiceAccount")
_SECONDS: Final = 3600
_FRESH_SECONDS: Final = 0.8 * _SECONDS


class DriverRights:
    """Requests tokens for drivers; `transport` uses the node's certificate, `without` uses no certificate."""

    def __init__(self, transport: Transport, without: Transport, node: str) -> None:
        self._transport = transport
        self._without = without
        self._node = node
        self._client = ApiClient(transport)
        self._token = ""
        self._until = 0.0
        self._asking = asyncio.Lock()
        self.watch_seconds = transport.watch_seconds

    async def send(self, request: Request) -> Answer:
        if CLAIM_STATUS.fullmatch(request.path) is None:
            return await self._transport.send(request)
        headers = {**request.headers, "authorization": f"Bearer {await self._fresh_token()}"}
        answer = await self._without.send(replace(request, headers=headers))
        if answer.status == 401:
            # The Node was made anew, or the server has new signing keys.
            self._until = 0.0
        return answer

    async def stream(self, request: Request) -> Stream:
        return await self._transport.stream(request)

    async def close(self) -> None:
        await self._transport.close()
        await self._without.close()

    async def _fresh_token(self) -> str:
        loop = asyncio.get_running_loop()
        async with self._asking:
            if loop.time() >= self._until:
                self._token = await self._ask()
                self._until = loop.time() + _FRESH_SECONDS
            return self._token

    async def _ask(self) -> str:
        node = metadata_of(await self._client.get(_NODES, self._node))
        bound = {"apiVersion": "v1", "kind": "Node", "name": node["name"], "uid": node["uid"]}
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": _SECONDS, "boundObjectRef": bound},
        }
        answer = await self._client.create(
            _ACCOUNTS, body, namespace=SYSTEM_NAMESPACE, name=DEVICE_DRIVER, subresource="token"
        )
        return str(mapping(answer.get("status")).get("token") or "")
