"""A node for drivers in tests: an API server in process, a kubelet's directories, and claims that are allocated."""

import itertools
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from dray.api.objects import Object
from dray.driver import (
    Claim,
    ContainerEdits,
    Device,
    Driver,
    Prepared,
    PreparedClaim,
    PreparedDevice,
    RunnerOptions,
)
from dray.driver.runner import DriverRunner
from dray.testing.cluster import LocalCluster
from dray.testing.objects import claim, device_class, first_available, node, request, subrequest
from tests.driver.independent import Plugin

NAME = "lamps.example.com"


class Lamps(Driver):
    """Four lamps; counts what is asked of it. `on_prepare` and `on_unprepare` are called in between."""

    name = NAME

    def __init__(self, count: int = 4) -> None:
        self.lamps: Sequence[Device] = [Device(f"lamp-{number}") for number in range(count)]
        self.prepared: list[Claim] = []
        self.unprepared: list[PreparedClaim] = []
        self.on_prepare: Callable[[Claim], Any] | None = None
        self.on_unprepare: Callable[[PreparedClaim], Any] | None = None

    async def devices(self) -> Sequence[Device]:
        return self.lamps

    async def prepare(self, claim: Claim) -> Prepared:
        self.prepared.append(claim)
        if self.on_prepare is not None:
            await self.on_prepare(claim)
        devices = [PreparedDevice(each, ContainerEdits(env=(f"LAMP={each.device}",))) for each in claim.devices]
        return Prepared(devices, state={"lamps": [each.device for each in claim.devices]})

    async def unprepare(self, claim: PreparedClaim) -> None:
        self.unprepared.append(claim)
        if self.on_unprepare is not None:
            await self.on_unprepare(claim)


class Node:
    """`root` is the kubelet's directory. It is short: paths of sockets are limited."""

    def __init__(self, cluster: LocalCluster, root: Path) -> None:
        self.cluster = cluster
        self.root = root
        self.cdi = root / "cdi"
        self._numbers = itertools.count()

    def options(self, **options: Any) -> RunnerOptions:
        given = {"node_name": "node-1", "kubelet_root": self.root, "cdi_directory": self.cdi, "grace": 1.0}
        return RunnerOptions(**{**given, **options})

    @asynccontextmanager
    async def running(self, driver: Driver, **options: Any) -> AsyncIterator[DriverRunner]:
        async with DriverRunner(driver, self.cluster.client, self.options(**options)) as runner:
            yield runner

    @asynccontextmanager
    async def plugin(self, driver: Driver, **options: Any) -> AsyncIterator[Plugin]:
        """The DRA services of the running driver."""
        async with self.running(driver, **options) as runner, Plugin(runner.options.dra_socket(driver.name)) as plugin:
            yield plugin

    async def claim(self, *devices: str | Object, config: Sequence[Object] = (), **members: Any) -> dict[str, str]:
        """Made and allocated; gives the reference that a kubelet sends."""
        name = members.pop("name", f"claim-{next(self._numbers)}")
        results = [
            {
                "driver": NAME,
                "pool": "node-1",
                "request": "lamp",
                **({"device": each} if isinstance(each, str) else each),
            }
            for each in devices
        ]
        allocation = {"devices": {"results": results, "config": list(config)}}
        requests = [_request(name) for name in dict.fromkeys(each["request"] for each in results)]
        made = await self.cluster.create(claim(name, *requests, status={"allocation": allocation}, **members))
        return {"namespace": "default", "uid": made["metadata"]["uid"], "name": name}

    def specs(self) -> list[str]:
        return sorted(path.name for path in self.cdi.iterdir()) if self.cdi.exists() else []

    def records(self) -> list[str]:
        return sorted(path.stem for path in (self.root / "plugins" / NAME / "claims").iterdir())


@asynccontextmanager
async def node_with_kubelet() -> AsyncIterator[Node]:
    root = Path(tempfile.mkdtemp(prefix="dray", dir="/tmp"))
    (root / "plugins_registry").mkdir()
    try:
        async with LocalCluster(objects=[node("node-1"), device_class("gpu")]) as cluster:
            yield Node(cluster, root)
    finally:
        shutil.rmtree(root)


def _request(name: str) -> Object:
    base, _, alternative = name.partition("/")
    return first_available(base, subrequest(alternative)) if alternative else request(base)
