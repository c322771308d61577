"""Pods and containers that a request to the node names; what is not there is refused in the kubelet's words."""

from __future__ import annotations

from typing import Final

from aiohttp import web

from dray.node.agent import NodeAgent
from dray.node.container_records import ContainerRecord
from dray.node.host_parts import HostPod
from dray.node.pod_worker import PodWorker

AGENT: Final = web.AppKey("agent", NodeAgent)


def pod_of(request: web.Request) -> PodWorker:
    namespace, name = request.match_info["namespace"], request.match_info["pod"]
    worker = request.app[AGENT].worker(namespace, name)
    if worker is None and request.app[AGENT].host_pod(namespace, name) is not None:
        raise web.HTTPBadRequest(text=f'pod "{name}" is a process beside the node agent: it has a log and no container')
    if worker is None:
        raise web.HTTPNotFound(text=f'pod "{name}" does not exist on node {request.app[AGENT].options.node}')
    return worker


def logged_container_of(request: web.Request) -> tuple[PodWorker | HostPod, ContainerRecord]:
    """Returns the pod and the record of the container, which may be a host part that the agent did not start."""
    namespace, pod = request.match_info["namespace"], request.match_info["pod"]
    found, name = request.app[AGENT].host_pod(namespace, pod) or pod_of(request), request.match_info["container"]
    record = found.records.find(name)
    if record is None:
        raise web.HTTPNotFound(text=f'container "{name}" not found in pod "{pod}"')
    return found, record


def running_container_of(request: web.Request) -> tuple[PodWorker, ContainerRecord, str]:
    """Returns the pod, the record and the run's id of a container that runs. Raises 404 if it does not run."""
    worker, name = pod_of(request), request.match_info["container"]
    record = worker.records.find(name)
    if record is None or record.state is None or not record.running:
        raise web.HTTPNotFound(text=f'container not found ("{name}")')
    return worker, record, record.state.id
