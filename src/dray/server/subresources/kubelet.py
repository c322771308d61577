"""Subresources that the agent of a node answers: pods/log, exec, attach and portforward, nodes/proxy.

The server asks for the right to them and finds the node. A log is read as the client reads it; after an upgrade bytes
go through the server in both directions. A WebSocket begins with a GET: it needs the right to create as well, or the
right to read would be one to execute. nodes/proxy is the API of the agent itself, without its streams.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from urllib.parse import parse_qsl, quote, urlencode

from dray.api import errors
from dray.api.errors import FieldError
from dray.api.objects import Object, mappings
from dray.server import parameters, status
from dray.server.admission import parts
from dray.server.calls import Call
from dray.server.kubelets.client import Endpoint, KubeletAnswer, Unreachable, endpoint_of
from dray.server.kubelets.upgrades import upgrade, upgrade_to_spdy, wants_spdy, wants_upgrade
from dray.server.parameters import WriteOptions
from dray.server.part_kinds import ATTACH_OPTIONS, EXEC_OPTIONS, NODE_PROXY_OPTIONS, PORT_FORWARD_OPTIONS, PartKind
from dray.server.requests import Answer, Response, Stream

_FLAGS = ("follow", "previous", "timestamps")
_LEAST = {"tailLines": 0, "sinceSeconds": 1, "limitBytes": 1}
_STREAMS = ("All", "Stdout", "Stderr")
_EPHEMERAL = "ephemeralContainers"
# Names of streams in the API, and in a kubelet's.
_STREAM_NAMES = {"stdin": "input", "stdout": "output", "stderr": "error", "tty": "tty"}
_MOST_ARGUMENTS = 10_000
_MOST_BYTES = 1 << 20


async def log(call: Call) -> Answer:
    pod = await call.stored()
    query = _options(call)
    container = container_of(call, pod, call.query.get("container", ""))
    endpoint = node_of(call, pod)
    path = f"/containerLogs/{call.path.namespace}/{call.path.name}/{container}"
    try:
        answer = await call.context.kubelets.request(endpoint, path, query)
    except Unreachable as error:
        raise status.ApiError(500, "", str(error)) from error
    if answer.code != 200:
        raise await refusal(answer)
    return Stream(answer.chunks, content_type="text/plain", from_node=True)


async def refusal(answer: KubeletAnswer) -> status.ApiError:
    """Returns the agent's refusal as an error of the server."""
    reason = {400: "BadRequest", 404: "NotFound", 403: "Forbidden"}.get(answer.code, "InternalError")
    code = answer.code if reason != "InternalError" else 500
    return status.ApiError(code, reason, await answer.text() or f"the node answered with {answer.code}")


def _options(call: Call) -> dict[str, str]:
    """Returns the query for the agent; raises a 400 or a 422."""
    asked = call.query
    problems: list[FieldError] = []
    made = {flag: "true" for flag in _FLAGS if parameters.boolean(asked, flag)}
    for member, least in _LEAST.items():
        number = parameters.whole_number(asked, member)
        if number is None:
            continue
        if number < least:
            bound = "greater than or equal to 0" if least == 0 else "greater than 0"
            problems.append(errors.invalid(member, number, f"must be {bound}"))
        made[member] = str(number)
    _take_since(asked, made, problems)
    stream = asked.get("stream", "")
    if stream and stream not in _STREAMS:
        problems.append(errors.not_supported("stream", stream, list(_STREAMS)))
    elif stream and stream != "All":
        made["stream"] = stream
        if "tailLines" in made:
            problems.append(errors.forbidden("tailLines", "`tailLines` and specific `stream` are mutually exclusive"))
    if problems:
        raise status.invalid("PodLogOptions", "", call.path.name, problems)
    return made


def _take_since(asked: Mapping[str, str], made: dict[str, str], problems: list[FieldError]) -> None:
    since = asked.get("sinceTime", "")
    if not since:
        return
    try:
        moment = datetime.fromisoformat(since)
    except ValueError:
        raise status.bad_request(f"sinceTime {since[:100]!r} is not a time such as 2026-01-02T15:04:05Z") from None
    if moment.tzinfo is None:
        raise status.bad_request(f"sinceTime {since[:100]!r} has no time zone; append Z for UTC")
    if "sinceSeconds" in made:
        problems.append(errors.forbidden("", "at most one of `sinceTime` or `sinceSeconds` may be specified"))
    made["sinceTime"] = since


def container_of(call: Call, pod: Object, wanted: str) -> str:
    """Returns the container that was asked for, or the only one; raises a 400."""
    spec, name = pod["spec"], call.path.name
    if wanted:
        if wanted not in (*_names(spec, "initContainers"), *_names(spec, "containers"), *_names(spec, _EPHEMERAL)):
            raise status.bad_request(f"container {wanted} is not valid for pod {name}")
        return wanted
    names = _names(spec, "containers")
    if len(names) == 1:
        return names[0]
    message = f"a container name must be specified for pod {name}, choose one of: [{' '.join(names)}]"
    if inits := _names(spec, "initContainers"):
        message += f" or one of the init containers: [{' '.join(inits)}]"
    if ephemerals := _names(spec, _EPHEMERAL):
        message += f" or one of the ephemeral containers: [{' '.join(ephemerals)}]"
    raise status.bad_request(message)


