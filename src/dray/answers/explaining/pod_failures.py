"""Reads from the server why objects fail: Warning events, and the last log line of a container."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import aclosing
from typing import Final

from dray.answers.explaining.container_states import Failure, failure_of
from dray.answers.explaining.pod_progress import has_started, termination_cause
from dray.answers.source import Source
from dray.api.catalogue import built_in
from dray.api.objects import Object, key_of, text
from dray.api.pods import is_terminal, node_of
from dray.client.errors import ApiError, ClientError
from dray.client.interface import Selection, item

_EVENTS: Final = built_in("v1", "Event")
_PODS: Final = built_in("v1", "Pod")
_LONGEST_LINE: Final = 200
_BEFORE_A_NODE: Final = frozenset(("FailedScheduling", "FailedResourceClaimCreation"))
"""Reasons of events that say nothing about a pod once it has a node."""


async def last_warning(
    cluster: Source, namespace: str, name: str, kind: str = "Pod", reason: str = "", *, without: Collection[str] = ()
) -> str:
    """Returns the message of the newest Warning event about an object, with none of the reasons `without`.

    Returns an empty text if there is none.
    """
    fields = [f"involvedObject.name={name}", f"involvedObject.kind={kind}", "type=Warning"]
    fields += [f"reason={reason}"] if reason else []
    try:
        selection = Selection(fields=",".join(fields))
        found = (await cluster.client.list_all(_EVENTS, namespace=namespace, selection=selection)).get("items") or []
    except ApiError:
        return ""
    told = [event for event in found if event.get("reason") not in without]
    newest: Object = max(told, key=_time, default={})
    return text(newest.get("message"))


def _time(event: Object) -> str:
    return text(event.get("lastTimestamp") or event.get("eventTime"))


async def problem_of(cluster: Source, pod: Object) -> str:
    """Returns why a pod that has a node does not run as it should; empty if it does."""
    failure = failure_of(pod)
    if failure is not None:
        line = await _last_line(cluster, pod, failure) if failure.ran else ""
        return f"{failure.text}; last log line: {line}" if line else failure.text
    if is_terminal(pod):
        return termination_cause(pod)
    if node_of(pod) and not has_started(pod):
        return await last_warning(cluster, *key_of(pod), without=_BEFORE_A_NODE)
    return ""


async def _last_line(cluster: Source, pod: Object, failure: Failure) -> str:
    """Returns the last line that the container wrote; empty if its log is gone."""
    query = {"container": failure.container, "tailLines": "1"} | ({"previous": "true"} if failure.previous else {})
    path = item(_PODS, *key_of(pod), "log")
    try:
        async with aclosing(cluster.client.stream(path, query=query)) as chunks:
            written = b"".join([chunk async for chunk in chunks])
    except ClientError:
        return ""
    lines = written.decode(errors="replace").strip().splitlines()
    return lines[-1][:_LONGEST_LINE] if lines else ""
