"""Serving of the node's API: its socket, its certificate, its end.

socket = listen(address, 10250)                             # from dray.server.listening; 0 for any port
agent = NodeAgent(client, AgentOptions(..., port=socket.getsockname()[1]))
trust = local_trust(server.context.security.node_authority, node, [address])    # from dray.node.server.trust
async with serving(agent, socket, trust.context()): ...
"""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import AsyncIterator
from typing import Final

from aiohttp import web

from dray.node.agent import NodeAgent
from dray.node.server.application import application

_SHUTDOWN_SECONDS: Final = 0.1


@contextlib.asynccontextmanager
async def serving(agent: NodeAgent, listening: socket.socket, tls: ssl.SSLContext) -> AsyncIterator[None]:
    """Answers for as long as the block lasts; streams that are open then are cut.

    A new certificate is loaded into the context: handshakes from then on use it.
    """
    # A handler whose client has left is cancelled: who follows a log would go on for nobody.
    runner = web.AppRunner(
        application(agent), handler_cancellation=True, access_log=None, shutdown_timeout=_SHUTDOWN_SECONDS
    )
    await runner.setup()
    try:
        await web.SockSite(runner, listening, ssl_context=tls).start()
        yield
    finally:
        await runner.cleanup()