def node_of(call: Call, pod: Object) -> Endpoint:
    node = pod["spec"].get("nodeName", "")
    if not node:
        raise status.bad_request(f"pod {call.path.name} does not have a host assigned")
    return endpoint_of(call.context, node)


def _names(spec: Object, member: str) -> list[str]:
    return [str(container["name"]) for container in mappings(spec.get(member))]


async def execute(call: Call) -> Answer:
    given = {**_streams(call), "command": [value for name, value in _pairs(call) if name == "command"]}
    options = await _admitted(call, given, EXEC_OPTIONS)
    return await _connect(call, "exec", options, lambda: [*_command(options), *_stream_query(options)])


async def attach(call: Call) -> Answer:
    options = await _admitted(call, _streams(call), ATTACH_OPTIONS)
    return await _connect(call, "attach", options, lambda: _stream_query(options))


async def port_forward(call: Call) -> Answer:
    values = [value for name, value in _pairs(call) if name in ("port", "ports")]
    texts = [text for text in ",".join(values).split(",") if text]
    if not all(text.isascii() and text.isdigit() and len(text) < 6 for text in texts):
        raise status.bad_request(f"ports must be numbers, not {','.join(values)[:100]!r}")
    given: Object = {"ports": [int(text) for text in texts]} if texts else {}
    options = await _admitted(call, given, PORT_FORWARD_OPTIONS)
    ports = [("port", str(port)) for port in options.get("ports") or ()]
    return await _connect(call, "portForward", options, lambda: ports)


async def _admitted(call: Call, options: Object, part: PartKind) -> Object:
    """Returns the options of a connection after admission."""
    if call.request.method in ("GET", "HEAD"):
        call.authorize_create()
    return await parts.admit(call.write(WriteOptions(), "connect"), parts.CONNECT, options, part)


async def _connect(call: Call, action: str, options: Object, query: Callable[[], list[tuple[str, str]]]) -> Answer:
    pod = await call.stored()
    path = f"/{action}/{call.path.namespace}/{call.path.name}"
    if action != "portForward":
        path = f"{path}/{container_of(call, pod, str(options.get('container') or ''))}"
    endpoint = node_of(call, pod)
    target = f"{path}?{urlencode(query())}"
    if not wants_upgrade(call.request.headers):
        raise status.bad_request("Upgrade request required")
    if wants_spdy(call.request.headers):
        return await upgrade_to_spdy(call.context.kubelets, endpoint, target, call.request.headers)
    return await upgrade(call.context.kubelets, endpoint, target, call.request.headers)


def _command(options: Object) -> list[tuple[str, str]]:
    found = [("command", str(word)) for word in options.get("command") or ()]
    if not found:
        raise status.bad_request("you must specify at least one command for execution")
    return found


def _streams(call: Call) -> Object:
    """Returns the streams and the container that the client requests."""
    found: Object = {stream: True for stream in _STREAM_NAMES if parameters.boolean(call.query, stream)}
    return {**found, **({"container": call.query["container"]} if call.query.get("container") else {})}


def _stream_query(options: Object) -> list[tuple[str, str]]:
    found = [(theirs, "1") for ours, theirs in _STREAM_NAMES.items() if options.get(ours)]
    if not any(name != "tty" for name, _ in found):
        raise status.bad_request("you must specify at least 1 of stdin, stdout, stderr")
    return found


def _pairs(call: Call) -> list[tuple[str, str]]:
    try:
        return parse_qsl(call.request.query, keep_blank_values=True, max_num_fields=_MOST_ARGUMENTS)
    except ValueError as error:
        raise status.bad_request(f"the query cannot be read: {error}") from error


async def proxy(call: Call) -> Answer:
    given = {"path": f"/{call.path.rest}"} if call.path.rest else {}
    options = await parts.admit(call.write(WriteOptions(), "connect"), parts.CONNECT, given, NODE_PROXY_OPTIONS)
    # `node:port` means the node too; the server uses no other port of it.
    node, _, port = call.path.name.partition(":")
    path = str(options.get("path") or "").removeprefix("/")
    endpoint = endpoint_of(call.context, node)
    if port and port != str(endpoint.port):
        raise status.bad_request(f"port {port[:5]} is not that of the kubelet of {node}, which is {endpoint.port}")
    request = call.request
    try:
        answer = await call.context.kubelets.request(
            endpoint,
            f"/{quote(path)}",
            request.query,
            method=request.method,
            body=request.body,
            content_type=request.headers.get("content-type", ""),
        )
        if answer.code == 200 and request.method == "GET":
            return Stream(answer.chunks, content_type=answer.content_type, from_node=True)
        return Response(answer.code, await answer.read(_MOST_BYTES), answer.content_type)
    except Unreachable as error:
        raise status.ApiError(503, "ServiceUnavailable", f"error trying to reach node: {error}") from error
