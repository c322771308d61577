"""`nodes/proxy`: the API of a node's agent, for those who have the right to it; not for its streams."""

from __future__ import annotations

from urllib.parse import quote

from dray.server import status
from dray.server.calls import Call
from dray.server.kubelets.client import Unreachable, endpoint_of
from dray.server.requests import Answer, Response, Stream

_MOST_BYTES = 1 << 20


async def forward(call: Call) -> Answer:
    call.stored()
    endpoint = endpoint_of(call.context, call.path.name)
    request = call.request
    try:
        answer = await call.context.kubelets.request(
            endpoint,
            f"/{quote(call.path.rest)}",
            request.query,
            method=request.method,
            body=request.body,
            content_type=request.headers.get("content-type", ""),
        )
    except Unreachable as error:
        raise status.ApiError(503, "ServiceUnavailable", f"error trying to reach node: {error}") from error
    if answer.code == 200 and request.method == "GET":
        return Stream(answer.chunks, content_type=answer.content_type, from_node=True)
    return Response(answer.code, await answer.read(_MOST_BYTES), answer.content_type)
