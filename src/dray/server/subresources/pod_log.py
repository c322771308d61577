"""`pods/log`: what a container wrote, read from the agent of the pod's node as the client reads it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from dray.api import errors
from dray.api.errors import FieldError
from dray.server import parameters, status
from dray.server.calls import Call
from dray.server.kubelets.client import KubeletAnswer, Unreachable
from dray.server.requests import Answer, Stream
from dray.server.subresources.pod_containers import container_of, node_of

_FLAGS = ("follow", "previous", "timestamps")
_LEAST = {"tailLines": 0, "sinceSeconds": 1, "limitBytes": 1}
_STREAMS = ("All", "Stdout", "Stderr")


async def get(call: Call) -> Answer:
    pod = call.stored()
    query = _options(call)
    container = container_of(call, pod)
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
    """What the agent said, as the server says it."""
    reason = {400: "BadRequest", 404: "NotFound", 403: "Forbidden"}.get(answer.code, "InternalError")
    code = answer.code if reason != "InternalError" else 500
    return status.ApiError(code, reason, await answer.text() or f"the node answered with {answer.code}")


def _options(call: Call) -> dict[str, str]:
    """The query for the agent; raises a 400 or a 422."""
    asked = call.query
    problems: list[FieldError] = []
    made = {each: "true" for each in _FLAGS if parameters.boolean(asked, each)}
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
