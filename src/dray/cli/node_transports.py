"""Transports of several node agents over one link: each request says whose it is, and has the rights of that node.

The agents run in one process, which has one link to the server's. `AsNode` marks what an agent asks with the name of
its node; `NodeTransports`, at the other end, hands it to the transport of that node and knows no others. What the
drivers in an agent report about their devices, in the status of claims, no node may write: it has their rights.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from dray.client.errors import ConnectionFailed
from dray.client.transport import Answer, Request, Stream, Transport
from dray.node.joining.driver_rights import CLAIM_STATUS

_NODE: Final = "x-dray-node"


class AsNode:
    def __init__(self, transport: Transport, node: str) -> None:
        self._transport = transport
        self._node = node
        self.watch_seconds = transport.watch_seconds

    async def send(self, request: Request) -> Answer:
        return await self._transport.send(self._marked(request))

    async def stream(self, request: Request) -> Stream:
        return await self._transport.stream(self._marked(request))

    async def close(self) -> None:
        """The link is that of all agents."""

    def _marked(self, request: Request) -> Request:
        return replace(request, headers={**request.headers, _NODE: self._node})


class NodeTransports:
    watch_seconds: float = 600

    def __init__(self, nodes: Mapping[str, Transport], drivers: Mapping[str, Transport]) -> None:
        self._nodes = nodes
        self._drivers = drivers

    async def send(self, request: Request) -> Answer:
        return await self._of(request).send(request)

    async def stream(self, request: Request) -> Stream:
        return await self._of(request).stream(request)

    async def close(self) -> None:
        for node in (*self._nodes.values(), *self._drivers.values()):
            await node.close()

    def _of(self, request: Request) -> Transport:
        try:
            transports = self._drivers if CLAIM_STATUS.fullmatch(request.path) else self._nodes
            return transports[request.headers.get(_NODE, "")]
        except KeyError:
            raise ConnectionFailed("a request of no node of this machine", sent=False) from None
