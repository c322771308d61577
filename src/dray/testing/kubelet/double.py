"""The kubelet double: registers drivers by their sockets and takes the claims of pods through them, as a kubelet does.

async with KubeletDouble(cluster.client, node="worker") as kubelet: process = kubelet.start_driver(["./my-driver"])
await kubelet.registered("gpu.example.com") started = await kubelet.start_pod("training") assert started.cdi_ids["main"]
== [...] await kubelet.end_pod("training")

The kubelet side is the one of the node agent (`dray.node`), with pauses that suit a test and faults on demand. No
container is run: a pod that starts gets its claims prepared, the CDI ids of its containers resolved as a runtime
resolves them, and its status written. Pods are those of any API server; their allocations come from its scheduler or
from the test.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, TypeVar

from dray.api.catalogue import built_in
from dray.api.gates import ALL_GATES, FeatureGates
from dray.api.objects import Key, Object, is_deleting, key_of, spec_of, uid_of
from dray.api.pods import containers_of, is_terminal, node_of
from dray.client.api import ApiClient
from dray.client.clock import TimeOfDay
from dray.client.errors import NotFound
from dray.client.events import EventRecorder
from dray.client.interface import DeleteOptions, Selection
from dray.client.retries import Backoff
from dray.driver import Driver, RunnerOptions
from dray.driver.runner import DriverRunner
from dray.node import cdi
from dray.node.dra_node import DraNode
from dray.node.errors import NodeError, PrepareError
from dray.node.plugin_registry import RegistrationState
from dray.node.timing import Timing
from dray.process.tasks import end_tasks
from dray.testing.kubelet.driver_process import DriverProcess
from dray.testing.kubelet.faults import Faults

QUICK: Final = Timing(
    registry_scan=0.05,
    registration=Backoff(first=0.1, longest=0.5, jitter=0.0),
    health_reconnect=0.1,
    health_check=0.1,
    reconcile=0.2,
    wipe_delay=1.0,
)
"""Pauses for tests; the timeouts of calls are the kubelet's."""

T = TypeVar("T")
_PROMPT: Final = {"repair_delay": 0.1, "socket_check": 0.1, "grace": 1.0}
"""Pauses of drivers that run in this process."""
_PATIENCE: Final = 10.0
_PAUSE: Final = 0.05
_PODS: Final = built_in("v1", "Pod")


@dataclass(frozen=True, slots=True)
class StartedPod:
    """A started pod: its claims are prepared, and the CDI ids of its containers are resolved."""

    pod: Object
    cdi_ids: Mapping[str, list[str]]
    """CDI ids by container, in the order in which the runtime gets them."""
    edits: Mapping[str, cdi.Edits]
    """The merged CDI edits of each container."""

    def env(self, container: str = "main") -> dict[str, str]:
        """Returns the variables that a container gets from its devices."""
        return dict(self.edits[container].environment)


