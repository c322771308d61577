"""The DRA manager: takes the claims of a node's pods through their drivers, as a kubelet does.

`prepare` is called before the first container of a pod starts, and whenever its sandbox is made anew; `unprepare`
after its last container ended. A claim that several pods use is prepared for the first and unprepared after the last.
Before a driver is called for the first time the claim is recorded with the pod, so that whatever the driver did can
be undone, also after a restart of the agent. Calls for one pod never overlap; pods do not wait for each other.

Raising means that the pod stays where it is and is tried again: a pod that starts is not started, a pod that ends is
not gone. Drivers that opted out of a call (`skipNodeOperations`) are not called and need not be there.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Collection, Iterator
from contextlib import asynccontextmanager, contextmanager
from weakref import WeakValueDictionary

from dray.api.objects import Object, key_of, uid_of
from dray.api.resource_claims import results_of
from dray.driver.claims import ClaimReference
from dray.node.claim_cache import ClaimCache, ClaimInfo, claim_info
from dray.node.dra_plugins import DraPlugins
from dray.node.errors import NodeError, PrepareError, UnprepareError
from dray.node.metrics import NodeMetrics
from dray.node.plugin_client import PREPARE, UNPREPARE, PluginClient
from dray.node.pod_claims import PodClaims

_logger = logging.getLogger(__name__)


class DraManager:
    def __init__(
        self, claims: PodClaims, plugins: DraPlugins, cache: ClaimCache, metrics: NodeMetrics | None = None
    ) -> None:
        self.cache = cache
        self._claims = claims
        self._plugins = plugins
        self._metrics = metrics or NodeMetrics()
        self._pods: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """Locks by pod uid; an entry lives as long as a task holds or awaits its lock."""
        self.kept: set[str] = set()
        """Uids of pods that are gone from the API server while their containers may still run here."""

    async def prepare(self, pod: Object) -> None:
        """Returns when all claims of the pod are prepared; raises PrepareError."""
        with self._operation("PrepareResources", PrepareError):
            async with self._pod(uid_of(pod)):
                await self._prepare(pod)

    async def unprepare(self, uid: str) -> None:
        """Unprepares all claims of the pod; raises UnprepareError.

        Only the uid is needed, because the pod and its claims may be gone from the API server.
        """
        with self._operation("UnprepareResources", UnprepareError):
            async with self._pod(uid):
                await self._unprepare(uid)

    def users(self) -> set[str]:
        """Returns the uids of the pods for which claims are recorded."""
        return {uid for info in self.cache for uid in info.pods}

    async def reconcile(self, pods: Collection[str]) -> None:
        """Unprepares claims of pods whose uids are not in `pods`, the active pods of the node.

        A driver that does not answer delays only the pods that use it.
        """
        await asyncio.gather(*(self._unprepare_gone(uid) for uid in self.users() - {*pods, *self.kept}))

    async def _unprepare_gone(self, uid: str) -> None:
        try:
            await self.unprepare(uid)
        except UnprepareError as error:
            _logger.warning("claims of pod %s, which is gone, are not unprepared yet: %s", uid, error)

    def forget(self, namespace: str, name: str) -> bool:
        """Drops a claim without calling its drivers, for an administrator whose driver will not come back."""
        info = self.cache.get(namespace, name)
        if info is None:
            return False
        self.cache.remove(info)
        self.cache.save()
        return True

    # Prepare

    async def _prepare(self, pod: Object) -> None:
        claims = await self._claims.usable(pod)
        clients: dict[str, PluginClient] = {}
        for claim in claims:
            self._check_free(claim)
            for driver, state in claim_info(claim).drivers.items():
                if not state.skips(PREPARE):
                    clients[driver] = self._plugins.client(driver)
        infos, batches = self._record(uid_of(pod), claims)
        for driver, batch in batches.items():
            await self._prepare_batch(driver, clients.get(driver) or self._plugins.client(driver), batch)
        for info in infos:
            if self.cache.get(*info.key) is info:
                info.prepared = True
        self.cache.save()

    def _check_free(self, claim: Object) -> None:
        """Raises PrepareError if a device is still prepared for another claim, such as a force-deleted pod's."""
        for result in results_of(claim):
            if result.get("adminAccess") or result.get("shareID"):
                continue
            device = (result["driver"], result["pool"], result["device"])
            for holder in self.cache.of_device(*device):
                if holder.reference.uid != uid_of(claim) and holder.uses(*device):
                    text = f"device {'/'.join(device)} is still prepared for ResourceClaim {holder.reference}"
                    raise PrepareError(text)

    def _record(self, pod: str, claims: list[Object]) -> tuple[list[ClaimInfo], dict[str, list[ClaimInfo]]]:
        """Records that the pod uses the claims. Returns their entries, and by driver those that must be prepared."""
        infos: list[ClaimInfo] = []
        batches: dict[str, list[ClaimInfo]] = {}
        for claim in claims:
            info = self._entry(claim)
            info.pods.add(pod)
            self.cache.put(info)
            self.cache.save()
            infos.append(info)
            if info.prepared:
                continue
            for driver, state in info.drivers.items():
                if state.skips(PREPARE):
                    self._metrics.prepare_skips.labels(driver).inc()
                else:
                    batches.setdefault(driver, []).append(info)
        return infos, batches

    def _entry(self, claim: Object) -> ClaimInfo:
        info = self.cache.get(*key_of(claim))
        if info is None:
            return claim_info(claim)
        if info.reference.uid != uid_of(claim):
            raise PrepareError(f"old ResourceClaim {info.reference} with same name and different UID still exists")
        if info.unpreparing:
            raise PrepareError(f"ResourceClaim {info.reference} is being unprepared")
        return info

    async def _prepare_batch(self, driver: str, client: PluginClient, batch: list[ClaimInfo]) -> None:
        answers = await client.prepare([info.reference for info in batch])
        failures = []
        for info in batch:
            answer = answers[info.reference.uid]
            if answer.error:
                failures.append(f"{PREPARE} failed for ResourceClaim {info.reference}: {answer.error}")
            else:
                info.drivers[driver].devices = list(answer.devices)
        if failures:
            raise PrepareError("; ".join(failures))

    # Unprepare

    async def _unprepare(self, pod: str) -> None:
        last: list[ClaimInfo] = []
        for info in self.cache.of_pod(pod):
            if info.pods == {pod}:
                last.append(info)
            else:
                info.pods.discard(pod)
                self.cache.save()
        with _unpreparing(last):
            for driver, batch in self._batches(last).items():
                await self._unprepare_batch(driver, [info.reference for info in batch])
            for info in last:
                self.cache.remove(info)
            if last:
                self.cache.save()

    def _batches(self, infos: list[ClaimInfo]) -> dict[str, list[ClaimInfo]]:
        batches: dict[str, list[ClaimInfo]] = {}
        for info in infos:
            for driver, state in info.drivers.items():
                if state.skips(UNPREPARE):
                    self._metrics.unprepare_skips.labels(driver).inc()
                else:
                    batches.setdefault(driver, []).append(info)
        return batches

    async def _unprepare_batch(self, driver: str, claims: list[ClaimReference]) -> None:
        errors = await self._plugins.client(driver).unprepare(claims)
        failed = [claim for claim in claims if errors[claim.uid]]
        failures = [f"{UNPREPARE} failed for ResourceClaim {claim}: {errors[claim.uid]}" for claim in failed]
        if failures:
            raise UnprepareError("; ".join(failures))

    @asynccontextmanager
    async def _pod(self, uid: str) -> AsyncIterator[None]:
        """Serializes the calls for one pod."""
        lock = self._pods.get(uid) or asyncio.Lock()
        self._pods[uid] = lock
        async with lock:
            yield

    @contextmanager
    def _operation(self, name: str, failure: type[NodeError]) -> Iterator[None]:
        """Measures the operation, and turns every node error into `failure`."""
        begun, failed = time.monotonic(), "true"
        try:
            yield
            failed = "false"
        except failure:
            raise
        except NodeError as error:
            raise failure(str(error)) from None
        finally:
            self._metrics.operations.labels(name, failed).observe(time.monotonic() - begun)


@contextmanager
def _unpreparing(infos: list[ClaimInfo]) -> Iterator[None]:
    """Marks the claims as being unprepared within the context, so that no pod begins to use them."""
    for info in infos:
        info.unpreparing = True
    try:
        yield
    finally:
        for info in infos:
            info.unpreparing = False
