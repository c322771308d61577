"""The pod resources service: tells monitoring agents of this machine which devices the containers of each pod hold.

Served on a unix socket in the versions `v1` and, for old clients, `v1alpha1`. Only the devices of DRA drivers are
known here, so the older version, which has fields for device plugins alone, lists pods and containers without any.
Plain init containers are left out. Questions beyond the rate limit are refused rather than queued.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final, TypeAlias

import grpc

from dray._proto import kubelet_pb2 as messages
from dray._proto.services import POD_RESOURCES_V1, POD_RESOURCES_V1ALPHA1
from dray.api.objects import Object, key_of, mappings, spec_of
from dray.node.claim_cache import ClaimCache
from dray.node.container_devices import container_claims

SOCKET: Final = Path("pod-resources/kubelet.sock")
"""Path of the socket below the kubelet's root directory."""
_RATE: Final = 100.0
_BURST: Final = 10

_Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
Pods = Callable[[], Iterable[Object]]
"""Returns the active pods of the node."""


class PodResourcesServer:
    def __init__(self, path: Path, pods: Pods, cache: ClaimCache) -> None:
        self._path = path
        self._pods = pods
        self._cache = cache
        self._server: grpc.aio.Server | None = None

    async def start(self) -> None:
        self._path.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
        self._path.unlink(missing_ok=True)
        self._server = grpc.aio.server(interceptors=[_RateLimit()])
        POD_RESOURCES_V1.serve(_Lister(self._pods, self._cache), self._server)
        POD_RESOURCES_V1ALPHA1.serve(_OldLister(self._pods), self._server)
        self._server.add_insecure_port(f"unix:{self._path}")
        await self._server.start()

    async def stop(self) -> None:
        if self._server is not None:
            await self._server.stop(grace=0)
            self._server = None
        self._path.unlink(missing_ok=True)


class _Lister:
    def __init__(self, pods: Pods, cache: ClaimCache) -> None:
        self._pods = pods
        self._cache = cache

    async def List(
        self, request: messages.ListPodResourcesRequest, context: _Context
    ) -> messages.ListPodResourcesResponse:
        return messages.ListPodResourcesResponse(pod_resources=[self._pod(pod) for pod in self._pods()])

    async def Get(
        self, request: messages.GetPodResourcesRequest, context: _Context
    ) -> messages.GetPodResourcesResponse:
        wanted = request.pod_namespace, request.pod_name
        for pod in self._pods():
            if key_of(pod) == wanted:
                return messages.GetPodResourcesResponse(pod_resources=self._pod(pod))
        return await context.abort(grpc.StatusCode.NOT_FOUND, f"pod {wanted[1]} in namespace {wanted[0]} not found")

    async def GetAllocatableResources(
        self, request: messages.AllocatableResourcesRequest, context: _Context
    ) -> messages.AllocatableResourcesResponse:
        # Devices of DRA drivers are in ResourceSlices and never here.
        return messages.AllocatableResourcesResponse()

    def _pod(self, pod: Object) -> messages.PodResources:
        namespace, name = key_of(pod)
        containers = [
            messages.ContainerResources(name=container["name"], dynamic_resources=self._claims(pod, container))
            for container in _listed_containers(pod)
        ]
        return messages.PodResources(name=name, namespace=namespace, containers=containers)

    def _claims(self, pod: Object, container: Object) -> Iterator[messages.DynamicResource]:
        namespace = key_of(pod)[0]
        for use in container_claims(pod, container):
            info = self._cache.get(namespace, use.claim)
            if info is None:
                continue
            resources = [
                messages.ClaimResource(
                    cdi_devices=[messages.CDIDevice(name=cdi_id) for cdi_id in device.cdi_ids],
                    driver_name=driver,
                    pool_name=device.pool,
                    device_name=device.device,
                    share_id=device.share_id,
                )
                for driver, device in use.devices(info)
            ]
            yield messages.DynamicResource(claim_name=use.claim, claim_namespace=namespace, claim_resources=resources)


class _OldLister:
    def __init__(self, pods: Pods) -> None:
        self._pods = pods

    async def List(
        self, request: messages.ListPodResourcesRequest, context: _Context
    ) -> messages.ListPodResourcesResponse:
        return messages.ListPodResourcesResponse(
            pod_resources=[
                messages.PodResources(
                    namespace=key_of(pod)[0],
                    name=key_of(pod)[1],
                    containers=[
                        messages.ContainerResources(name=container["name"]) for container in _listed_containers(pod)
                    ],
                )
                for pod in self._pods()
            ]
        )


def _listed_containers(pod: Object) -> list[Object]:
    """Returns sidecars and containers; plain init containers are left out."""
    spec = spec_of(pod)
    sidecars = [
        container for container in mappings(spec.get("initContainers")) if container.get("restartPolicy") == "Always"
    ]
    return [*sidecars, *mappings(spec.get("containers"))]


class _RateLimit(grpc.aio.ServerInterceptor):
    """Limits the rate of calls with one token bucket for all methods."""

    def __init__(self) -> None:
        self._tokens, self._filled = float(_BURST), 0.0

    async def intercept_service(
        self, continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]], details: grpc.HandlerCallDetails
    ) -> Any:
        return await continuation(details) if self._admit() else grpc.unary_unary_rpc_method_handler(_refuse)

    def _admit(self) -> bool:
        now = asyncio.get_running_loop().time()
        self._tokens = min(float(_BURST), self._tokens + (now - self._filled) * _RATE)
        self._filled = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True


async def _refuse(request: Any, context: _Context) -> Any:
    await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "rejected by rate limit")
