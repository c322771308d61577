"""The application of the node server: what it answers, and to whom.

Only the API server is answered, known by its certificate; it has asked who the user is and whether they may before it
asks the node. Nothing of the user reaches the node but what they want to see.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

from aiohttp import web

from dray.node.agent import NodeAgent
from dray.node.server import commands, logs, port_forward, stats
from dray.node.server.found_pods import AGENT
from dray.node.server.usage import UsageMeter
from dray.server.security.authority import KUBELET_CLIENT
from dray.server.security.peer import read_peer

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
_CONTAINER = "{namespace}/{pod}/{container}"


def application(agent: NodeAgent) -> web.Application:
    made = web.Application(middlewares=[_only_the_server])
    made[AGENT] = agent
    made[stats.METER] = UsageMeter(agent)
    made.cleanup_ctx.append(_metering)
    made.add_routes(
        [
            web.get("/healthz", _healthz),
            web.get("/pods", _pods),
            web.get(f"/containerLogs/{_CONTAINER}", logs.container_logs),
            web.get(f"/exec/{_CONTAINER}", commands.execute),
            web.get(f"/attach/{_CONTAINER}", commands.attach),
            web.get("/portForward/{namespace}/{pod}", port_forward.port_forward),
            web.get("/stats/summary", stats.summary),
            web.get("/metrics", stats.metrics),
            web.get("/metrics/resource", stats.resource_metrics),
        ]
    )
    return made


async def _metering(made: web.Application) -> AsyncIterator[None]:
    metering = asyncio.create_task(made[stats.METER].run(), name="usage")
    yield
    metering.cancel()
    await asyncio.gather(metering, return_exceptions=True)


@web.middleware
async def _only_the_server(request: web.Request, handler: Handler) -> web.StreamResponse:
    peer = read_peer(request.transport) if request.transport is not None else None
    if peer is None or peer.user.name != KUBELET_CLIENT:
        raise web.HTTPForbidden(text=f"only {KUBELET_CLIENT} may ask this node")
    return await handler(request)


async def _healthz(request: web.Request) -> web.Response:
    return web.Response(text="ok")


async def _pods(request: web.Request) -> web.Response:
    pods = request.app[AGENT].pods()
    return web.json_response({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": pods})
