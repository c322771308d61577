"""A KubeletDouble for code that is not asynchronous: every call waits until it is done.

With a ThreadedCluster it runs in the thread of the cluster, and driver processes reach the cluster over HTTP on the
loopback interface. With a kubeconfig it has a thread of its own and works on whatever API server the file names.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from dray.client.api import ApiClient
from dray.client.http import HttpTransport
from dray.client.kubeconfig import Kubeconfig
from dray.driver import Driver
from dray.testing.api_endpoint import ApiEndpoint
from dray.testing.kubelet.double import KubeletDouble, StartedPod
from dray.testing.kubelet.driver_process import DriverProcess
from dray.testing.kubelet.faults import Faults
from dray.testing.loop_thread import LoopThread
from dray.testing.threaded import ThreadedCluster

T = TypeVar("T")
_PATIENCE = 10.0


class ThreadedKubelet:
    """A kubelet for tests on a cluster or a kubeconfig; takes the node's name and the options of KubeletDouble."""

    def __init__(
        self, cluster: ThreadedCluster | None = None, *, node: str, kubeconfig: Path | None = None, **options: Any
    ) -> None:
        if (cluster is None) == (kubeconfig is None):
            raise ValueError("a kubelet double needs either a cluster or a kubeconfig")
        self._cluster = cluster
        self._kubeconfig = kubeconfig
        self._node = node
        self._options = options
        self._thread = LoopThread("dray kubelet") if cluster is None else None
        self._stack = AsyncExitStack()
        self.double: KubeletDouble
        """The KubeletDouble in the thread; use it through `call`."""

    def __enter__(self) -> ThreadedKubelet:
        if self._thread is not None:
            self._thread.start(self._enter())
        else:
            self.call(self._enter())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._thread is not None:
            self._thread.stop(self._stack.aclose())
        else:
            self.call(self._stack.aclose())

    async def _enter(self) -> None:
        if self._cluster is not None:
            client, kubeconfig = self._cluster.local.client, None
            endpoint = await self._stack.enter_async_context(ApiEndpoint(self._cluster.local.application))
        else:
            assert self._kubeconfig is not None
            kubeconfig = self._kubeconfig
            transport = HttpTransport(Kubeconfig.load([kubeconfig]).endpoint())
            client = await self._stack.enter_async_context(ApiClient(transport))
        double = KubeletDouble(client, self._node, kubeconfig=kubeconfig, **self._options)
        if self._cluster is not None:
            double.kubeconfig = endpoint.write_kubeconfig(double.root / "kubeconfig")
        self.double = await self._stack.enter_async_context(double)

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine in the thread of the kubelet, and returns its result."""
        if self._thread is not None:
            return self._thread.call(work)
        assert self._cluster is not None
        return self._cluster.call(work)

    @property
    def root(self) -> Path:
        """Returns the kubelet's directory."""
        return self.double.root

    @property
    def cdi(self) -> Path:
        """Returns the directory of CDI specs."""
        return self.double.cdi

    @property
    def kubeconfig(self) -> Path:
        assert self.double.kubeconfig is not None
        return self.double.kubeconfig

    @property
    def faults(self) -> Faults:
        return self.double.faults

    @property
    def prepared_claims(self) -> dict[str, set[str]]:
        """Returns the uids of the pods that use each prepared claim, by the claim's name."""
        return self.double.prepared_claims

    def start_driver(
        self, command: Sequence[str | Path], environment: Mapping[str, str] | None = None
    ) -> DriverProcess:
        """Starts a driver as a process with KUBECONFIG and NODE_NAME set; it ends with the kubelet."""
        return self.double.start_driver(command, environment)

    def run_driver(self, driver: Driver, **options: Any) -> None:
        """Runs a `dray.driver.Driver` in this process and waits for its registration; it ends with the kubelet."""
        self.call(self._run_driver(driver, options))

    async def _run_driver(self, driver: Driver, options: Mapping[str, Any]) -> None:
        await self._stack.enter_async_context(self.double.running(driver, **options))
        await self.double.registered(driver.name)

    def wait_for_driver(self, name: str, *, instances: int = 1, within: float = _PATIENCE) -> None:
        """Returns when this many instances of the driver are registered and one of them is connected."""
        self.call(self.double.registered(name, instances=instances, within=within))

    def wait_until_deregistered(self, name: str, *, within: float = _PATIENCE) -> None:
        self.call(self.double.deregistered(name, within=within))

    def start_pod(self, name: str, *, namespace: str = "default", within: float = _PATIENCE) -> StartedPod:
        """Retries until the pod is started, as a kubelet does, but sooner; raises the last error."""
        return self.call(self.double.start_pod(name, namespace=namespace, within=within))

    def try_pod(self, name: str, *, namespace: str = "default") -> StartedPod:
        """Tries once to start a pod that is bound to this node; raises PrepareError or CdiError."""
        return self.call(self.double.try_pod(name, namespace=namespace))

    def end_pod(
        self, name: str, *, namespace: str = "default", phase: str = "Succeeded", within: float = _PATIENCE
    ) -> None:
        """Retries until the claims are unprepared and the pod has ended. Raises the last UnprepareError."""
        self.call(self.double.end_pod(name, namespace=namespace, phase=phase, within=within))

    def try_end(self, name: str, *, namespace: str = "default", phase: str = "Succeeded") -> None:
        """Tries once to end a pod; raises UnprepareError."""
        self.call(self.double.try_end(name, namespace=namespace, phase=phase))

    def stop(self) -> None:
        self.call(self.double.stop())

    def start(self) -> None:
        self.call(self.double.start())

    def restart(self) -> None:
        """Restarts the kubelet with the state of its checkpoint only."""
        self.call(self.double.restart())

    def eventually(self, holds: Callable[[], Any], what: str = "it", *, within: float = _PATIENCE) -> Any:
        """Waits until `holds` returns a true value, and returns it."""

        async def asked() -> Any:
            return await asyncio.to_thread(holds)

        return self.call(self.double.eventually(asked, what, within))
