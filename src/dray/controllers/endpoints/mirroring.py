"""The controller `endpointslicemirroring`: Endpoints of Services without a selector are mirrored as EndpointSlices."""

from __future__ import annotations

from functools import partial

from dray.api.objects import Key, is_deleting, spec_of
from dray.client.cache import Change
from dray.controllers.endpoints import mirrored, slices
from dray.controllers.endpoints.controller import ENDPOINT_SLICES, ENDPOINTS, SERVICES, service_of, write
from dray.controllers.environment import Environment, QueueController, named


class EndpointSliceMirroring(QueueController[Key]):
    """Mirrors Endpoints into EndpointSlices. Keys are namespace and name of the Endpoints and the Service."""

    def __init__(self, environment: Environment) -> None:
        super().__init__(environment)
        self._workers = environment.workers(
            "endpoint slice mirrors", self.reconcile, called=named("Endpoints"), count=4
        )
        self._services = environment.informers.of(SERVICES)
        self._endpoints = environment.informers.of(ENDPOINTS)
        self._slices = environment.informers.of(ENDPOINT_SLICES)
        self._slices.cache.add_index("mirrored", partial(service_of, manager=mirrored.MANAGER))
        self._services.add_handler(self._changed)
        self._endpoints.add_handler(self._changed)
        self._slices.add_handler(self._slice_changed)

    def _changed(self, change: Change) -> None:
        self._workers.queue.add(change.key)

    def _slice_changed(self, change: Change) -> None:
        for value in service_of(change.object, mirrored.MANAGER):
            self._workers.queue.add((change.key[0], value.partition("/")[2]))

    async def reconcile(self, key: Key) -> float | None:
        existing = [
            slice_ for slice_ in self._slices.cache.by("mirrored", f"{key[0]}/{key[1]}") if not is_deleting(slice_)
        ]
        endpoints = self._endpoints.cache.get(key[1], namespace=key[0])
        if endpoints is not None and self._is_mirrored(key) and mirrored.is_mirrored(endpoints):
            await write(self._client, mirrored.plan(endpoints, existing))
        else:
            await write(self._client, slices.Plan(delete=existing))
        return None

    def _is_mirrored(self, key: Key) -> bool:
        """Returns False for a Service with a selector, even an empty one: its slices are made from pods."""
        service = self._services.cache.get(key[1], namespace=key[0])
        return service is not None and spec_of(service).get("selector") is None
