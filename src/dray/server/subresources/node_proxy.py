"""`log`, `exec`, `attach` and `portforward`: answered by the node of the pod, which `NodeConnection` reaches.

The server checks that the pod is there and has a node; the node agent registers itself with the server. Where none is
registered, the answer says so.
"""

from __future__ import annotations

from typing import Protocol

from dray.server import status
from dray.server.calls import Call
from dray.server.requests import Answer


class NodeConnection(Protocol):
    """How the server reaches the agent of a node."""

    async def answer(self, call: Call, node: str) -> Answer: ...


async def forward(call: Call) -> Answer:
    pod = call.stored()
    if call.path.subresource != "portforward":
        _check_container(call, [c["name"] for c in _containers(pod["spec"])])
    node = pod["spec"].get("nodeName", "")
    if not node:
        raise status.bad_request(f"pod {call.path.name} does not have a host assigned")
    connection = call.context.nodes.get(node)
    if connection is None:
        raise status.not_implemented(f"no agent of node {node} is connected: {call.path.subresource} has no answer")
    return await connection.answer(call, node)


def _containers(spec: dict[str, list[dict[str, str]]]) -> list[dict[str, str]]:
    return [c for member in ("initContainers", "containers", "ephemeralContainers") for c in spec.get(member) or []]


def _check_container(call: Call, names: list[str]) -> None:
    wanted = call.query.get("container", "")
    if wanted and wanted not in names:
        raise status.bad_request(f"container {wanted} is not valid for pod {call.path.name}")
    if not wanted and len(names) > 1:
        raise status.bad_request(
            f"a container name must be specified for pod {call.path.name}, choose one of: [{' '.join(names)}]"
        )
