"""The loop around the scheduler: events go in, and what comes out is written to the API server.

Decisions are made one after the other; their writes overlap, up to a number at a time. How a write ended is told to the
scheduler before the next decision that could depend on it. The loop may be cancelled at any moment: what was not
written is found again from the API by whoever starts next.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, Final

from prometheus_client import CollectorRegistry

from dray.client.clock import SystemTime, TimeOfDay
from dray.client.discovery import OptionalInformer
from dray.client.errors import ApiError, ClientError
from dray.client.events import EventRecorder
from dray.client.informers import Informers
from dray.client.interface import Client, Object
from dray.scheduler.claim_writes import ClaimWriter
from dray.scheduler.feed import feed
from dray.scheduler.metrics import Metrics
from dray.scheduler.pod_writes import PodWriter
from dray.scheduling.actions import SCHEDULER_ERROR, Action, Bind, ClaimWrite, Refuse
from dray.scheduling.scheduler import Options, Scheduler
from dray.scheduling.wishes import Binding

_MOST_WRITES: Final = 128
# Decisions in a row before others in the process get a turn.
_IN_A_ROW: Final = 8
_POLL_SECONDS: Final = 5.0
_logger = logging.getLogger("dray.scheduler")


class NotReady(ClientError):
    """The devices of a claim did not become ready for the pod."""


class SchedulerLoop:
    def __init__(
        self,
        client: Client,
        informers: Informers,
        events: EventRecorder,
        options: Options | None = None,
        *,
        time: TimeOfDay | None = None,
        metrics: CollectorRegistry | None = None,
    ) -> None:
        self.scheduler = Scheduler(options)
        self._informers = informers
        self._events = events
        self._time = time or SystemTime()
        name = self.scheduler.options.name
        self._claims = ClaimWriter(client, self._time.now)
        self._pods = PodWriter(client, name, self._time.now)
        self.metrics = Metrics(metrics or CollectorRegistry(), name)
        self.metrics.follow(self.scheduler.queue)
        self._stirred = asyncio.Event()
        self._slots = asyncio.Semaphore(_MOST_WRITES)
        self._writing: set[asyncio.Task[None]] = set()
        self._taint_rules = OptionalInformer(client, informers, "resource.k8s.io", "devicetaintrules")
        feed(self.scheduler, informers, self.now, self._stirred.set, taint_rules=self._taint_rules)

    def now(self) -> float:
        return self._time.now().timestamp()

    async def run(self) -> None:
        """Until it is cancelled; what is being written then is finished first, for a moment."""
        await self._taint_rules.start()
        await self._informers.synced()
        looking = asyncio.create_task(self._taint_rules.run())
        try:
            await self._decide()
        finally:
            looking.cancel()
            if self._writing:
                await asyncio.wait(self._writing, timeout=5)

    async def idle(self) -> None:
        """Returns when there is nothing to decide or to write at the moment."""
        while self._writing or self._stirred.is_set():
            await asyncio.sleep(0.005)

    async def _decide(self) -> None:
        loop = asyncio.get_running_loop()
        in_a_row = 0
        while True:
            self._stirred.clear()
            began = loop.time()
            action = self.scheduler.next(self.now())
            if action is None:
                in_a_row = 0
                await self._pause()
                continue
            self.metrics.algorithm_seconds.observe(loop.time() - began)
            await self._slots.acquire()
            self._start(self._do(action, began))
            in_a_row += 1
            if in_a_row >= _IN_A_ROW:
                in_a_row = 0
                await asyncio.sleep(0)

    async def _pause(self) -> None:
        """Until something happens or becomes due."""
        due = self.scheduler.due()
        try:
            async with asyncio.timeout(max(0.0, due - self.now()) if due is not None else None):
                await self._stirred.wait()
        except TimeoutError:
            pass

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._writing.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._writing.discard(task)
        self._slots.release()
        self._stirred.set()
        if not task.cancelled() and (error := task.exception()) is not None:
            _logger.error("a decision could not be carried out", exc_info=error)

    async def _do(self, action: Action, began: float) -> None:
        loop = asyncio.get_running_loop()
        if isinstance(action, Bind):
            result = "scheduled" if await self._bind(action) else "error"
        else:
            await self._refuse(action)
            result = "error" if action.reason == SCHEDULER_ERROR else "unschedulable"
        self.metrics.attempted(result, loop.time() - began)

    # Binding

    async def _bind(self, action: Bind) -> bool:
        pod, written = action.pod, list[Object]()
        waiting = self.scheduler.queue.get(pod.uid)
        try:
            await self._write_claims(action, written)
            await self._write_pod(action, written)
            await self._ready(action, written)
            await self._pods.bind(pod, action.node)
        except ClientError as error:
            _logger.log(_level(error), "pod %s/%s is not bound to %s: %s", *pod.key, action.node, error)
            await self._take_back(action, written)
            self.scheduler.failed(action, self.now())
            if not _ordinary(error):
                self._events.warning(_reference(pod.document), "FailedScheduling", str(error), action="Scheduling")
            return False
        except BaseException:
            self.scheduler.failed(action, self.now())
            raise
        self.scheduler.bound(action, self.now())
        self._events.normal(
            _reference(pod.document),
            "Scheduled",
            f"Successfully assigned {pod.key[0]}/{pod.key[1]} to {action.node}",
            action="Binding",
        )
        if waiting is not None:
            self.metrics.sli_seconds.labels(str(min(waiting.attempts, 16))).observe(self.now() - waiting.added)
            self.metrics.pod_attempts.observe(waiting.attempts)
        return True

    async def _write_claims(self, action: Bind, written: list[Object]) -> None:
        if len(action.writes) == 1:
            await self._write_claim(action, action.writes[0], written)
            return
        # All are waited for even if one fails, so that what was written is known.
        writes = (self._write_claim(action, write, written) for write in action.writes)
        results = await asyncio.gather(*writes, return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result

    async def _write_claim(self, action: Bind, write: ClaimWrite, written: list[Object]) -> None:
        claim = await self._claims.write(action.pod, write)
        written.append(claim)
        self.scheduler.written(action, write, claim, self.now())
        if write.special:
            self.metrics.claims_created.labels("success", "false", "core", "Pod").inc()

    async def _write_pod(self, action: Bind, written: list[Object]) -> None:
        status: dict[str, Any] = {}
        if action.mappings:
            special = written[-1]["metadata"]["name"]
            status["extendedResourceClaimStatus"] = {
                "resourceClaimName": special,
                "requestMappings": list(action.mappings),
            }
        if action.charges:
            status["nodeAllocatableResourceClaimStatuses"] = list(action.charges)
        if status:
            await self._pods.patch_status(action.pod, status)

    async def _ready(self, action: Bind, written: list[Object]) -> None:
        """Waits for the conditions that devices must meet before a pod is bound."""
        claims = (*action.claims, *written[len(action.claims) :])
        drivers = [
            result["driver"]
            for claim in written
            for result in claim["status"]["allocation"]["devices"].get("results") or ()
            if result.get("bindingConditions")
        ]
        if not drivers and self.scheduler.binding_of(claims, self.now()) is Binding.READY:
            return
        began = self.now()
        self._events.normal(
            _reference(action.pod.document),
            "BindingConditionsPending",
            f"waiting for binding conditions for device on node {action.node}",
            action="Scheduling",
        )
        while (state := self.scheduler.binding_of(claims, self.now())) is Binding.PENDING:
            if self.scheduler.queue.get(action.pod.uid) is None:
                raise NotReady("the pod is gone")
            await asyncio.sleep(min(_POLL_SECONDS, 0.05 + (self.now() - began) / 10))
        status = {Binding.READY: "success", Binding.FAILED: "failure"}.get(state, "timeout")
        for driver in drivers:
            self.metrics.waited(driver, status, self.now() - began)
        if state is not Binding.READY:
            names = ", ".join(claim["metadata"]["name"] for claim in claims)
            raise NotReady(f"device binding {'failed' if state is Binding.FAILED else 'timeout'}: claim={names}")

    async def _take_back(self, action: Bind, written: list[Object]) -> None:
        """Claims keep their devices, but not for this pod; the next attempt sees what to do with them."""
        for claim in written:
            special = any(write.special for write in action.writes) and claim is written[-1]
            try:
                await (self._claims.discard(claim) if special else self._claims.unreserve(action.pod, claim))
            except ClientError as error:
                # The claim controller takes out consumers that do not run.
                _logger.debug("claim %s keeps a consumer: %s", claim["metadata"]["name"], error)

    # Refusing

    async def _refuse(self, action: Refuse) -> None:
        pod, preemption = action.pod, action.preemption
        try:
            if action.release is not None:
                await self._claims.release(action.release)
            if action.discard is not None:
                await self._claims.discard(action.discard)
            if preemption is not None:
                await self._preempt(action)
            if action.news:
                self._events.warning(_reference(pod.document), "FailedScheduling", action.message, action="Scheduling")
                nominated = preemption.node if preemption is not None else ""
                await self._pods.explain(pod, action.reason, action.message, nominated)
        except ClientError as error:
            _logger.log(_level(error), "pod %s/%s: %s", *pod.key, error)
            self.scheduler.unsaid(action, self.now())

    async def _preempt(self, action: Refuse) -> None:
        preemption = action.preemption
        assert preemption is not None
        self.metrics.preemptions.inc()
        self.metrics.victims.observe(len(preemption.victims))
        for victim in preemption.victims:
            await self._pods.evict(victim)
            self._events.normal(
                _reference(victim.document),
                "Preempted",
                f"Preempted by pod {action.pod.key[0]}/{action.pod.key[1]} on node {preemption.node}",
                action="Preempting",
            )


def _reference(document: Object) -> Object:
    """Objects in lists do not say what they are."""
    return {"apiVersion": "v1", "kind": "Pod", **document}


def _ordinary(error: ClientError) -> bool:
    """Losing a race, or a pod that is gone."""
    return isinstance(error, ApiError) and (error.is_conflict or error.is_not_found)


def _level(error: ClientError) -> int:
    return logging.DEBUG if _ordinary(error) else logging.WARNING
