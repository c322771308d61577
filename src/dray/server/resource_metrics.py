"""`metrics.k8s.io`: usage of nodes and pods, read from the nodes on each request; nothing is stored.

Nodes are asked at the same time, a few at once. One that does not answer in time, or has no agent, is left out, as are
its pods: that is how clients know that nothing is known.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from dray.api.objects import Object, mapping, mappings
from dray.server import documents, parameters, reads, status
from dray.server.authorization import Access
from dray.server.context import Context
from dray.server.kubelets.client import Unreachable, endpoint_of
from dray.server.paths import ResourcePath
from dray.server.requests import Answer, Request, document
from dray.server.resources import Resource
from dray.server.reviews import Review
from dray.server.selection import select

GROUP: Final = "metrics.k8s.io"
_VERSION: Final = "v1beta1"
_VERBS: Final = ("get", "list")
METRICS: Final = (
    Review(GROUP, "nodes", "NodeMetrics", version=_VERSION, verbs=_VERBS),
    Review(GROUP, "pods", "PodMetrics", namespaced=True, version=_VERSION, verbs=_VERBS),
)
_AT_ONCE: Final = 16
_SECONDS: Final = 5.0
_LONGEST: Final = 16 << 20
_WINDOW: Final = "10s"
_log = logging.getLogger("dray.server")


async def answer(context: Context, request: Request, path: ResourcePath, query: Mapping[str, str]) -> Answer:
    item = next((kind for kind in METRICS if (kind.version, kind.plural) == (path.version, path.plural)), None)
    if item is None or path.subresource or (path.namespace and not item.namespaced):
        raise status.no_such_path()
    if request.method not in ("GET", "HEAD") or parameters.boolean(query, "watch"):
        raise status.method_not_allowed(request.method)
    request.verb = "get" if path.name else "list"
    access = Access(request.verb, GROUP, path.plural, namespace=path.namespace, name=path.name)
    request.reason = context.security.authorize(request.user, access)
    subjects = await _subjects(context, path, query)
    items = await (_pods(context, subjects) if item.namespaced else _nodes(context, subjects))
    if path.name:
        if not items:
            name = f"{path.namespace}/{path.name}" if item.namespaced else path.name
            raise status.not_found(GROUP, item.kind.lower(), name)
        return document({"kind": item.kind, "apiVersion": f"{GROUP}/{_VERSION}", **items[0]})
    listed = {"kind": f"{item.kind}List", "apiVersion": f"{GROUP}/{_VERSION}", "metadata": {}, "items": items}
    return document(listed)


async def _subjects(context: Context, path: ResourcePath, query: Mapping[str, str]) -> list[Object]:
    """Returns the requested nodes or pods."""
    resource = _stored(context, path.plural)
    if path.name:
        record = context.store.get(resource.key(path.namespace, path.name))
        if record is None:
            raise status.not_found("", path.plural, path.name)
        return [documents.decode(record.value)]
    selection = select(query, resource.fields, resource.read)
    records = context.store.list(reads.list_prefix(resource, path.namespace)).records
    return [documents.decode(record.value) for record in await reads.selected(context, records, selection)]


def _stored(context: Context, plural: str) -> Resource:
    resource = context.registry.find("", "v1", plural)
    assert resource is not None
    return resource


async def _nodes(context: Context, nodes: list[Object]) -> list[Object]:
    summaries = await _summaries(context, [str(node["metadata"]["name"]) for node in nodes])
    told = {name: mapping(each.get("node")) for name, each in summaries.items()}
    return [
        {**_head(node, told[name]), "usage": _usage(told[name])}
        for node in nodes
        if told[name := str(node["metadata"]["name"])].get("cpu")
    ]


async def _pods(context: Context, pods: list[Object]) -> list[Object]:
    names = {str(mapping(pod.get("spec")).get("nodeName") or "") for pod in pods}
    summaries = await _summaries(context, sorted(names - {""}))
    told = {
        str(mapping(used.get("podRef")).get("uid")): used
        for summary in summaries.values()
        for used in mappings(summary.get("pods"))
    }
    return [_pod(pod, told[uid]) for pod in pods if (uid := str(pod["metadata"]["uid"])) in told]


def _pod(pod: Object, told: Object) -> Object:
    containers = [
        {"name": container.get("name"), "usage": _usage(container)} for container in mappings(told.get("containers"))
    ]
    return {**_head(pod, told), "containers": containers}


def _head(subject: Object, told: Object) -> Object:
    kept = ("name", "namespace", "creationTimestamp", "labels")
    metadata = {name: subject["metadata"][name] for name in kept if name in subject["metadata"]}
    return {"metadata": metadata, "timestamp": mapping(told.get("cpu")).get("time"), "window": _WINDOW}


def _usage(told: Object) -> Object:
    cpu, memory = mapping(told.get("cpu")), mapping(told.get("memory"))
    return {
        "cpu": f"{int(cpu.get('usageNanoCores') or 0)}n",
        "memory": f"{int(memory.get('workingSetBytes') or 0) >> 10}Ki",
    }


async def _summaries(context: Context, nodes: Iterable[str]) -> dict[str, Object]:
    turns = asyncio.Semaphore(_AT_ONCE)

    async def ask(node: str) -> tuple[str, Object]:
        async with turns:
            return node, await _summary(context, node)

    return dict(await asyncio.gather(*map(ask, nodes)))


async def _summary(context: Context, node: str) -> Object:
    """Returns the stats summary of a node; empty if it cannot be read."""
    try:
        endpoint = endpoint_of(context, node)
        answer = await context.kubelets.request(endpoint, "/stats/summary", seconds=_SECONDS)
        said = await answer.read(_LONGEST)
        return mapping(msgspec.json.decode(said)) if answer.code == 200 else {}
    except status.ApiError:
        return {}
    except (Unreachable, msgspec.DecodeError) as error:
        _log.debug("usage of node %s is not known: %s", node, error)
        return {}
