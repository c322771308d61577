"""Cluster: an API server, a snapshot, the machines of a fleet, or objects, about which questions are answered.

Every kind of cluster is read through the same client, so that functions need not know the kind. Nothing is written to
it, and a server is read only when a question needs it.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from dray.answers.errors import InvalidInput
from dray.answers.manifests.given import Manifests, read_given
from dray.answers.source import Source

if TYPE_CHECKING:
    from dray.client.api import ApiClient
    from dray.client.transport import Transport
    from dray.fleet.machine import Machine
    from dray.snapshot.files import StoredSnapshot

T = TypeVar("T")
_ATTEMPTS: Final = 3


@dataclass(frozen=True, slots=True)
class _Connected:
    client: ApiClient
    namespace: str
    now: Callable[[], float]


@dataclass(slots=True)
class Told:
    """Collects messages about what an answer leaves out."""

    lines: list[str] = field(default_factory=list)

    def tell(self, text: str) -> None:
        self.lines.append(text)


class Cluster:
    """The `from_` functions make clusters. A snapshot is read once, at the start, and a server for each question."""

    def __init__(
        self, connect: Callable[[], AbstractAsyncContextManager[Source]], machines: tuple[Machine, ...] = ()
    ) -> None:
        self._connect = connect
        self.machines = machines
        """The machines of a fleet."""

    @classmethod
    def from_kubeconfig(
        cls, path: str | os.PathLike[str] | None = None, *, context: str = "", namespace: str = ""
    ) -> Cluster:
        """Returns the cluster of a kubeconfig.

        Without a path it uses $KUBECONFIG, ~/.kube/config, or the cluster that `dray up` runs on this machine.
        """
        file = Path(path) if path is not None else None

        @asynccontextmanager
        async def connect() -> AsyncIterator[Source]:
            from dray.answers.endpoints import find_endpoint
            from dray.client.http import HttpTransport

            endpoint = find_endpoint(file, context)
            transport = HttpTransport(endpoint)
            try:
                yield _Connected(_client(transport), namespace or endpoint.namespace, time.time)
            finally:
                await transport.close()

        return cls(connect)

    @classmethod
    def from_snapshot(cls, path: str | os.PathLike[str], *, namespace: str = "") -> Cluster:
        """Returns the cluster of a file of `dray snapshot`. Raises InvalidInput if the file cannot be read."""
        from dray.snapshot.files import SnapshotError, read

        try:
            return cls(_stored(read(Path(path)), namespace))
        except SnapshotError as error:
            raise InvalidInput([str(error)]) from None

    @classmethod
    def from_stored(cls, snapshot: StoredSnapshot, *, namespace: str = "") -> Cluster:
        """Returns the cluster of a snapshot that was read before."""
        return cls(_stored(snapshot, namespace))

    @classmethod
    def from_fleet(cls, *choices: str, seed: int | None = None) -> Cluster:
        """Returns simulated machines without pods: TYPE=N, as in `p5.48xlarge=2`, or the file of a fleet."""
        from dray.planning.fleet_scene import fleet_objects
        from dray.snapshot.in_memory import in_memory

        machines = chosen_machines(choices, seed)
        return cls(_stored(in_memory(fleet_objects(machines), time.time()), ""), machines)

    @classmethod
    def from_objects(cls, manifests: Manifests, *, namespace: str = "default") -> Cluster:
        """Returns a cluster that has these objects, as `kubectl get -o yaml` prints them or as a manifest has them.

        Pods that have a node run there, and claims keep their allocations.
        """
        from dray.answers.manifests.cluster_objects import cluster_objects
        from dray.snapshot.in_memory import in_memory

        now = time.time()
        return cls(_stored(in_memory(cluster_objects(read_given(manifests), namespace, now), now), namespace))

    def without_secrets(self) -> Cluster:
        """Returns a copy of this cluster as it is now, which has only the fields of a snapshot.

        Answers about it have no environment variables, commands, logs, foreign annotations or driver parameters.
        """
        from dray.snapshot.files import Snapshot
        from dray.snapshot.in_memory import stored
        from dray.snapshot.taking import take

        async def take_from(source: Source) -> Snapshot:
            return await take(source.client, source.now(), source.namespace)

        return Cluster(_stored(stored(self.ask(take_from)), ""), self.machines)

    def ask(self, question: Callable[[Source], Awaitable[T]]) -> T:
        """Runs the question and returns its result; works inside and outside an event loop."""

        async def run() -> T:
            async with self._connect() as source:
                return await question(source)

        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(run())
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(lambda: asyncio.run(run())).result()


def chosen_machines(choices: tuple[str, ...], seed: int | None = None) -> tuple[Machine, ...]:
    """Returns the machines of a fleet. Raises InvalidInput if a choice or a file is wrong."""
    from dray.fleet.choice import ChoiceError, choose
    from dray.yaml.text import ManifestError

    try:
        return choose(choices, seed=seed).machines
    except ChoiceError as error:
        raise InvalidInput([f"error: {error}"]) from None
    except ManifestError as error:
        raise InvalidInput([str(error)]) from None


def _stored(snapshot: StoredSnapshot, namespace: str) -> Callable[[], AbstractAsyncContextManager[Source]]:
    from dray.snapshot.transport import SnapshotTransport

    client, header = _client(SnapshotTransport(snapshot)), snapshot.header

    @asynccontextmanager
    async def connect() -> AsyncIterator[Source]:
        yield _Connected(client, namespace or header.namespace, lambda: header.taken_at)

    return connect


def _client(transport: Transport) -> ApiClient:
    from dray.client.api import ApiClient
    from dray.client.retries import Retries

    return ApiClient(transport, retries=Retries(attempts=_ATTEMPTS))
