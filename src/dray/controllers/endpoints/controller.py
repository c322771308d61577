"""The controllers `endpoints` and `endpointslice`: what Services select is written as it changes.

Both wait a moment for more pods to change, and write once. A Service without a selector is left to whoever made it.
"""

from __future__ import annotations

from abc import abstractmethod
from functools import partial
from typing import Final

from dray.api.catalogue import built_in
from dray.api.cluster_kinds import DISCOVERY_GROUP
from dray.api.objects import Key, Object, is_deleting, key_of, labels_of, owners_of, status_of
from dray.api.pods import is_ready, is_terminal
from dray.client.api import ApiClient
from dray.client.cache import Change
from dray.client.errors import NotFound
from dray.controllers.endpoints import slices, subsets
from dray.controllers.endpoints.backends import SERVICE_LABEL, Backend, backends, selector_of, selects
from dray.controllers.environment import Environment, QueueController, named
from dray.controllers.kinds import NODES, PODS

SERVICES: Final = built_in("v1", "Service")
ENDPOINTS: Final = built_in("v1", "Endpoints")
ENDPOINT_SLICES: Final = built_in(f"{DISCOVERY_GROUP}/v1", "EndpointSlice")
_ZONE: Final = "topology.kubernetes.io/zone"
_GATHER: Final = 0.05


class _ServiceFollower(QueueController[Key]):
    """Queues Services when they or the pods that they select change. Keys are namespace and name of Services."""

    def __init__(self, environment: Environment, name: str) -> None:
        super().__init__(environment)
        self._workers = environment.workers(name, self.reconcile, called=named("Service"), count=4)
        self._services = environment.informers.of(SERVICES)
        self._pods = environment.informers.of(PODS)
        self._selectors: dict[str, dict[str, dict[str, str]]] = {}
        """Selectors by namespace and name of the Service."""
        self._services.add_handler(self._service_changed)
        self._pods.add_handler(self._pod_changed)

    def _service_changed(self, change: Change) -> None:
        namespace, name = change.key
        selector = {} if change.type == "DELETED" else selector_of(change.object)
        if selector:
            self._selectors.setdefault(namespace, {})[name] = selector
        elif name in (known := self._selectors.get(namespace, {})):
            del known[name]
            if not known:
                del self._selectors[namespace]
        self._workers.queue.add(change.key)

    def _pod_changed(self, change: Change) -> None:
        selectors = self._selectors.get(change.key[0])
        if not selectors:
            return
        before, pod = change.previous, change.object
        if before is not None and change.type == "MODIFIED" and not _matters(before, pod):
            return
        for name, selector in selectors.items():
            chosen = selects(selector)
            if chosen(pod) or (before is not None and chosen(before)):
                self._workers.queue.add_after((change.key[0], name), _GATHER)

    @abstractmethod
    async def reconcile(self, key: Key) -> float | None: ...

    def _backends(self, service: Object) -> list[Backend]:
        chosen = selects(selector_of(service))
        return list(backends(service, filter(chosen, self._pods.cache.in_namespace(key_of(service)[0]))))


def _matters(before: Object, pod: Object) -> bool:
    return _state(before) != _state(pod)


def _state(pod: Object) -> tuple[object, ...]:
    return labels_of(pod), status_of(pod).get("podIP"), is_ready(pod), is_deleting(pod), is_terminal(pod)


class EndpointsController(_ServiceFollower):
    def __init__(self, environment: Environment) -> None:
        super().__init__(environment, "endpoints")
        self._endpoints = environment.informers.of(ENDPOINTS)
        self._endpoints.add_handler(self._endpoints_changed)

    def _endpoints_changed(self, change: Change) -> None:
        """Queues Endpoints that this controller manages: they were changed by others, or their Service is gone."""
        if labels_of(change.object).get(subsets.MANAGED_BY) == subsets.MANAGER:
            self._workers.queue.add(change.key)

    async def reconcile(self, key: Key) -> float | None:
        service = self._services.cache.get(key[1], namespace=key[0])
        existing = self._endpoints.cache.get(key[1], namespace=key[0])
        if service is None:
            if existing is not None and labels_of(existing).get(subsets.MANAGED_BY) == subsets.MANAGER:
                await self._client.delete(ENDPOINTS, key[1], namespace=key[0])
            return None
        if not selector_of(service) or is_deleting(service):
            return None
        wanted = subsets.desired(service, self._backends(service), existing)
        if existing is None:
            await self._client.create(ENDPOINTS, wanted)
        elif subsets.differs(wanted, existing):
            await self._client.update(ENDPOINTS, wanted)
        return None


class EndpointSliceController(_ServiceFollower):
    def __init__(self, environment: Environment) -> None:
        super().__init__(environment, "endpoint slices")
        self._slices = environment.informers.of(ENDPOINT_SLICES)
        self._nodes = environment.informers.of(NODES)
        self._slices.cache.add_index("service", partial(service_of, manager=slices.MANAGER))
        self._slices.add_handler(self._slice_changed)

    def _slice_changed(self, change: Change) -> None:
        for value in service_of(change.object, slices.MANAGER):
            self._workers.queue.add((change.key[0], value.partition("/")[2]))

    async def reconcile(self, key: Key) -> float | None:
        service = self._services.cache.get(key[1], namespace=key[0])
        if service is None or not selector_of(service) or is_deleting(service):
            return None
        uid = service["metadata"]["uid"]
        existing = [
            slice_
            for slice_ in self._slices.cache.by("service", f"{key[0]}/{key[1]}")
            # Those of a Service of the same name that is gone go with it.
            if all(owner.get("uid") == uid for owner in owners_of(slice_)) and not is_deleting(slice_)
        ]
        zones = {node["metadata"]["name"]: zone for node in self._nodes.cache if (zone := labels_of(node).get(_ZONE))}
        found = slices.plan(service, self._backends(service), existing, zones)
        await write(self._client, found)
        return None


async def write(client: ApiClient, plan: slices.Plan) -> None:
    for slice_ in plan.create:
        await client.create(ENDPOINT_SLICES, slice_)
    for slice_ in plan.update:
        await client.update(ENDPOINT_SLICES, slice_)
    for slice_ in plan.delete:
        try:
            await client.delete_object(ENDPOINT_SLICES, slice_)
        except NotFound:
            continue


def service_of(endpoint_slice: Object, manager: str) -> tuple[str, ...]:
    """Namespace and name of the Service that a slice of this manager is for, as the values of an index."""
    labels = labels_of(endpoint_slice)
    if labels.get(slices.MANAGED_BY) != manager or not labels.get(SERVICE_LABEL):
        return ()
    return (f"{key_of(endpoint_slice)[0]}/{labels[SERVICE_LABEL]}",)
