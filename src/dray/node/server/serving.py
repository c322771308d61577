"""Serving of the node's API: its socket, its certificate, its end.

socket = listen(address, 10250)                             # from dray.server.listening; 0 for any port
agent = NodeAgent(client, AgentOptions(..., port=socket.getsockname()[1]))
trust = local_trust(server.context.security.node_authority, node, [address])    # from dray.node.server.trust
async with serving(agent, socket, trust): ...
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import AsyncIterator
from typing import Final

from aiohttp import web

from dray.node.agent import NodeAgent
from dray.node.server.application import application
from dray.node.server.trust import NodeTrust
from dray.server.security.tls import node_context

_SHUTDOWN_SECONDS: Final = 0.1


@contextlib.asynccontextmanager
async def serving(agent: NodeAgent, listening: socket.socket, trust: NodeTrust) -> AsyncIterator[None]:
    """Answers for as long as the block lasts; streams that are open then are cut."""
    # A handler whose client has left is cancelled: who follows a log would go on for nobody.
    runner = web.AppRunner(
        application(agent), handler_cancellation=True, access_log=None, shutdown_timeout=_SHUTDOWN_SECONDS
    )
    await runner.setup()
    try:
        await web.SockSite(runner, listening, ssl_context=node_context(trust.authority, trust.serving)).start()
        yield
    finally:
        await runner.cleanup()