class KubeletDouble:
    """A kubelet for tests; `root` is its directory, by default a temporary one. Its path must be short, for sockets."""

    def __init__(
        self,
        client: ApiClient,
        node: str,
        *,
        root: Path | None = None,
        kubeconfig: Path | None = None,
        gates: FeatureGates = ALL_GATES,
        timing: Timing = QUICK,
        time: TimeOfDay | None = None,
    ) -> None:
        self.client = client
        self.node_name = node
        self.root = root or Path(tempfile.mkdtemp(prefix="kubelet-"))
        self.cdi = self.root / "cdi"
        """The directory of CDI specs."""
        self.kubeconfig = kubeconfig
        """The kubeconfig for driver processes."""
        self.faults = Faults()
        self._temporary = root is None
        self._options: dict[str, Any] = {"gates": gates, "timing": timing, "time": time}
        self._active: dict[str, Object] | None = None
        """The pods of the node by uid; None before they are known."""
        self._started: dict[Key, str] = {}
        self._processes: list[DriverProcess] = []
        self.node: DraNode
        """The DRA part, which a node agent has too."""
        self._events = EventRecorder(client, "kubelet")
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def registry(self) -> Path:
        return self.root / "plugins_registry"

    async def __aenter__(self) -> KubeletDouble:
        for directory in (self.registry, self.root / "plugins", self.cdi):
            directory.mkdir(parents=True, exist_ok=True)
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.stop()
        for process in self._processes:
            process.close()
        if self._temporary:
            shutil.rmtree(self.root, ignore_errors=True)

    # Its own life

    async def start(self) -> None:
        """Starts the kubelet with the state of its checkpoint; raises CheckpointError if that cannot be read."""
        self._active = None
        self.node = DraNode(
            self.client,
            self.node_name,
            self.root,
            pods=lambda: None if self._active is None else self._active.values(),
            interceptors=[self.faults],
            **self._options,
        )
        await self.node.__aenter__()
        await self.find_pods()
        self._tasks = [
            asyncio.create_task(self._find_pods(), name="pods of the kubelet double"),
            asyncio.create_task(self._events.run(), name="events of the kubelet double"),
        ]

    async def stop(self) -> None:
        """Stops like a killed kubelet: calls no driver and writes nothing."""
        if self._tasks:
            await end_tasks(self._tasks)
            self._tasks = []
            await self.node.__aexit__(None, None, None)

    async def restart(self) -> None:
        await self.stop()
        await self.start()

    # Drivers

    def start_driver(
        self, command: Sequence[str | Path], environment: Mapping[str, str] | None = None, *, name: str = "driver"
    ) -> DriverProcess:
        """Starts a driver as a process with KUBECONFIG and NODE_NAME set; it ends with the kubelet."""
        given = {"NODE_NAME": self.node_name, **(environment or {})}
        if self.kubeconfig is not None:
            given.setdefault("KUBECONFIG", str(self.kubeconfig))
        process = DriverProcess(command, self.root / f"{name}-{len(self._processes)}.log", given)
        self._processes.append(process)
        return process.start()

    @asynccontextmanager
    async def running(self, driver: Driver, **options: Any) -> AsyncIterator[DriverRunner]:
        """Runs a driver of the SDK in this process for as long as the block lasts; `options` are of RunnerOptions."""
        given = {
            "node_name": self.node_name,
            "kubelet_root": self.root,
            "cdi_directory": self.cdi,
            **_PROMPT,
            **options,
        }
        async with DriverRunner(driver, self.client, RunnerOptions(**given)) as runner:
            yield runner

    async def registered(self, driver: str, *, instances: int = 1, within: float = _PATIENCE) -> None:
        """Returns when this many instances of the driver are registered and one of them is connected."""

        async def holds() -> bool:
            return len(self.node.plugins.endpoints(driver)) == instances and self.node.plugins.is_connected(driver)

        await self.eventually(holds, f"{instances} connected instance(s) of {driver}", within)

    async def deregistered(self, driver: str, *, within: float = _PATIENCE) -> None:
        async def holds() -> bool:
            return not self.node.plugins.endpoints(driver)

        await self.eventually(holds, f"no instance of {driver}", within)

    @property
    def registrations(self) -> list[RegistrationState]:
        """Returns the result of each registration socket."""
        return self.node.registry.states

    # Pods

    async def start_pod(self, name: str, *, namespace: str = "default", within: float = _PATIENCE) -> StartedPod:
        """Retries until the pod is started, as a kubelet does, but sooner; raises the last error."""
        return await self._retried(lambda: self.try_pod(name, namespace=namespace), within)

    async def try_pod(self, name: str, *, namespace: str = "default") -> StartedPod:
        """Tries once to start a pod that is bound to this node; raises PrepareError or CdiError."""
        pod = await self.client.get(_PODS, name, namespace=namespace)
        assert node_of(pod) == self.node_name, f"pod {name} is bound to {node_of(pod)!r}, not to {self.node_name}"
        self._started[namespace, name] = uid_of(pod)
        self._pods[uid_of(pod)] = pod
        try:
            await self.node.manager.prepare(pod)
        except PrepareError as error:
            self._events.warning(pod, "FailedPrepareDynamicResources", f"Failed to prepare dynamic resources: {error}")
            await self._events.written()
            raise
        ids = {container["name"]: self.node.cdi_ids(pod, container) for container in containers_of(spec_of(pod))}
        started = StartedPod(pod, ids, {name: cdi.resolve(each, [self.cdi]) for name, each in ids.items()})
        await self.report_pod(name, namespace=namespace)
        return started

    async def report_pod(self, name: str, *, namespace: str = "default") -> Object:
        """Writes the status of a running pod, with the present health of its devices."""
        pod = await self.client.get(_PODS, name, namespace=namespace)
        health = self.node.allocated_resources(pod)
        statuses = [
            {
                "name": container["name"],
                "image": container.get("image") or "",
                "imageID": "",
                "ready": True,
                "restartCount": 0,
                **({"allocatedResourcesStatus": health[container["name"]]} if container["name"] in health else {}),
            }
            for container in spec_of(pod).get("containers") or ()
        ]
        return await self._write_status(pod, {"phase": "Running", "containerStatuses": statuses})

    async def end_pod(
        self, name: str, *, namespace: str = "default", phase: str = "Succeeded", within: float = _PATIENCE
    ) -> None:
        """Retries until the claims are unprepared; then the pod has ended, or is gone if it was being deleted.

        Raises the last UnprepareError.
        """
        await self._retried(lambda: self.try_end(name, namespace=namespace, phase=phase), within)

    async def try_end(self, name: str, *, namespace: str = "default", phase: str = "Succeeded") -> None:
        """Tries once to end a pod, even one that is gone from the API server; raises UnprepareError."""
        uid = self._started.get((namespace, name), "")
        assert uid, f"pod {namespace}/{name} was never tried on node {self.node_name}"
        await self.node.manager.unprepare(uid)
        try:
            pod = await self.client.get(_PODS, name, namespace=namespace)
            if uid_of(pod) != uid:
                return
            await self._write_status(pod, {"phase": phase})
            if is_deleting(pod):
                await self.client.delete(
                    _PODS, name, namespace=namespace, options=DeleteOptions(uid=uid, grace_period=0)
                )
        except NotFound:
            pass

    @property
    def prepared_claims(self) -> dict[str, set[str]]:
        """Returns the uids of the pods that use each prepared claim, by the claim's name."""
        return {info.reference.name: set(info.pods) for info in self.node.manager.cache}

    async def find_pods(self) -> None:
        """Reads the pods of the node from the API server."""
        before = set(self._active or ())
        listed = await self.client.list_all(_PODS, selection=Selection(fields=f"spec.nodeName={self.node_name}"))
        # A pod that was started meanwhile may be missing in the answer.
        started = {uid: each for uid, each in (self._active or {}).items() if uid not in before}
        self._active = started | {uid_of(pod): pod for pod in listed["items"] if not is_terminal(pod)}

    async def eventually(self, holds: Callable[[], Awaitable[Any]], what: str = "it", within: float = _PATIENCE) -> Any:
        """Waits until `holds` returns a true value, and returns it; fails with the state of the drivers."""
        end = asyncio.get_running_loop().time() + within
        while not (found := await holds()):
            if asyncio.get_running_loop().time() >= end:
                raise AssertionError(f"still not after {within:g} s: {what}\n{self._state()}")
            await asyncio.sleep(_PAUSE)
        return found

    @property
    def _pods(self) -> dict[str, Object]:
        assert self._active is not None, "the kubelet double does not run"
        return self._active

    async def _find_pods(self) -> None:
        while True:
            await asyncio.sleep(self._options["timing"].reconcile / 2)
            await self.find_pods()

    async def _write_status(self, pod: Object, status: Object) -> Object:
        namespace, name = key_of(pod)
        return await self.client.patch(_PODS, name, {"status": status}, namespace=namespace, subresource="status")

    async def _retried(self, attempt: Callable[[], Awaitable[T]], within: float) -> T:
        end = asyncio.get_running_loop().time() + within
        while True:
            try:
                return await attempt()
            except (NodeError, cdi.CdiError):
                if asyncio.get_running_loop().time() >= end:
                    raise
                await asyncio.sleep(_PAUSE)

    def _state(self) -> str:
        lines = [
            f"{state.path.name}: {'registered as ' + state.driver if state.registered else state.error or 'under way'}"
            for state in self.registrations
        ]
        lines += [f"{process}:\n{process.output()}" for process in self._processes]
        return "\n".join(lines) or "no registration socket is there"
