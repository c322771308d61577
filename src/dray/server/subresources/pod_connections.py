"""`pods/exec`, `pods/attach` and `pods/portforward`: connections to a pod, which the agent of its node answers.

The server asks for the right to them and finds the node; from then on bytes go through it in both directions. A
WebSocket begins with a GET: it needs the right to create as well, or the right to read would be one to execute.
"""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import parse_qsl, urlencode

from dray.server import parameters, status
from dray.server.calls import Call
from dray.server.kubelets.upgrades import upgrade, upgrade_to_spdy, wants_spdy, wants_upgrade
from dray.server.requests import Answer
from dray.server.subresources.pod_containers import container_of, node_of

# What the server calls them, and what a kubelet does.
_STREAMS = {"stdin": "input", "stdout": "output", "stderr": "error", "tty": "tty"}
_MOST_ARGUMENTS = 10_000


async def execute(call: Call) -> Answer:
    return await _connect(call, "exec", lambda: [*_command(call), *_streams(call)])


async def attach(call: Call) -> Answer:
    return await _connect(call, "attach", lambda: _streams(call))


async def port_forward(call: Call) -> Answer:
    values = [value for name, value in _pairs(call) if name in ("port", "ports")]
    return await _connect(call, "portForward", lambda: [("port", each) for each in ",".join(values).split(",") if each])


async def _connect(call: Call, action: str, query: Callable[[], list[tuple[str, str]]]) -> Answer:
    if call.request.method in ("GET", "HEAD"):
        call.authorize_create()
    pod = call.stored()
    path = f"/{action}/{call.path.namespace}/{call.path.name}"
    if action != "portForward":
        path = f"{path}/{container_of(call, pod)}"
    endpoint = node_of(call, pod)
    target = f"{path}?{urlencode(query())}"
    if not wants_upgrade(call.request.headers):
        raise status.bad_request("Upgrade request required")
    if wants_spdy(call.request.headers):
        return await upgrade_to_spdy(call.context.kubelets, endpoint, target, call.request.headers)
    return await upgrade(call.context.kubelets, endpoint, target, call.request.headers)


def _command(call: Call) -> list[tuple[str, str]]:
    found = [(name, value) for name, value in _pairs(call) if name == "command"]
    if not found:
        raise status.bad_request("you must specify at least one command for execution")
    return found


def _streams(call: Call) -> list[tuple[str, str]]:
    found = [(theirs, "1") for ours, theirs in _STREAMS.items() if parameters.boolean(call.query, ours)]
    if not any(name != "tty" for name, _ in found):
        raise status.bad_request("you must specify at least 1 of stdin, stdout, stderr")
    return found


def _pairs(call: Call) -> list[tuple[str, str]]:
    try:
        return parse_qsl(call.request.query, keep_blank_values=True, max_num_fields=_MOST_ARGUMENTS)
    except ValueError as error:
        raise status.bad_request(f"the query cannot be read: {error}") from error
