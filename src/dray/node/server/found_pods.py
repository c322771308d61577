"""Pods and containers that a request to the node names; what is not there is refused in the kubelet's words."""

from __future__ import annotations

from typing import Final

from aiohttp import web

from dray.node.agent import NodeAgent
from dray.node.container_records import ContainerRecord
from dray.node.pod_worker import PodWorker

AGENT: Final = web.AppKey("agent", NodeAgent)


def pod_of(request: web.Request) -> PodWorker:
    namespace, name = request.match_info["namespace"], request.match_info["pod"]
    worker = request.app[AGENT].worker(namespace, name)
    if worker is None:
        raise web.HTTPNotFound(text=f'pod "{name}" does not exist on node {request.app[AGENT].options.node}')
    return worker


def container_of(request: web.Request) -> tuple[PodWorker, ContainerRecord]:
    worker, name = pod_of(request), request.match_info["container"]
    record = worker.records.find(name)
    if record is None:
        raise web.HTTPNotFound(text=f'container "{name}" not found in pod "{request.match_info["pod"]}"')
    return worker, record


def running_container_of(request: web.Request) -> tuple[PodWorker, ContainerRecord, str]:
    """Also the id of its run."""
    worker, name = pod_of(request), request.match_info["container"]
    record = worker.records.find(name)
    if record is None or record.state is None or not record.running:
        raise web.HTTPNotFound(text=f'container not found ("{name}")')
    return worker, record, record.state.id
