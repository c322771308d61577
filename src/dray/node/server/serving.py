"""Serving of the node's API: its socket, its certificate, its end.

socket = listen(address, 10250)                             # from dray.server.listening; 0 for any port
agent = NodeAgent(client, AgentOptions(..., port=socket.getsockname()[1]))
trust = local_trust(server.context.security, node, [address])    # from dray.node.server.trust
async with serving(agent, socket, trust.context()): ...

The socket listens from the start. The application, with its HTTP library, is loaded at the first connection, which
saves a third of the agent's start time, and memory if there is none.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import AsyncIterator
from typing import Final

from dray.node.agent import NodeAgent
from dray.process.descriptors import readable

_SHUTDOWN_SECONDS: Final = 0.1
_logger = logging.getLogger(__name__)


@contextlib.asynccontextmanager
async def serving(agent: NodeAgent, listening: socket.socket, tls: ssl.SSLContext) -> AsyncIterator[None]:
    """Serves the node's API within the context; open streams are cut when it ends.

    A new certificate is loaded into the context `tls`: later handshakes use it.
    """
    listening.listen()
    answering = asyncio.create_task(_serve(agent, listening, tls), name="API of the node")
    try:
        yield
    finally:
        answering.cancel()
        await asyncio.gather(answering, return_exceptions=True)
        listening.close()


async def _serve(agent: NodeAgent, listening: socket.socket, tls: ssl.SSLContext) -> None:
    """Waits for the first connection, then serves until it is cancelled."""
    await readable(listening)
    from aiohttp import web

    from dray.node.server.application import application

    # Cancel the handler when its client leaves: following a log would go on forever.
    runner = web.AppRunner(
        application(agent), handler_cancellation=True, access_log=None, shutdown_timeout=_SHUTDOWN_SECONDS
    )
    await runner.setup()
    try:
        await web.SockSite(runner, listening, ssl_context=tls).start()
        await asyncio.Event().wait()
    except Exception:
        _logger.exception("the API of the node is not served")
    finally:
        await runner.cleanup()
