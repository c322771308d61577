"""The controller of device usage: meters claims as they change, and stores the totals in kube-system/dray-usage.

Changed claims are measured together, every five seconds: a claim changes about six times until its pod runs. Totals
are written once a minute while claims have devices or wait for them, less often when they are large. Time in which no
controller ran is added at the next start, for claims that still have their devices then.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Hashable, Iterator, Mapping
from contextlib import suppress
from typing import Final

from dray.allocation.device_states import DeviceState, amounts, device_states
from dray.api import pod_queues
from dray.api.catalogue import built_in
from dray.api.namespace_users import user_of
from dray.api.objects import Key, Object, key_of, mapping, mappings, metadata_of, spec_of, uid_of, version_of
from dray.api.pods import claims_used, extended_claim, is_terminal
from dray.api.resource_claims import allocation_of
from dray.api.times import seconds_of
from dray.client.cache import Change
from dray.client.discovery import OptionalInformer
from dray.client.errors import ClientError, NotFound
from dray.client.foreign_kinds import KUEUE
from dray.client.interface import WriteOptions
from dray.controllers.device_taints.rules import follow_rules, taint_rules
from dray.controllers.device_usage.claim_rates import Place, claim_rates
from dray.controllers.device_usage.device_metrics import DeviceMetrics
from dray.controllers.device_usage.meter import Meter
from dray.controllers.device_usage.totals import CONFIG_MAP, NAMESPACE, Consumer, Totals
from dray.controllers.environment import Environment
from dray.controllers.kinds import NAMESPACES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES

_CONFIG_MAPS: Final = built_in("v1", "ConfigMap")
_CLASSES: Final = built_in("resource.k8s.io/v1", "DeviceClass")
_WRITER: Final = WriteOptions("dray-device-usage", force=True)
_BY_CLAIM: Final = "device-usage: claim"
_BY_POOL: Final = "device-usage: pool"
_LARGE: Final = 64 * 1024
_QUEUES_SECONDS: Final = 5.0
_MEASURE_SECONDS: Final = 5.0
_LONGEST_GAP: Final = 7 * 24 * 3600.0
_logger = logging.getLogger("dray.controllers")


class DeviceUsage:
    def __init__(self, environment: Environment, period: float = 60.0) -> None:
        self._environment = environment
        self._client = environment.client
        self._time = environment.time
        self._period = period
        informers = environment.informers
        self._claims = informers.of(RESOURCE_CLAIMS)
        self._slices = informers.of(RESOURCE_SLICES, {_BY_POOL: _pool})
        self._pods = informers.of(PODS, {_BY_CLAIM: _claims_of})
        self._namespaces = informers.of(NAMESPACES)
        self._classes = informers.of(_CLASSES)
        self._rules = taint_rules(environment)
        kind = KUEUE["LocalQueue"]
        self._local_queues = OptionalInformer(environment.client, informers, kind.group, kind.plural, version=kind)
        self._meter = Meter(Totals())
        self._floor = 0.0
        """Usage before this time is not added."""
        self._owners: dict[str, Consumer] = {}
        """Consumer by uid of the claim, kept because its pods may be deleted before it."""
        self._changed: dict[str, None] = {}
        """Keys of claims that changed, or whose pods were deleted, since the last measurement."""
        self._changed_pods: dict[Key, None] = {}
        self._metrics = DeviceMetrics(
            self._states, lambda: [*self._classes.cache], self._published_version, environment.gates
        )

    async def run(self) -> None:
        await self._restore()
        self._environment.metrics.register(self._metrics)
        try:
            async with asyncio.TaskGroup() as group:
                await follow_rules(self._rules, self._environment, group)
                # Without the right to list queues it works all the same.
                with suppress(TimeoutError):
                    async with asyncio.timeout(_QUEUES_SECONDS):
                        await self._local_queues.start()
                group.create_task(self._local_queues.run())
                self._claims.add_handler(self._claim_changed)
                self._pods.add_handler(self._pod_changed)
                group.create_task(self._measure_again_and_again())
                group.create_task(self._store_again_and_again())
        finally:
            self._environment.metrics.unregister(self._metrics)

    def _now(self) -> float:
        return self._time.now().timestamp()

    async def _restore(self) -> None:
        """Reads the totals of earlier runs; waits for a server that does not answer."""
        while True:
            try:
                found = await self._client.get(_CONFIG_MAPS, CONFIG_MAP, namespace=NAMESPACE)
                break
            except NotFound:
                found = {}
                break
            except ClientError as error:
                _logger.warning("device usage: the totals cannot be read: %s", error)
                await asyncio.sleep(self._period)
        totals, now = Totals.parse(mapping(found.get("data"))), self._now()
        self._meter = Meter(totals)
        self._floor = now if totals.until is None else min(max(totals.until, now - _LONGEST_GAP), now)

    async def _measure_again_and_again(self) -> None:
        while True:
            await asyncio.sleep(_MEASURE_SECONDS)
            self.measure()

    async def _store_again_and_again(self) -> None:
        while True:
            try:
                size = await self.store()
            except ClientError as error:
                _logger.warning("device usage: the totals cannot be stored: %s", error)
                size = _LARGE
            # The first use after a pause is stored soon.
            pause = self._period / 10 if not size else self._period if size <= _LARGE else 5 * self._period
            await asyncio.sleep(pause)

    async def store(self) -> int:
        """Adds the time up to now and writes the totals; returns their size in bytes."""
        self.measure()
        totals, now = self._meter.totals, self._now()
        self._meter.advance(now)
        totals.compact(now)
        if not totals.is_changed:
            return 0
        data = totals.data()
        totals.is_changed = False
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"namespace": NAMESPACE, "name": CONFIG_MAP},
            "data": data,
        }
        try:
            await self._client.apply(_CONFIG_MAPS, body, options=_WRITER)
        except ClientError:
            totals.is_changed = True
            raise
        return len(json.dumps(data))

    def _claim_changed(self, change: Change) -> None:
        key = "/".join(change.key)
        if change.type != "DELETED":
            self._changed[key] = None
            return
        if key in self._changed:
            del self._changed[key]
            self._measure(change.object)
        uid = uid_of(change.object)
        self._meter.remove(uid, self._now())
        self._owners.pop(uid, None)

    def _pod_changed(self, change: Change) -> None:
        if change.type != "DELETED":
            self._changed_pods[change.key] = None
            return
        self._changed_pods.pop(change.key, None)
        self._changed |= dict.fromkeys(_claims_of(change.object))

    def measure(self) -> None:
        """Measures claims that changed, or whose pods changed, since the last call."""
        changed, self._changed = self._changed, {}
        changed_pods, self._changed_pods = self._changed_pods, {}
        for namespace, name in changed_pods:
            if (pod := self._pods.cache.get(name, namespace=namespace)) is not None:
                changed |= dict.fromkeys(_claims_of(pod))
        for key in changed:
            namespace, _, name = key.partition("/")
            if (claim := self._claims.cache.get(name, namespace=namespace)) is not None:
                self._measure(claim)

    def _measure(self, claim: Object) -> None:
        pods = self._pods.cache.by(_BY_CLAIM, "/".join(key_of(claim)))
        is_waited_for = any(not is_terminal(pod) for pod in pods)
        rates = claim_rates(claim, self._capacity, is_waited_for=is_waited_for)
        owner = self._owner(claim, pods)
        began = mapping(allocation_of(claim)).get("allocationTimestamp") or metadata_of(claim).get("creationTimestamp")
        since = max(self._floor, seconds_of(began) or 0.0)
        named = {owner._replace(device_class=name): each for name, each in rates.items()}
        self._meter.set(uid_of(claim), named, since, self._now())

    def _owner(self, claim: Object, pods: list[Object]) -> Consumer:
        """Returns the consumer without its class. It stays the same when the pods of the claim are gone."""
        known = self._owners.get(uid_of(claim))
        if known is not None and not pods:
            return known
        namespace = key_of(claim)[0]
        user = user_of(self._namespaces.cache.get(namespace) or {})
        queue = next(filter(None, map(self._queue, pods)), "")
        owner = self._owners[uid_of(claim)] = Consumer(namespace, user, queue, "")
        return owner

    def _queue(self, pod: Object) -> str:
        """Returns the queue that the pod is charged to, or will be: a ClusterQueue of Kueue, or a queue of KAI."""
        admission = pod_queues.recorded(pod)
        if admission is not None and admission.queues:
            return next(iter(admission.queues.values()))
        labels, (namespace, _) = pod_queues.words_of(pod).labels, key_of(pod)
        if not (name := labels.get("kueue.x-k8s.io/queue-name")):
            return labels.get("kai.scheduler/queue") or ""
        local = self._local_queues.cache.get(name, namespace=namespace)
        return str(spec_of(local or {}).get("clusterQueue") or f"{namespace}/{name}")

    def _capacity(self, place: Place) -> Mapping[str, str]:
        driver, pool, name = place
        for slice_ in self._slices.cache.by(_BY_POOL, f"{driver}/{pool}"):
            for device in mappings(spec_of(slice_).get("devices")):
                if device.get("name") == name:
                    return amounts(device)
        return {}

    def _published_version(self) -> Hashable:
        """Returns a value that changes whenever a slice or a class changes."""
        caches = self._slices.cache, self._classes.cache
        return tuple(frozenset((uid_of(obj), version_of(obj)) for obj in cache) for cache in caches)

    def _states(self) -> list[DeviceState]:
        caches = (self._slices.cache, self._claims.cache, self._pods.cache, self._rules.cache)
        return device_states(*(list(cache) for cache in caches))


def _claims_of(pod: Object) -> Iterator[str]:
    namespace, _ = key_of(pod)
    for name in {*(name for _, name in claims_used(pod)), extended_claim(pod)} - {""}:
        yield f"{namespace}/{name}"


def _pool(slice_: Object) -> Iterator[str]:
    spec = spec_of(slice_)
    yield f"{spec['driver']}/{spec['pool']['name']}"
