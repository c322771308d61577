"""A small control plane in this process: API server, and the controllers and the scheduler that are asked for.

    async with LocalCluster(scheduler=Options(), controllers=CONTROLLERS, objects=[node, slice_]) as cluster:
        await cluster.create(pod)
        await cluster.eventually(bound)

For tests that are not asynchronous there is `threaded`, and the pytest fixture `dray_cluster`.
"""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextlib import suppress
from dataclasses import replace
from types import TracebackType
from typing import Any

from dray.api.catalogue import KINDS, KindVersion, find
from dray.api.gates import ALL_GATES, FeatureGates
from dray.api.objects import Object
from dray.client.api import ApiClient
from dray.client.clock import SystemTime, TimeOfDay
from dray.client.errors import ApiError, NotFound
from dray.client.interface import DeleteOptions, WriteOptions
from dray.control_plane.control_plane import ControlPlane, PlaneOptions
from dray.controllers import bare_nodes
from dray.scheduling.scheduler import Options
from dray.server.api_server import ApiServer
from dray.server.application import Application
from dray.server.authorization import User
from dray.server.context import Context
from dray.server.inprocess import InProcessTransport
from dray.store.interface import Store
from dray.store.memory import MemoryStore

_PATIENCE = 30.0
_ACCOUNTING = frozenset({"serviceaccount", "root-ca-cert-publisher"})
_VOUCHING = WriteOptions("dray-testing", force=True)


_VERSIONS = (
    "v1",
    "resource.k8s.io/v1",
    "resource.k8s.io/v1beta2",
    "resource.k8s.io/v1alpha3",
    "scheduling.k8s.io/v1",
    "scheduling.k8s.io/v1beta1",
    "scheduling.k8s.io/v1alpha3",
    "apps/v1",
    "batch/v1",
    "policy/v1",
    "coordination.k8s.io/v1",
    "apiextensions.k8s.io/v1",
    "discovery.k8s.io/v1",
    "storagemigration.k8s.io/v1",
    "networking.k8s.io/v1",
    "node.k8s.io/v1",
    "storage.k8s.io/v1",
)


def kind_of(name: str, api_version: str = "") -> KindVersion:
    """Returns a kind by its name, in the stored version unless another is named."""
    for version in (api_version,) if api_version else _VERSIONS:
        found = find(version, name)
        if found is not None:
            return found
    known = sorted({entry.name for entry in KINDS})
    similar = difflib.get_close_matches(name, known, n=1)
    hint = f"; did you mean {similar[0]}?" if similar else ""
    raise LookupError(f"no kind {name!r}{f' in {api_version}' if api_version else ''} is served{hint}")


def in_place(document: Object, kind: KindVersion) -> Object:
    """Returns the document with the namespace `default`, unless it has a namespace or the kind has none."""
    metadata = document["metadata"]
    if not kind.namespaced or metadata.get("namespace"):
        return document
    return {**document, "metadata": {**metadata, "namespace": "default"}}


class LocalCluster:
    """A cluster in this process; `client` is the administrator's. Everything ends with the block.

    `objects` exist before anything runs; nodes among them get a status as `bare_nodes` gives it. The gates are those of
    server, controllers and scheduler.
    """

    def __init__(
        self,
        *,
        controllers: Iterable[str] = (),
        scheduler: Options | None = None,
        objects: Iterable[Object] = (),
        gates: FeatureGates = ALL_GATES,
        store: Store | None = None,
        time: TimeOfDay | None = None,
    ) -> None:
        controllers = tuple(controllers)
        # Without the controllers that make accounts, pods could be created in few namespaces.
        disabled = frozenset(() if set(controllers) >= _ACCOUNTING else ("ServiceAccount",))
        self.server = ApiServer(Context(store or MemoryStore(), gates, disabled_plugins=disabled))
        self.application = Application(self.server)
        self.client = ApiClient(InProcessTransport(self.application))
        self.time = time or SystemTime()
        options = replace(scheduler, gates=gates) if scheduler is not None else None
        self.plane = ControlPlane(self.client, PlaneOptions(options, controllers, gates=gates), time=self.time)
        self.environment = self.plane.environment
        self._objects = tuple(objects)
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> LocalCluster:
        try:
            await self._enter()
        except BaseException as error:
            # Parts that were started before the failure end too.
            await self.__aexit__(type(error), error, None)
            raise
        return self

    async def _enter(self) -> None:
        await self.server.start()
        for namespace in ("default", "kube-system", "kube-node-lease"):
            with suppress(ApiError):
                await self.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
        for document in self._objects:
            if document["kind"] == "Node":
                await self.create({**document, "status": {}})
                await bare_nodes.set_node_status(self.client, kind_of("Node"), document, _VOUCHING)
            else:
                await self.create(document)
        running = self.start(self.plane.run())
        ready = asyncio.ensure_future(self.plane.ready.wait())
        await asyncio.wait((running, ready), return_when=asyncio.FIRST_COMPLETED)
        if not ready.done():
            ready.cancel()
            running.result()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for task in self._tasks:
            task.cancel()
        results = await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.client.close()
        await self.server.close()
        failures = [result for result in results if isinstance(result, Exception)]
        if failures and error is None:
            raise failures[0]

    def client_of(self, user: User) -> ApiClient:
        """Returns a client with the permissions of the user."""
        return ApiClient(InProcessTransport(self.application, user))

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.append(task)
        return task

    async def create(self, document: Object) -> Object:
        """Creates an object, including its status, by default in the namespace `default`."""
        kind = kind_of(document["kind"], document["apiVersion"])
        made = await self.client.create(kind, in_place(document, kind))
        if "status" in document and made.get("status") != document["status"]:
            made = await self.client.update_status(kind, {**made, "status": document["status"]})
        return made

    async def apply(self, *documents: Object) -> None:
        for document in documents:
            await self.create(document)

    async def get(self, kind: str, name: str, *, namespace: str = "default") -> Object | None:
        """Returns the object; None if it does not exist."""
        resource = kind_of(kind)
        try:
            return await self.client.get(resource, name, namespace=namespace if resource.namespaced else "")
        except NotFound:
            return None

    async def list(self, kind: str, *, namespace: str = "") -> list[Object]:
        listed = await self.client.list_all(kind_of(kind), namespace=namespace)
        return list(listed["items"])

    async def patch(
        self, kind: str, name: str, body: Object, *, namespace: str = "default", subresource: str = ""
    ) -> Object:
        resource = kind_of(kind)
        place = namespace if resource.namespaced else ""
        return await self.client.patch(resource, name, body, namespace=place, subresource=subresource)

    async def delete(self, kind: str, name: str, *, namespace: str = "default", grace: int | None = 0) -> None:
        resource = kind_of(kind)
        place = namespace if resource.namespaced else ""
        await self.client.delete(resource, name, namespace=place, options=DeleteOptions(grace_period=grace))

    def sample(self, name: str, labels: dict[str, str] | None = None) -> float | None:
        """Returns the value of a metric of the control plane; None if it has no such sample."""
        found = (registry.get_sample_value(name, labels or {}) for registry in self.plane.metrics())
        return next((value for value in found if value is not None), None)

    async def eventually(self, holds: Callable[[], Awaitable[Any]], *, within: float = _PATIENCE) -> Any:
        """Waits until `holds` returns a true value, and returns it; fails with the last value."""
        end = asyncio.get_running_loop().time() + within
        while not (found := await holds()):
            assert asyncio.get_running_loop().time() < end, f"still {found!r} after {within:g} s"
            await asyncio.sleep(0.01)
        return found
