"""The controller of ResourcePoolStatusRequests: answers each once, from its caches.

While a pool is still being published a request is tried again a few times in quick succession. After that it waits:
for a change of the driver's slices, or for its end by age: answered ones are deleted after an hour, others after a day.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Final

from prometheus_client import Counter, Histogram

from dray.allocation import taints
from dray.allocation.slices import PoolKey, Slice
from dray.allocation.usage import Usage, claim_key
from dray.api.catalogue import RESOURCE_GROUP
from dray.api.objects import Object
from dray.api.resource_claims import devices_of, results_of
from dray.client.cache import Change
from dray.client.clock import moment
from dray.client.discovery import OptionalInformer
from dray.client.errors import ApiError, ClientError, Conflict, NotFound
from dray.client.retries import Backoff
from dray.controllers.device_taints.rules import follow_rules, has_selector, taint_rules
from dray.controllers.environment import Environment, Workers, named
from dray.controllers.kinds import RESOURCE_CLAIMS, RESOURCE_SLICES
from dray.controllers.pool_status import counting

_ANSWERED: Final = timedelta(hours=1)
_PENDING: Final = timedelta(hours=24)
_BY_DRIVER: Final = "pool-status: driver"
_RETRIES: Final = 5
_BACKOFF: Final = Backoff(first=0.005, longest=1.0, jitter=0)
_CLEAN_UP: Final = 600.0
# After so many claims or pools others get their turn.
_BREATH: Final = 200
_logger = logging.getLogger(__name__)


def is_expired(request: Object, now: datetime) -> bool:
    status = request.get("status")
    if status is None:
        return _is_older(request["metadata"].get("creationTimestamp"), _PENDING, now)
    for condition in status.get("conditions") or ():
        if condition.get("type") in ("Complete", "Failed"):
            return _is_older(condition.get("lastTransitionTime"), _ANSWERED, now)
    return _is_older(request["metadata"].get("creationTimestamp"), _ANSWERED, now)


def _is_older(text: str | None, age: timedelta, now: datetime) -> bool:
    return bool(text) and now - moment(str(text)) > age


class PoolStatus:
    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        informers = environment.informers
        self._claims = informers.of(RESOURCE_CLAIMS, {_BY_DRIVER: _drivers_of_claim})
        self._slices = informers.of(RESOURCE_SLICES, {_BY_DRIVER: lambda each: (each["spec"]["driver"],)})
        self._rules = taint_rules(environment)
        self._requests = OptionalInformer(environment.client, informers, RESOURCE_GROUP, "resourcepoolstatusrequests")
        self._waiting: dict[str, dict[str, int]] = {}
        """Requests that could not be answered yet, by driver, with their number of attempts."""
        self._workers: Workers[str] = environment.workers(
            "resource-pool-status", self._reconcile, called=named("ResourcePoolStatusRequest"), count=2
        )
        self._clean_up: Workers[str] = environment.workers(
            "resource-pool-status clean-up", self._delete_expired, called=str, count=1
        )
        self._processed = Counter(
            "resourcepoolstatusrequest_controller_requests_processed",
            "ResourcePoolStatusRequests that were answered, or whose answer was refused.",
            ["driver_name"],
            registry=environment.metrics,
        )
        self._errors = Counter(
            "resourcepoolstatusrequest_controller_request_processing_errors",
            "Answers to ResourcePoolStatusRequests that could not be written.",
            ["driver_name"],
            registry=environment.metrics,
        )
        self._duration = Histogram(
            "resourcepoolstatusrequest_controller_request_processing_duration_seconds",
            "Seconds to answer a ResourcePoolStatusRequest.",
            ["driver_name"],
            buckets=[0.001 * 2**power for power in range(15)],
            registry=environment.metrics,
        )

    async def run(self) -> None:
        if not self._environment.gates["DRAResourcePoolStatus"]:
            await asyncio.Event().wait()
        async with asyncio.TaskGroup() as group:
            await follow_rules(self._rules, self._environment, group)
            await self._requests.start()
            self._requests.add_handler(self._on_request)
            self._slices.add_handler(self._on_slice)
            self._clean_up.queue.add("")
            for part in (self._requests, self._workers, self._clean_up):
                group.create_task(part.run())

    def _on_request(self, change: Change) -> None:
        request = change.object
        name = request["metadata"]["name"]
        if change.type == "DELETED" or request.get("status") is not None:
            self._waiting.get(request["spec"]["driver"], {}).pop(name, None)
        else:
            self._workers.queue.add(name)

    def _on_slice(self, change: Change) -> None:
        waiting = self._waiting.pop(change.object["spec"]["driver"], None)
        for name in waiting or ():
            self._workers.queue.add(name)

    async def _reconcile(self, name: str) -> float | None:
        request = self._requests.cache.get(name)
        if request is None or request.get("status") is not None:
            return None
        start = asyncio.get_running_loop().time()
        status = await self._answer(request)
        if any(map(counting.is_incomplete, status.get("pools") or ())):
            return self._later(request, "some pools are incomplete")
        driver = request["spec"]["driver"]
        try:
            await self._write(request, status)
        except ClientError as error:
            self._errors.labels(driver).inc()
            # A pool at generation 0 cannot be told of.
            if isinstance(error, ApiError) and error.is_invalid:
                return self._later(request, str(error))
            raise
        finally:
            self._processed.labels(driver).inc()
            self._duration.labels(driver).observe(asyncio.get_running_loop().time() - start)
        return None

    def _later(self, request: Object, reason: str) -> float | None:
        name = request["metadata"]["name"]
        waiting = self._waiting.setdefault(request["spec"]["driver"], {})
        tried = waiting[name] = waiting.get(name, 0) + 1
        if tried <= _RETRIES:
            return _BACKOFF.delay(tried, lambda: 0.0)
        _logger.info("resource pool status request %s is not answered: %s", name, reason)
        return None

    async def _answer(self, request: Object) -> Object:
        now = self._environment.time.now()
        try:
            return await self._calculate(request)
        except (KeyError, TypeError, ValueError) as error:
            _logger.exception("cannot answer resource pool status request %s", request["metadata"]["name"])
            return counting.failed(f"Failed to calculate the status: {error!r}", now)

    async def _calculate(self, request: Object) -> Object:
        spec = request["spec"]
        driver, wanted = spec["driver"], spec.get("poolName")
        documents = self._slices.cache.by(_BY_DRIVER, driver)
        if wanted:
            documents = [document for document in documents if document["spec"]["pool"]["name"] == wanted]
        pools = counting.newest(documents)
        told = list(pools)[: counting.limit_of(request)]
        usages = await self._usages(driver, set(told))
        attribute = spec.get("defaultPartitionTypeAttribute") or ""
        entries = []
        for number, key in enumerate(told, 1):
            if number % _BREATH == 0:
                await asyncio.sleep(0)
            rules = self._rules_for(key)
            slices = [Slice(document, rules) for document in pools[key]]
            entries.append(counting.pool_status(slices, usages.get(key) or Usage(), attribute))
        return counting.complete(entries, len(pools), self._environment.time.now())

    async def _usages(self, driver: str, pools: set[PoolKey]) -> dict[PoolKey, Usage]:
        """Returns the usage of each pool, from the allocations of claims."""
        usages: dict[PoolKey, Usage] = {}
        for number, claim in enumerate(self._claims.cache.by(_BY_DRIVER, driver), 1):
            if number % _BREATH == 0:
                await asyncio.sleep(0)
            held: dict[PoolKey, list[Object]] = {}
            for result in results_of(claim):
                key = (result["driver"], result["pool"])
                if key in pools:
                    held.setdefault(key, []).append(result)
            for key, each in held.items():
                usages.setdefault(key, Usage()).hold(claim_key(claim), each)
        return usages

    def _rules_for(self, pool: PoolKey) -> list[Object]:
        """Returns the rules that may select devices of the pool."""
        found = []
        for rule in self._rules.cache:
            if has_selector(rule):
                device = rule["spec"]["deviceSelector"].get("device") or ""
                if taints.rule_applies(rule, *pool, device):
                    found.append(rule)
        return found

    async def _write(self, request: Object, status: Object) -> None:
        version = self._requests.version
        assert version is not None
        body = {**request, "apiVersion": version.api_version, "kind": version.kind, "status": status}
        await self._environment.client.update_status(version, body)

    async def _delete_expired(self, _: str) -> float:
        version, now = self._requests.version, self._environment.time.now()
        for request in self._requests.cache:
            if version is not None and is_expired(request, now):
                with suppress(NotFound, Conflict):
                    await self._environment.client.delete_object(version, request)
        return _CLEAN_UP


def _drivers_of_claim(claim: Object) -> set[str]:
    return {driver for driver, _, _ in devices_of(claim)}
