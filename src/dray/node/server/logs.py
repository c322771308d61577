"""`/containerLogs/{namespace}/{pod}/{container}`: what a run of a container wrote."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from aiohttp import web

from dray.node.container_records import ContainerRecord
from dray.node.host_parts import HostPod
from dray.node.pod_worker import PodWorker
from dray.node.server.found_pods import AGENT, logged_container_of
from dray.node.server.log_entries import LogOptions
from dray.node.server.log_files import LogFiles


async def container_logs(request: web.Request) -> web.StreamResponse:
    worker, record = logged_container_of(request)
    options = _options(request.query)
    attempt = _attempt(worker, record, previous=_flag(request.query, "previous"))
    agent = request.app[AGENT]

    def ended() -> bool:
        return not record.running or record.attempt != attempt

    response = web.StreamResponse(headers={"Content-Type": "text/plain"})
    await response.prepare(request)
    files = LogFiles(agent.setup.log_path(worker.pod, record.name, attempt))
    async for piece in files.read(options, ended):
        await response.write(piece)
    await response.write_eof()
    return response


def _attempt(worker: PodWorker | HostPod, record: ContainerRecord, *, previous: bool) -> int:
    """Returns the number of the run. While a container waits for its next run, the latest is also the previous one.

    Raises 400 if there is no such run.
    """
    waiting = record.name in worker.state.waiting
    attempt = record.attempt - (1 if previous and not waiting else 0)
    if attempt >= 0:
        return attempt
    name = worker.pod["metadata"]["name"]
    if previous:
        raise web.HTTPBadRequest(text=f'previous terminated container "{record.name}" in pod "{name}" not found')
    reason, message = record.waiting
    text = f'container "{record.name}" in pod "{name}" is waiting to start: {message or reason}'
    raise web.HTTPBadRequest(text=text)


def _options(query: Mapping[str, str]) -> LogOptions:
    stream = query.get("stream", "")
    return LogOptions(
        follow=_flag(query, "follow"),
        tail=_number(query, "tailLines"),
        since=_since(query),
        timestamps=_flag(query, "timestamps"),
        limit=_number(query, "limitBytes"),
        streams=(stream.lower().encode(),) if stream and stream != "All" else (b"stdout", b"stderr"),
    )


def _since(query: Mapping[str, str]) -> datetime | None:
    seconds = _number(query, "sinceSeconds")
    if seconds is not None:
        try:
            return datetime.now(UTC) - timedelta(seconds=seconds)
        except OverflowError:
            return None
    text = query.get("sinceTime", "")
    try:
        return datetime.fromisoformat(text).astimezone(UTC) if text else None
    except (ValueError, OverflowError):
        raise web.HTTPBadRequest(text=f"sinceTime is not a time: {text[:100]!r}") from None


def _flag(query: Mapping[str, str], name: str) -> bool:
    return query.get(name, "").lower() in ("true", "1")


def _number(query: Mapping[str, str], name: str) -> int | None:
    text = query.get(name, "")
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise web.HTTPBadRequest(text=f"{name} must be a number that is not negative, not {text[:100]!r}")
    return int(text)
