"""The ResourceQuota controller: keeps the status of quotas current, by the rules of admission (`dray.api.quota`).

Only kinds that some quota counts are watched; a kind is added when a quota names it. Objects come and go in crowds, so
a quota waits a moment for more before it counts: the longer, the longer it last took to count.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from datetime import datetime
from typing import Final

from dray.api.catalogue import built_in
from dray.api.objects import Key, Object, mapping, status_of
from dray.api.quantity import Quantity, QuantityError
from dray.api.quota import charges, names, scopes
from dray.client.cache import Change
from dray.client.discovery import discover, served_version
from dray.client.informer import Informer
from dray.client.interface import Resource
from dray.controllers.environment import Environment, QueueController, named

_GATHER: Final = 0.05
_LONGEST: Final = 5.0
# When to ask whether a kind is served by now.
_ASK_AGAIN: Final = 60.0
# Of the time that counting takes: at most a twentieth of a core goes into it.
_SHARE: Final = 20


QUOTAS: Final = built_in("v1", "ResourceQuota")
CLASSES: Final = built_in("resource.k8s.io/v1", "DeviceClass")


class QuotaController(QueueController[Key]):
    def __init__(self, environment: Environment) -> None:
        super().__init__(environment)
        self._informers = environment.informers
        self._quotas = environment.informers.of(QUOTAS)
        self._classes = environment.informers.of(CLASSES)
        self._sources: dict[str, Informer] = {}
        self._unserved: dict[str, float] = {}
        """The time at which discovery last found that a resource is not served, by resource."""
        self._gather: dict[Key, float] = {}
        self._of_pods: dict[str, tuple[str, Counter[str]]] = {}
        """The version that was read and the usage, by pod uid."""
        self._workers = environment.workers("resourcequota", self._reconcile, called=named("ResourceQuota"), count=4)
        self._quotas.add_handler(self._on_quota)
        self._classes.add_handler(self._on_class)

    # What happened

    def _on_quota(self, change: Change) -> None:
        if change.type == "DELETED":
            self._gather.pop(change.key, None)
        else:
            self._workers.queue.add(change.key)
        if change.type != "MODIFIED":
            self._count_again(change.key[0])

    def _on_class(self, change: Change) -> None:
        """Counts all quotas again if the extended resource name of a class changed."""
        before = change.previous["spec"] if change.previous is not None else {}
        after = change.object["spec"] if change.type != "DELETED" else {}
        if before.get("extendedResourceName") != after.get("extendedResourceName"):
            for quota in self._quotas.cache:
                self._count_again(quota["metadata"]["namespace"])

    def _on_pod(self, change: Change) -> None:
        before, now = change.previous, change.object
        if change.type == "DELETED":
            self._of_pods.pop(now["metadata"]["uid"], None)
        elif before is not None and not _matters(before, now):
            return
        self._count_again(change.key[0])

    def _on_object(self, change: Change) -> None:
        if change.type != "MODIFIED":
            self._count_again(change.key[0])

    def _on_sized(self, change: Change) -> None:
        """Counts the namespace again if a Service or a volume claim changed."""
        before, now = change.previous, change.object
        moved = before is None or any(before.get(part) != now.get(part) for part in ("spec", "status"))
        if change.type != "MODIFIED" or moved:
            self._count_again(change.key[0])

    def _count_again(self, namespace: str) -> None:
        for quota in self._quotas.cache.in_namespace(namespace):
            key = (namespace, quota["metadata"]["name"])
            self._workers.queue.add_after(key, self._gather.get(key, _GATHER))

    # Quotas

    async def _reconcile(self, key: Key) -> float | None:
        quota = self._quotas.cache.get(key[1], namespace=key[0])
        if quota is None or quota["metadata"].get("deletionTimestamp"):
            return None
        hard: dict[str, str] = mapping(quota["spec"].get("hard"))
        resources = {qualified for name in hard for qualified in names.counted(name)}
        available = {qualified for qualified in sorted(resources) if await self._source(qualified) is not None}
        loop = asyncio.get_running_loop()
        started, now = loop.time(), self._time.now()
        sums = self._sum(quota, available, now)
        self._gather[key] = min(_LONGEST, max(_GATHER, _SHARE * (loop.time() - started)))
        used = {
            name: charges.text(name, sums[name])
            for name in hard
            if (counted := names.counted(name)) and available.issuperset(counted)
        }
        if not _says(status_of(quota), hard, used):
            status = {**status_of(quota), "hard": hard, "used": used}
            await self._client.update_status(QUOTAS, {**quota, "status": status})
        waits = [self._next_end(key[0], now)] if names.PODS in available else []
        if resources - available:
            waits.append(_ASK_AGAIN)
        return min((wait for wait in waits if wait is not None), default=None)

    def _sum(self, quota: Object, available: set[str], now: datetime) -> Counter[str]:
        sums: Counter[str] = Counter()
        namespace, in_scope = quota["metadata"]["namespace"], scopes.covers(quota, None)
        for qualified in available:
            objects = self._sources[qualified].cache.in_namespace(namespace)
            if qualified == names.PODS:
                for pod in objects:
                    if scopes.covers(quota, scopes.scoped(pod)):
                        _add(sums, charges.OVER if charges.is_over(pod, now) else self._of_pod(pod))
            elif qualified == names.VOLUMES:
                for claim in objects:
                    if scopes.covers(quota, scopes.scoped_volume(claim)):
                        _add(sums, charges.of_volume(claim))
            elif in_scope:
                self._sum_others(sums, qualified, objects, now)
        return sums

    def _of_pod(self, pod: Object) -> Counter[str]:
        uid, version = pod["metadata"]["uid"], pod["metadata"]["resourceVersion"]
        known = self._of_pods.get(uid)
        if known is None or known[0] != version:
            known = self._of_pods[uid] = (version, charges.of_pod(pod))
        return known[1]

    def _sum_others(self, sums: Counter[str], qualified: str, objects: list[Object], now: datetime) -> None:
        if qualified == names.CLAIMS:
            owned: dict[tuple[str, str], list[Object]] = {}
            for claim in objects:
                if (owner := charges.owning_pod(claim)) is not None:
                    owned.setdefault(owner, []).append(claim)
            for claim in objects:
                _add(sums, charges.of_claim(claim, self._extended_name, self._paid(claim, owned, now)))
        elif qualified == names.SERVICES:
            for service in objects:
                _add(sums, charges.of_service(service))
        else:
            sums[f"count/{qualified}"] += len(objects) * charges.UNIT
            if "." not in qualified:
                sums[qualified] += len(objects) * charges.UNIT

    def _next_end(self, namespace: str, now: datetime) -> float | None:
        """Returns the seconds until the next terminating pod stops counting; None if there is none."""
        ends = (charges.end_of_grace(pod) for pod in self._sources[names.PODS].cache.in_namespace(namespace))
        waits = [(end - now).total_seconds() for end in ends if end is not None and end >= now]
        return min(waits) + 0.001 if waits else None

    def _extended_name(self, device_class: str) -> str | None:
        found = self._classes.cache.get(device_class)
        return found["spec"].get("extendedResourceName") if found is not None else None

    def _paid(self, claim: Object, owned: dict[tuple[str, str], list[Object]], now: datetime) -> Counter[str] | None:
        """Returns the usage of the pod that owns an extended resource claim, if the pod was charged for this claim."""
        owner, pods = charges.owning_pod(claim), self._sources.get(names.PODS)
        if owner is None or pods is None:
            return None
        pod = pods.cache.get(owner[0], namespace=claim["metadata"]["namespace"])
        if pod is None or pod["metadata"]["uid"] != owner[1] or charges.is_over(pod, now):
            return None
        return self._of_pod(pod) if charges.is_charged_with(pod, claim, owned[owner]) else None

    async def _source(self, qualified: str) -> Informer | None:
        """Returns the synced informer of a resource; None if the server does not serve it."""
        if qualified not in self._sources:
            resource = await self._served(qualified)
            if resource is None:
                return None
            informer = self._informers.of(resource)
            # Somebody else may have come here while this one waited.
            if qualified not in self._sources:
                self._sources[qualified] = informer
                informer.add_handler(self._handler(qualified))
        await self._sources[qualified].synced()
        return self._sources[qualified]

    async def _served(self, qualified: str) -> Resource | None:
        """Returns the served resource; None if it is not served, where an informer would never sync."""
        now = asyncio.get_running_loop().time()
        if now < self._unserved.get(qualified, float("-inf")) + _ASK_AGAIN:
            return None
        known = names.known(qualified)
        resource: Resource | None
        if known is not None:
            resource = await served_version(self._client, known.group, known.plural)
        else:
            resource = await self._discovered(qualified)
        if resource is None:
            self._unserved[qualified] = now
        return resource

    async def _discovered(self, qualified: str) -> Resource | None:
        for resource in (await discover(self._client)).preferred:
            if resource.qualified == qualified and resource.namespaced and {"list", "watch"} <= resource.verbs:
                return resource
        return None

    def _handler(self, qualified: str) -> Callable[[Change], None]:
        if qualified == names.PODS:
            return self._on_pod
        return self._on_sized if qualified in (names.SERVICES, names.VOLUMES) else self._on_object


def _add(sums: Counter[str], amounts: Counter[str]) -> None:
    for name, amount in amounts.items():
        sums[name] += amount


def _matters(before: Object, now: Object) -> bool:
    """Whether the change of a pod may change what it takes, or whose scopes it is in."""
    old, new = before["metadata"], now["metadata"]
    was, told = status_of(before), status_of(now)
    return (
        any(was.get(member) != told.get(member) for member in ("phase", "qosClass", "extendedResourceClaimStatus"))
        or old.get("deletionTimestamp") != new.get("deletionTimestamp")
        or before["spec"] != now["spec"]
    )


def _says(status: Object, hard: dict[str, str], used: dict[str, str]) -> bool:
    """Whether the status says the same, however it writes the amounts."""
    if status.get("hard", {}) != hard or status.get("used", {}).keys() != used.keys():
        return False
    try:
        return all(Quantity.parse(status["used"][name]) == Quantity.parse(used[name]) for name in used)
    except QuantityError:
        return False
