"""A LocalCluster in a thread of its own, for code that is not asynchronous.

with ThreadedCluster(objects=[node, slice_], scheduler=Options(), controllers=CONTROLLERS) as cluster:
    cluster.apply(pod)
    cluster.wait_for("Pod", "p", lambda pod: pod["spec"].get("nodeName"))
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import yaml

from dray.api.objects import Object, conditions_of, is_true, key_of
from dray.api.pods import node_of
from dray.client.errors import NotFound
from dray.client.interface import WriteOptions
from dray.controllers import bare_nodes
from dray.fleet.choice import choose
from dray.fleet.simulation import Simulation
from dray.testing.api_endpoint import ApiEndpoint
from dray.testing.cluster import LocalCluster, in_place, kind_of
from dray.testing.local_node import LocalNode
from dray.testing.loop_thread import LoopThread

T = TypeVar("T")
Source = Object | str | Path
"""An object, YAML with one or several, or a file or directory with YAML."""

_PATIENCE = 30.0
_PAUSE = 0.02
_APPLY = WriteOptions("dray-testing", force=True)


class ThreadedCluster:
    """A LocalCluster in a thread; takes the same arguments, and `objects` may be any `Source`.

    `fleet` adds simulated machines, as `dray up --fleet` does: `p5.48xlarge=2`, or a file. Their pods run in
    simulation. With `node` this machine is a node too, whose pods run as processes.
    """

    def __init__(
        self, *, objects: Iterable[Source] = (), fleet: str | Path = "", node: bool = False, **options: Any
    ) -> None:
        self._options = {**options, "objects": [document for source in objects for document in documents(source)]}
        self._fleet = choose([str(fleet)]) if fleet else None
        self._thread = LoopThread("dray cluster")
        self._parts = AsyncExitStack()
        self._endpoint: ApiEndpoint | None = None
        self._with_node = node
        self._node: LocalNode | None = None
        self.local: LocalCluster
        """The LocalCluster in the thread; use it through `call`."""

    def __enter__(self) -> ThreadedCluster:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Starts the cluster; returns when everything runs."""
        self._thread.start(self._enter())
        if self._with_node:
            try:
                self._start_node()
            except BaseException:
                self.stop()
                raise

    def stop(self) -> None:
        if self._node is not None:
            self._stop_node(self._node)
        self._thread.stop(self._parts.aclose())

    def _start_node(self) -> None:
        self._node = node = LocalNode(self.kubeconfig)

        def is_ready(found: Object) -> bool:
            assert not node.problem(), f"the node agent has ended: {node.problem()}"
            return is_true(found, "Ready")

        self.wait_for("Node", node.name, is_ready)

    def _stop_node(self, node: LocalNode) -> None:
        here = [key_of(pod) for pod in self.list("Pod") if node_of(pod) == node.name]
        for namespace, name in here:
            with suppress(NotFound):
                self.delete("Pod", name, namespace=namespace, grace=1)
        for namespace, name in here:
            with suppress(AssertionError):
                self.wait_until_gone("Pod", name, namespace=namespace)
        node.stop()

    async def _enter(self) -> None:
        self.local = await self._parts.enter_async_context(LocalCluster(**self._options))
        if self._fleet is not None:
            simulation = Simulation(self.local.client, self._fleet, time=self.local.time)
            self.local.start(simulation.run())
            await simulation.ready.wait()

    @property
    def url(self) -> str:
        """Returns the address of the API server in plain HTTP on loopback; it is served from the first use on."""
        return self.call(self._served()).url

    @property
    def kubeconfig(self) -> Path:
        """Returns the path of a kubeconfig for programs in other processes, such as kubectl."""
        folder = self._parts.enter_context(tempfile.TemporaryDirectory(prefix="dray-"))
        return self.call(self._served()).write_kubeconfig(Path(folder) / "kubeconfig")

    async def _served(self) -> ApiEndpoint:
        if self._endpoint is None:
            self._endpoint = await self._parts.enter_async_context(ApiEndpoint(self.local.application))
        return self._endpoint

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine in the thread of the cluster, and returns its result."""
        return self._thread.call(work)

    def apply(self, *sources: Source) -> Sequence[Object]:
        """Creates or changes objects by server-side apply. Returns the stored objects."""
        return [self.call(self._apply(document)) for source in sources for document in documents(source)]

    def get(self, kind: str, name: str, *, namespace: str = "default") -> Object | None:
        """Returns the object; None if it does not exist."""
        return self.call(self.local.get(kind, name, namespace=namespace))

    def list(self, kind: str, *, namespace: str = "") -> Sequence[Object]:
        """Returns the objects of all namespaces, or of one."""
        return self.call(self.local.list(kind, namespace=namespace))

    def patch(self, kind: str, name: str, body: Object, *, namespace: str = "default", subresource: str = "") -> Object:
        """Applies a merge patch. Returns the stored object."""
        return self.call(self.local.patch(kind, name, body, namespace=namespace, subresource=subresource))

    def delete(self, kind: str, name: str, *, namespace: str = "default", grace: int | None = 0) -> None:
        self.call(self.local.delete(kind, name, namespace=namespace, grace=grace))

    def wait_for(
        self,
        kind: str,
        name: str,
        holds: Callable[[Object], Any] = bool,
        *,
        namespace: str = "default",
        within: float = _PATIENCE,
    ) -> Object:
        """Waits until the object exists and `holds` is true, and returns it; AssertionError shows its last state."""
        end = time.monotonic() + within
        while True:
            found = self.get(kind, name, namespace=namespace)
            if found is not None and holds(found):
                return found
            assert time.monotonic() < end, f"after {within:g} s {_state(kind, name, found)}"
            time.sleep(_PAUSE)

    def wait_until_gone(self, kind: str, name: str, *, namespace: str = "default", within: float = _PATIENCE) -> None:
        end = time.monotonic() + within
        while (found := self.get(kind, name, namespace=namespace)) is not None:
            assert time.monotonic() < end, f"after {within:g} s {_state(kind, name, found)}"
            time.sleep(_PAUSE)

    async def _apply(self, document: Object) -> Object:
        kind, client = kind_of(document["kind"], document["apiVersion"]), self.local.client
        placed = in_place(document, kind)
        if document["kind"] == "Node":
            await client.apply(kind, {**placed, "status": {}}, options=_APPLY)
            return await bare_nodes.set_node_status(client, kind, document, _APPLY)
        stored = await client.apply(kind, placed, options=_APPLY)
        if document.get("status") and "status" in kind.entry.subresources:
            return await client.apply(kind, placed, subresource="status", options=_APPLY)
        return stored


def documents(source: Source) -> list[Object]:
    if isinstance(source, dict):
        return [source]
    if isinstance(source, Path):
        paths = sorted(source.rglob("*.yaml")) if source.is_dir() else [source]
        return [document for path in paths for document in documents(path.read_text())]
    found = [document for document in yaml.safe_load_all(source) if document]
    return [item for each in found for item in (each["items"] if each.get("kind") == "List" else [each])]


def _state(kind: str, name: str, found: Object | None) -> str:
    """Describes an object for a failure, the reason first: test runners show only the first line in their summary."""
    if found is None:
        return f"there is no {kind} {name}"
    conditions = [condition for condition in conditions_of(found) if condition.get("message")]
    said = "; ".join(
        f"{condition['type']} is {condition['status']}: {condition['message']}" for condition in conditions
    )
    metadata = {key: value for key, value in found["metadata"].items() if key != "managedFields"}
    shown = yaml.safe_dump({**found, "metadata": metadata}, sort_keys=False)
    return f"{kind} {name} waits: {said or 'no condition says why'}\n{shown}"
