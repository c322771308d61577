"""Publisher: keeps the driver's slices on the API server as the driver declares its pools.

What the driver declares is published at once; what somebody else changes or deletes is repaired after a delay, as
long as a kubelet that starts needs to wipe the slices of its node. Once that kubelet has registered the driver there is
nothing to wait for: its slices are back at once. Pools that are not declared any more, also those of
an earlier run, are withdrawn. Fields that the API server does not keep are told of once, and then done without.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, Final, TypeVar

from dray.api.objects import Object, spec_of, uid_of
from dray.client.api import ApiClient
from dray.client.errors import ClientError, Conflict, NotFound
from dray.client.queue import WorkQueue
from dray.client.retries import Backoff, Retries
from dray.driver.devices import NodeSelection, Pool
from dray.driver.driver import Driver, awaited
from dray.driver.errors import DriverError, DroppedFields, InvalidPools
from dray.driver.health_reports import HealthReports
from dray.driver.metrics import DriverMetrics
from dray.driver.options import RunnerOptions
from dray.driver.slices.canonical import canonical, is_same, missing_fields
from dray.driver.slices.kinds import NODES, RESOURCE_SLICES
from dray.driver.slices.layout import check, contents
from dray.driver.slices.own_slices import OwnSlices
from dray.driver.slices.plan import Declaration, make_plan

_AT_ONCE: Final = 8
# The deletions of a kubelet that starts may be seen so long after it has registered the driver.
_WIPING_SECONDS: Final = 10.0
_SOON: Final = 0.2
_RETRIES: Final = Retries(backoff=Backoff(first=0.5, longest=60.0))
_logger = logging.getLogger(__name__)
T = TypeVar("T")


class Publisher:
    def __init__(
        self,
        driver: Driver,
        client: ApiClient,
        options: RunnerOptions,
        metrics: DriverMetrics,
        health: HealthReports | None = None,
    ) -> None:
        self._driver = driver
        self._health = health
        self._may_taint = health is not None and bool(driver.unhealthy_effect)
        self._client = client
        self._options = options
        self._metrics = metrics
        self._pools: dict[str, Pool] = {}
        self._owner: Object | None = None
        self._pending: set[str] = set()
        """Pools that were declared and are not stored yet."""
        self._asked = asyncio.Event()
        self._asked.set()
        self._published = asyncio.Event()
        self._slices: OwnSlices | None = None
        self._wide = False
        self._accepted: dict[tuple[str, int], tuple[Object, Object]] = {}
        self._repairs_soon_until = 0.0

    def publish(self) -> None:
        """The driver is asked for its pools, and they are published."""
        self._published.clear()
        self._asked.set()

    def retaint(self) -> None:
        """The health of devices has changed: all pools are looked at again, without asking the driver."""
        for name in self._pools:
            self._queue.add(name)

    def registered(self) -> None:
        """A kubelet has registered the driver, perhaps not for the first time: it may have wiped its slices."""
        self._repairs_soon_until = asyncio.get_running_loop().time() + _WIPING_SECONDS
        self.retaint()

    async def published(self) -> None:
        """Returns when everything that was declared is stored."""
        await self._published.wait()

    async def run(self) -> None:
        """Publishes the pools whenever the driver asks for it, until it is cancelled."""
        self._queue: WorkQueue[str] = WorkQueue()
        self._owner = await self._patiently("its node", self._node_reference)
        async with asyncio.TaskGroup() as self._tasks:
            self._watching: asyncio.Task[None] | None = None
            self._tasks.create_task(self._work(), name="slices: work")
            while True:
                await self._asked.wait()
                self._asked.clear()
                await self._patiently("its pools", self._declare)

    async def _patiently(self, what: str, attempt: Callable[[], Awaitable[T]]) -> T:
        failures = 0
        while True:
            try:
                return await attempt()
            except Exception as error:
                failures += 1
                self._metrics.failed("slices")
                unexpected = None if isinstance(error, ClientError | DriverError) else error
                _logger.error("driver %s: %s: %s", self._driver.name, what, error, exc_info=unexpected)
            await _RETRIES.pause(failures)

    async def _node_reference(self) -> Object | None:
        name = self._options.node_name
        if not name:
            return None
        node = await self._client.get(NODES, name)
        return {"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid_of(node), "controller": True}

    async def _declare(self) -> None:
        declared = await awaited(self._driver.pools(), f"{type(self._driver).__name__}.pools")
        pools = {pool.name: pool for pool in _unique(declared)}
        for pool in pools.values():
            check(pool)
        await self._watch(any(pool.nodes or pool.per_device_node_selection for pool in pools.values()))
        assert self._slices is not None
        self._pools = pools
        self._pending = {*pools, *self._slices.pools()}
        for name in self._pending:
            self._queue.add(name)
        self._done()

    async def _watch(self, wide: bool) -> None:
        """Starts to watch the driver's slices; again, if there are pools now for which more must be watched."""
        if self._slices is not None and self._wide >= wide:
            return
        if self._watching is not None:
            self._watching.cancel()
        self._wide = wide
        self._slices = OwnSlices(
            self._client, self._driver.name, self._options.node_name, wide=wide, changed=self._on_change
        )
        self._watching = self._tasks.create_task(self._slices.run(), name="slices: informer")
        await self._slices.synced()

    def _on_change(self, pool: str) -> None:
        soon = asyncio.get_running_loop().time() < self._repairs_soon_until
        self._queue.add_after(pool, min(_SOON, self._options.repair_delay) if soon else self._options.repair_delay)

    async def _work(self) -> None:
        while True:
            pool = await self._queue.get()
            try:
                await self._sync(pool)
            except ClientError as error:
                self._metrics.failed("slices")
                if not (isinstance(error, Conflict)):
                    _logger.warning("driver %s: pool %s: %s", self._driver.name, pool, error)
                self._queue.add_failed(pool)
            except Exception:
                self._metrics.failed("slices")
                _logger.exception("driver %s: pool %s cannot be published", self._driver.name, pool)
                self._queue.add_failed(pool)
            else:
                self._queue.forget(pool)
                self._pending.discard(pool)
                self._done()
            finally:
                self._queue.done(pool)

    def _done(self) -> None:
        if not self._pending and not self._asked.is_set():
            self._published.set()

    async def _sync(self, name: str) -> None:
        assert self._slices is not None
        stored = self._slices.pools().get(name, [])
        pool = self._pools.get(name)
        if pool is None:
            await self._limited(self._delete, [(slice_,) for slice_ in stored])
            return
        declared = self._declaration(self._health.tainted(pool) if self._health else pool, stored)
        accepted = {index: pair for (of, index), pair in self._accepted.items() if of == name}
        plan = make_plan(declared, stored, accepted)
        await self._limited(self._delete, [(slice_,) for slice_ in plan.delete])
        await self._limited(self._update, [(declared, index, each) for index, each in plan.update])
        await self._limited(self._create, [(declared, index, each) for index, each in plan.create])

    def _declaration(self, pool: Pool, stored: list[Object]) -> Declaration:
        empty = Declaration(self._driver.name, pool.name, self._owner, ())
        previous = _membership(empty, stored)
        common: Object = {"skipNodeOperations": list(pool.skip_node_operations)} if pool.skip_node_operations else {}
        if pool.per_device_node_selection:
            common["perDeviceNodeSelection"] = True
        else:
            common |= (pool.nodes or NodeSelection(node_name=self._options.node_name)).document()
        specs = [{**common, **content} for content in contents(pool, previous, may_taint=self._may_taint)]
        return Declaration(self._driver.name, pool.name, self._owner, specs, pool.generation)

    async def _delete(self, each: Object) -> None:
        with suppress(NotFound):
            await self._client.delete_object(RESOURCE_SLICES, each, pinned=True)
        self._metrics.wrote("delete")
        assert self._slices is not None
        self._slices.deleted(each)

    async def _update(self, declared: Declaration, index: int, each: Object) -> None:
        self._took(declared, index, await self._client.update(RESOURCE_SLICES, each), "update")

    async def _create(self, declared: Declaration, index: int, each: Object) -> None:
        self._took(declared, index, await self._client.create(RESOURCE_SLICES, each), "create")

    def _took(self, declared: Declaration, index: int, stored: Object, verb: str) -> None:
        assert self._slices is not None
        self._slices.wrote(stored)
        self._metrics.wrote(verb)
        key = declared.pool, index
        if is_same(declared.spec(index, 0), spec_of(stored)):
            self._accepted.pop(key, None)
            return
        wanted, found = canonical(declared.spec(index, 0)), canonical(spec_of(stored))
        before = self._accepted.get(key)
        self._accepted[key] = wanted, found
        fields = tuple(missing_fields(wanted, found))
        if before is None or tuple(missing_fields(*before)) != fields:
            self._metrics.failed("dropped fields")
            _logger.error("driver %s: %s", self._driver.name, DroppedFields(declared.pool, index, fields))

    async def _limited(self, work: Callable[..., Awaitable[None]], calls: Iterable[tuple[Any, ...]]) -> None:
        """Runs the calls, a few at a time. A failed call does not stop the others."""
        slots = asyncio.Semaphore(_AT_ONCE)

        async def one(arguments: tuple[Any, ...]) -> None:
            async with slots:
                await work(*arguments)

        results = await asyncio.gather(*map(one, calls), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result


def _unique(pools: Iterable[Pool]) -> list[Pool]:
    made = list(pools)
    names = [pool.name for pool in made]
    for name in names:
        if names.count(name) > 1:
            raise InvalidPools(f"pool {name} is declared twice")
    return made


def _membership(declared: Declaration, stored: Iterable[Object]) -> Mapping[str, int]:
    """The index of the slice in which each device is now."""
    found: dict[str, int] = {}
    for slice_ in stored:
        index = declared.index_of(slice_["metadata"]["name"])
        if index is not None:
            found.update({device["name"]: index for device in spec_of(slice_).get("devices") or ()})
    return found
