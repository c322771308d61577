"""Binder: carries out a decision. It writes the claims, then the status of the pod, then the binding.

The scheduler is told the result before the next decision that could depend on it. If the pod is not bound in the end,
the writes are taken back as far as possible.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from dray.api.objects import Key, Object, key_of, status_of
from dray.api.resource_claims import allocation_of, results_of
from dray.client.dropped_fields import NotKept, dropped
from dray.client.errors import ClientError, Conflict, NotFound
from dray.client.events import EventRecorder
from dray.client.log_throttling import ThrottledLog, cause_of
from dray.scheduling.cluster.readiness import Binding
from dray.scheduling.model.actions import SCHEDULER_ERROR, Bind, ClaimWrite
from dray.scheduling.model.pod import Pod
from dray.scheduling.scheduler import Scheduler
from dray.scheduling_loop.claim_writes import ClaimWriter, Lost
from dray.scheduling_loop.intent_log import IntentLog, Transaction
from dray.scheduling_loop.metrics import Metrics
from dray.scheduling_loop.pod_writes import Elsewhere, PodWriter
from dray.scheduling_loop.volumes import VolumeWriter

_POLL_SECONDS: Final = 5.0
_AT_ONCE: Final = 16
_GROUP_AT_ONCE: Final = 128
_EXTENDED: Final = "extendedResourceClaimStatus"
_NODE_ALLOCATABLE: Final = "nodeAllocatableResourceClaimStatuses"
_logger = logging.getLogger("dray.scheduler")


class NotReady(ClientError):
    """The devices of a claim did not become ready for the pod."""


class PodGone(ClientError):
    """Raised if the pod was deleted while it waited for its devices."""


@dataclass(slots=True)
class _Work:
    """A decision that is being written, and the writes that are done."""

    action: Bind
    transaction: Transaction | None
    written: list[tuple[Object, str]] = field(default_factory=list)
    """The written claims, each with the uid of the consumer that it was reserved for."""
    special: Object | None = None

    @property
    def claims(self) -> tuple[Object, ...]:
        return (*self.action.claims, self.special) if self.special is not None else self.action.claims


class Binder:
    """Carries out decisions. Without an intent log, no other scheduler may allocate devices at the same time."""

    def __init__(
        self,
        scheduler: Scheduler,
        claims: ClaimWriter,
        pods: PodWriter,
        volumes: VolumeWriter,
        events: EventRecorder,
        metrics: Metrics,
        now: Callable[[], float],
        log: IntentLog | None = None,
    ) -> None:
        self._scheduler = scheduler
        self._claims = claims
        self._pods = pods
        self._volumes = volumes
        self._events = events
        self._metrics = metrics
        self._now = now
        self._log = log
        self._throttled = ThrottledLog(_logger)

    async def bind(self, action: Bind, transaction: Transaction | None) -> bool:
        """Binds a pod; returns whether it is on its node now. `transaction` is the one of the intent log for the
        decision."""
        work = _Work(action, transaction)
        try:
            await self._write_claims(work)
            await self._write_rest(work)
            await self._pods.bind(action.pod, action.node, self._queues_of(action))
        except ClientError as error:
            await self._fail(work, error)
            return False
        except BaseException:
            self._scheduler.failed(action, self._now())
            raise
        self._succeed(work)
        return True

    def _queues_of(self, action: Bind) -> dict[str, str]:
        return self._scheduler.state.queues.charged(action.pod)

    async def bind_group(self, binds: Sequence[Bind], transactions: Sequence[Transaction | None]) -> bool:
        """Binds the pods of a group; returns whether all are on their nodes now. If a write before the bindings fails,
        no pod is bound and the writes are taken back. Once a pod is bound, the others keep their devices and are bound
        later."""
        works = [_Work(action, one) for action, one in zip(binds, transactions, strict=True)]
        try:
            await _all([self._write_claims(each, with_devices=True) for each in works], _GROUP_AT_ONCE)
            await self._reserve(works)
            await _all([self._write_rest(each) for each in works], _GROUP_AT_ONCE)
        except ClientError as error:
            await _all([self._fail(each, error, whole=True) for each in works], _GROUP_AT_ONCE)
            return False
        except BaseException:
            for each in works:
                self._scheduler.failed(each.action, self._now())
            raise
        done = await asyncio.gather(*[self._bind_member(each) for each in works], return_exceptions=True)
        failed = [(work, error) for work, error in zip(works, done, strict=True) if isinstance(error, ClientError)]
        started = len(failed) < len(works)
        await _all([self._fail(work, error, whole=not started, started=started) for work, error in failed])
        for result in done:
            if isinstance(result, BaseException) and not isinstance(result, ClientError):
                raise result
        return not failed

    async def _bind_member(self, work: _Work) -> None:
        """Binds one pod of a group. Raises ClientError; the caller handles it after all pods of the group were
        tried."""
        try:
            await self._pods.bind(work.action.pod, work.action.node, self._queues_of(work.action))
        except ClientError:
            raise
        except BaseException:
            self._scheduler.failed(work.action, self._now())
            raise
        self._succeed(work)

    async def _reserve(self, works: Sequence[_Work]) -> None:
        """Reserves claims that are not allocated by these writes. Pods that share a claim are added one after the
        other."""
        by_claim: dict[Key, list[tuple[_Work, ClaimWrite]]] = {}
        for work in works:
            for write in work.action.writes:
                if write.allocation is None:
                    by_claim.setdefault(key_of(write.claim), []).append((work, write))

        async def reserve(key: Key, writes: list[tuple[_Work, ClaimWrite]]) -> None:
            for work, write in writes:
                await self._put_claim(work, write, self._scheduler.state.claims.get(key) or write.claim, exactly=False)

        await _all([reserve(key, writes) for key, writes in by_claim.items()])

    async def _write_rest(self, work: _Work) -> None:
        """Writes what follows the claims: the status of the pod and its volumes. Then waits until devices are ready."""
        action, queue = work.action, self._scheduler.queue
        await self._write_pod(work)
        if action.volumes:
            uid = action.pod.uid
            await self._volumes.provision(action.volumes, action.node, lambda: queue.get(uid) is not None)
        await self._ready(work)

    async def _fail(self, work: _Work, error: ClientError, *, whole: bool = False, started: bool = False) -> None:
        """Handles a failed write. With `whole` no pod of the group is bound, and the claims of the group are released
        too. With `started` other pods of the group are bound, and the pod keeps its claims while it is tried again."""
        action, pod = work.action, work.action.pod
        self._complain(pod, f"is not bound to {action.node}", error)
        self._leave_out(error)
        tried_again = self._scheduler.queue.get(pod.uid) is not None
        if not isinstance(error, Elsewhere) and not (started and tried_again):
            await self._take_back(work, keeping=tried_again and isinstance(error, NotReady), whole=whole)
        if not is_ordinary(error):
            await self._explain(work, error)
        self._leave(work)
        self._scheduler.failed(action, self._now())

    def _succeed(self, work: _Work) -> None:
        action, pod = work.action, work.action.pod
        self._leave(work)
        waiting = self._scheduler.queue.get(pod.uid)
        self._scheduler.bound(action, self._now())
        self._events.normal(
            reference(pod.document),
            "Scheduled",
            f"Successfully assigned {pod.key[0]}/{pod.key[1]} to {action.node}",
            action="Binding",
        )
        if waiting is not None:
            self._metrics.bound(waiting.attempts, max(0.0, self._now() - waiting.added))

    def _complain(self, pod: Pod, what: str, error: ClientError) -> None:
        if not is_ordinary(error):
            self._throttled.warning(cause_of(error), "Pod %s/%s %s: %s", *pod.key, what, error)

    def _leave_out(self, error: ClientError) -> None:
        """Disables extended resources if the server does not keep the fields for them."""
        if isinstance(error, NotKept) and _EXTENDED in error.field:
            _logger.warning("devices serve no extended resources from now on: %s", error)
            self._scheduler.leave_out_extended()

    async def _explain(self, work: _Work, error: ClientError) -> None:
        pod = work.action.pod
        if self._scheduler.queue.get(pod.uid) is None:
            return
        self._events.warning(reference(pod.document), "FailedScheduling", str(error), action="Scheduling")
        try:
            await self._pods.explain(pod, SCHEDULER_ERROR, str(error))
        except ClientError as problem:
            _logger.debug("Pod %s/%s does not say why it is not bound: %s", *pod.key, problem)

    def _leave(self, work: _Work) -> None:
        if self._log is not None and work.transaction is not None:
            self._log.finish(work.transaction)

    async def _write_claims(self, work: _Work, *, with_devices: bool = False) -> None:
        """Writes the claims. All are prepared before the first is written, and entered in the intent log in between.

        With `with_devices` only claims are written that are allocated now.
        """
        shared = self._log is not None and work.transaction is not None
        writes = [each for each in work.action.writes if each.allocation is not None or not with_devices]
        prepared: dict[int, Object] = {}
        await _all([self._prepare(work, number, write, prepared) for number, write in enumerate(writes)])
        if self._log is not None and work.transaction is not None:
            allocated = [(prepared[n], each.allocation) for n, each in enumerate(writes) if each.allocation is not None]
            await self._log.enter(work.transaction, allocated)
        await _all([self._put_claim(work, write, prepared[n], exactly=shared) for n, write in enumerate(writes)])

    async def _prepare(self, work: _Work, number: int, write: ClaimWrite, prepared: dict[int, Object]) -> None:
        prepared[number] = await self._claims.prepare(work.action.pod, write)
        if write.special:
            work.special = prepared[number]
            self._metrics.claims_created.labels("success", "false", "core", "Pod").inc()

    async def _put_claim(self, work: _Work, write: ClaimWrite, claim: Object, *, exactly: bool) -> None:
        exactly = exactly and write.allocation is not None
        claim = await self._claims.write(write.consumer, claim, write.allocation, exactly=exactly)
        self._scheduler.written(work.action, write, claim, self._now())
        if write.special:
            work.special = claim
        else:
            work.written.append((claim, str(write.consumer["uid"])))
        if field := dropped(write.allocation, allocation_of(claim)):
            raise NotKept(f"status.allocation.{field} of claims")

    async def _write_pod(self, work: _Work) -> None:
        action, status = work.action, dict[str, Any]()
        if work.special is not None:
            status[_EXTENDED] = {
                "resourceClaimName": work.special["metadata"]["name"],
                "requestMappings": list(action.mappings),
            }
        if action.node_allocatable:
            status[_NODE_ALLOCATABLE] = list(action.node_allocatable)
        elif status_of(action.pod.document).get(_NODE_ALLOCATABLE):
            # The entry of an attempt that failed is removed.
            status[_NODE_ALLOCATABLE] = None
        if status:
            kept = await self._pods.patch_status(action.pod, status)
            if field := dropped(status, kept.get("status")):
                raise NotKept(f"status.{field} of pods")

    async def _ready(self, work: _Work) -> None:
        """Waits for the conditions that devices must meet before a pod is bound."""
        claims, pod = work.claims, work.action.pod
        drivers = [
            driver
            for claim in (*(each for each, _ in work.written), work.special)
            if claim
            for driver in _conditional(claim)
        ]
        if not drivers and self._scheduler.binding_of(claims, self._now()) is Binding.READY:
            return
        loop = asyncio.get_running_loop()
        began = loop.time()
        self._events.normal(
            reference(pod.document),
            "BindingConditionsPending",
            f"waiting for binding conditions for device on node {work.action.node}",
            action="Scheduling",
        )
        while (state := self._scheduler.binding_of(claims, self._now())) is Binding.PENDING:
            if self._scheduler.queue.get(pod.uid) is None:
                raise PodGone("the pod is gone")
            await asyncio.sleep(min(_POLL_SECONDS, 0.05 + (loop.time() - began) / 10))
        status = {Binding.READY: "success", Binding.FAILED: "failure"}.get(state, "timeout")
        for driver in drivers:
            self._metrics.waited(driver, status, loop.time() - began)
        if state is not Binding.READY:
            raise NotReady(self._scheduler.binding_problem(claims, self._now()))

    async def _take_back(self, work: _Work, *, keeping: bool, whole: bool) -> None:
        """Removes the pod from the consumers of its claims, and deallocates claims without other consumers.

        With `keeping` claims stay allocated: the next attempt of the pod finds that their devices did not become ready.
        """
        undoing: list[Any] = [
            self._leave_claim(claim, uid, keeping) for claim, uid in work.written if whole or uid == work.action.pod.uid
        ]
        if work.special is not None:
            undoing.append(self._discard(work.special))
        for result in await asyncio.gather(*undoing, return_exceptions=True):
            if isinstance(result, ClientError):
                # The claim controller removes consumers that do not run, and the next attempt handles the rest.
                _logger.debug("a claim of Pod %s/%s is left as it is: %s", *work.action.pod.key, result)
            elif result is not None:
                raise result

    async def _discard(self, claim: Object) -> None:
        await self._claims.discard(claim)
        # A watch that was interrupted meanwhile never shows the claim or its deletion.
        self._scheduler.remove("ResourceClaim", claim, self._now())

    async def _leave_claim(self, claim: Object, uid: str, keeping: bool) -> None:
        # The watch may be late, and the next attempt would assume that the claim is reserved for the pod.
        claim = await self._claims.leave(uid, claim, keeping=keeping)
        self._scheduler.put("ResourceClaim", claim, self._now())


async def _all(writes: list[Any], at_once: int = _AT_ONCE) -> None:
    """Awaits all writes, even if one fails, so that it is known what was written. Raises the first error."""
    if len(writes) == 1:
        await writes[0]
        return
    results: list[Any] = []
    begun = 0
    try:
        # The number of writes at the same time is limited, so that other pods can write too.
        while begun < len(writes):
            batch = writes[begun : begun + at_once]
            begun += len(batch)
            results += await asyncio.gather(*batch, return_exceptions=True)
    finally:
        for write in writes[begun:]:
            write.close()
    for result in results:
        if isinstance(result, BaseException):
            raise result


def _conditional(claim: Object) -> list[str]:
    """Returns the drivers of the claim's devices that have binding conditions."""
    return [result["driver"] for result in results_of(claim) if result.get("bindingConditions")]


def reference(document: Object) -> Object:
    """Objects in lists do not say what they are."""
    return {"apiVersion": "v1", "kind": "Pod", **document}


def is_ordinary(error: ClientError) -> bool:
    """Losing a race, or a pod that is gone."""
    return isinstance(error, Conflict | NotFound | Elsewhere | Lost | PodGone)
