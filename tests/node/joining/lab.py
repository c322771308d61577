"""A server with TLS whose controllers approve what nodes ask for."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

from dray.cli.join_token import make_token
from dray.client import cluster_info
from dray.client.api import ApiClient
from dray.control_plane.control_plane import ControlPlane, PlaneOptions
from dray.node.joining.joining import Invitation
from dray.server.inprocess import InProcessTransport
from dray.server.running import Options, RunningServer

APPROVER = "certificatesigningrequest-approving"
ADDRESS = "192.0.2.9"
"""One of the names of the server."""


class Lab:
    def __init__(self, server: RunningServer) -> None:
        self.server = server
        self.admin = ApiClient(InProcessTransport(server.application))
        # In tests it listens on loopback: what is printed for people names another address.
        self.url = server.url
        self.authority = server.context.security.node_authority.certificate
        self.hash = cluster_info.key_hash(self.authority)

    async def token(self) -> str:
        return (await make_token(self.admin)).token

    async def invite(self) -> Invitation:
        return Invitation(self.url, await self.token(), self.hash)


@contextlib.asynccontextmanager
async def started(
    data: Path | None = None, *, bind: str = "127.0.0.1", names: tuple[str, ...] = (ADDRESS, "api.example.com")
) -> AsyncIterator[Lab]:
    async with RunningServer(Options(data=data, port=0, bind=bind, names=names)).running() as server:
        lab = Lab(server)
        plane = ControlPlane(lab.admin, PlaneOptions(controllers=(APPROVER,)))
        running = asyncio.create_task(plane.run())
        await plane.ready.wait()
        try:
            yield lab
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
