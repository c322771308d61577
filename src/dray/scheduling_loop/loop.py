"""The loop around the scheduler: events go in, and what comes out is written to the API server.

Decisions are made one after the other; their writes overlap, up to a number at a time. How a write ended is told to the
scheduler before the next decision that could depend on it. The loop may be cancelled at any moment: what was not
written is found again from the API by whoever starts next.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Protocol

from prometheus_client import CollectorRegistry

from dray.client.api import ApiClient
from dray.client.clock import SystemTime, TimeOfDay, forward_seconds
from dray.client.errors import ClientError
from dray.client.events import EventRecorder
from dray.client.informer import Informers
from dray.client.log_throttling import ThrottledLog, cause_of
from dray.client.retries import Retries
from dray.process.loop_watch import WARN
from dray.process.tasks import end_tasks
from dray.scheduling.groups import native
from dray.scheduling.model.actions import (
    SCHEDULER_ERROR,
    Action,
    Bind,
    BindGroup,
    Preemption,
    Refuse,
)
from dray.scheduling.model.pod import Pod
from dray.scheduling.scheduler import Options, Scheduler
from dray.scheduling_loop import decisions, volumes
from dray.scheduling_loop.binding import Binder, is_ordinary, reference
from dray.scheduling_loop.claim_writes import ClaimWriter
from dray.scheduling_loop.doubles import Doubles
from dray.scheduling_loop.faults import Faults, PluginReports
from dray.scheduling_loop.feed import CLAIMS, feed
from dray.scheduling_loop.group_metrics import GroupMetrics
from dray.scheduling_loop.group_writes import GroupWriter
from dray.scheduling_loop.intent_log import PATIENCE, IntentLog, Transaction
from dray.scheduling_loop.metrics import Metrics
from dray.scheduling_loop.optional_feed import OptionalFeed
from dray.scheduling_loop.plugin_watchdog import PluginWatchdog
from dray.scheduling_loop.pod_writes import PodWriter
from dray.scheduling_loop.preemption_reasons import preemption_reason
from dray.scheduling_loop.queue_systems.queue_system import FeedContext
from dray.scheduling_loop.queue_systems.systems import SYSTEMS
from dray.scheduling_loop.searching import Searcher

_MOST_WRITES: Final = 128
# The number of consecutive decisions before other tasks of the process run.
_IN_A_ROW: Final = 8
# A decision that takes at least so many seconds counts as that many decisions.
_LONG: Final = 0.005
_LAST_SECONDS: Final = 5.0
# A clock that differs by at least so many seconds was set, not adjusted.
_JUMP: Final = 5.0
_GATES: Final = {native.KIND: "GenericWorkload", native.COMPOSITE: "CompositePodGroup"}
_logger = logging.getLogger("dray.scheduler")


@dataclass(frozen=True, slots=True)
class Sharing:
    """Options for several schedulers that work at the same time: the namespace of their intent log, and the identity of
    this scheduler, which must be new each time it is started."""

    namespace: str
    identity: str
    patience: float = PATIENCE


class _Running(Protocol):
    async def run(self) -> None: ...


class SchedulerLoop:
    """The loop around the scheduler. Without `sharing`, no other scheduler may allocate devices at the same time."""

    def __init__(
        self,
        client: ApiClient,
        informers: Informers,
        events: EventRecorder,
        options: Options | None = None,
        *,
        time: TimeOfDay | None = None,
        metrics: CollectorRegistry | None = None,
        sharing: Sharing | None = None,
        retries: Retries | None = None,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        """`changed` is called when a plugin of a user is switched off."""
        options, metrics = options or Options(), metrics or CollectorRegistry()
        self._events = events
        self.metrics = Metrics(metrics, options.name)
        self._faults = Faults(events, self.metrics.faults)
        self.plugins = PluginReports(metrics, options.unloaded_plugins, changed)
        self._watchdog = PluginWatchdog()
        self.scheduler = Scheduler(
            options, self._faults.report, plugin_fault=self.plugins.fault, watchdog=self._watchdog
        )
        self.plugins.follow(self.scheduler.user_plugins)
        self._client = client
        self._informers = informers
        self._time = time or SystemTime()
        self.now = forward_seconds(self._time)
        name = self.scheduler.options.name
        self._claims = ClaimWriter(client, lambda: datetime.fromtimestamp(self.now(), UTC), retries)
        self._pods = PodWriter(client, name, self._time.now, retries)
        self.metrics.follow(self.scheduler.queue)
        self.group_metrics = GroupMetrics(metrics, self.scheduler)
        self._throttled = ThrottledLog(_logger)
        self._wake = asyncio.Event()
        self._slots = asyncio.Semaphore(_MOST_WRITES)
        self._writing: set[asyncio.Task[None]] = set()
        self._saying: dict[str, asyncio.Task[None]] = {}
        """The tasks that write why pods wait, by pod uid. The next write about a pod waits for its task."""
        self._prepared = False
        feed(self.scheduler, informers, self.now, self._wake.set, self._faults.set_aside)
        self._follow_optional_kinds(client, informers, events)
        self._doubles = Doubles(self.scheduler.state, informers.of(CLAIMS), events, self.metrics)
        self._log = self._made(client, sharing) if sharing is not None else None
        placed = volumes.VolumeWriter(client, self.scheduler.state.volumes, self.now)
        self._searcher = Searcher(self.scheduler, self.now, self._wake.set)
        self._binder = Binder(
            self.scheduler, self._claims, self._pods, placed, events, self.metrics, self.now, log=self._log
        )

    def _follow_optional_kinds(self, client: ApiClient, informers: Informers, events: EventRecorder) -> None:
        scheduler, now, wake = self.scheduler, self.now, self._wake.set
        gates = scheduler.options.gates
        without = [kind for kind, gate in _GATES.items() if not gates[gate]]
        self._kinds = OptionalFeed(client, informers, events, scheduler, now, wake, self._faults.set_aside, without)
        self._group_writer = GroupWriter(client, self._kinds, scheduler.state.groups, events, self._time.now)
        context = FeedContext(client, self._kinds, scheduler, events, self._pods, now, wake, self._stop)
        self._queue_systems = [make(context) for each in SYSTEMS for make in each.feeds]

    def _made(self, client: ApiClient, sharing: Sharing) -> IntentLog:
        return IntentLog(
            client,
            self.scheduler.state,
            self._informers.of(CLAIMS),
            namespace=sharing.namespace,
            identity=sharing.identity,
            patience=sharing.patience,
            changed=self._wake.set,
        )

    def troubles(self) -> list[str]:
        """Returns an error for each kind that was installed while the loop runs and cannot be listed."""
        return self._kinds.troubles()

    async def prepare(self) -> None:
        """Returns when all objects are known that decisions depend on; never, if a permission is missing. Runs once."""
        if self._prepared:
            return
        await self._kinds.start()
        for each in self._queue_systems:
            await each.start()
        await volumes.follow(self._client, self._informers, self.scheduler, self.now, self._wake.set)
        await self._informers.synced()
        self._prepared = True

    async def run(self) -> None:
        """Runs until it is cancelled. Writes in progress are then finished, within a time limit."""
        await self.prepare()
        beside: list[_Running] = [
            self._kinds,
            self._doubles,
            self._searcher,
            *self._queue_systems,
            *([self._log] if self._log else []),
        ]
        # If one of the tasks fails, all end, and the caller starts the loop again.
        async with asyncio.TaskGroup() as tasks:
            for each in beside:
                tasks.create_task(each.run())
            try:
                if self._log is not None:
                    await self._log.synced()
                await self._decide()
            finally:
                await self._finish_writing()
                self._watchdog.close()

    async def _finish_writing(self) -> None:
        if self._writing:
            await asyncio.wait(self._writing, timeout=_LAST_SECONDS)
        await end_tasks(self._writing)

    async def idle(self) -> None:
        """Returns when there is nothing to decide or to write at the moment."""
        while self._writing or self._wake.is_set() or self.scheduler.interrupted:
            await asyncio.sleep(0.005)

    async def _decide(self) -> None:
        loop = asyncio.get_running_loop()
        in_a_row = 0
        offset = self.now() - loop.time()
        while True:
            self._wake.clear()
            began = loop.time()
            now = self.now()
            offset = self._follow_clock(now - began, offset)
            action = self.scheduler.next(now)
            if action is None:
                in_a_row = 0
                await (asyncio.sleep(0) if self.scheduler.interrupted else self._pause())
                continue
            took = loop.time() - began
            self.metrics.algorithm_seconds.observe(took)
            if took > WARN:
                _logger.warning("deciding on %s took %.1f s", decisions.title(action), took)
            self._searcher.wake()
            transactions = [self._log.begin(each) if self._log is not None else None for each in _binds(action)]
            await self._slots.acquire()
            self._start(action, transactions, began)
            in_a_row += 1 if took < _LONG else _IN_A_ROW
            if in_a_row >= _IN_A_ROW:
                in_a_row = 0
                await asyncio.sleep(0)

    def _follow_clock(self, differs: float, offset: float) -> float:
        """Tells the scheduler if the clock was set; `differs` is the difference between time of day and time of the
        loop."""
        if abs(differs - offset) < _JUMP:
            return offset
        _logger.warning("the clock was set by %+.0f s", differs - offset)
        self.scheduler.clock_set(differs - offset)
        return differs

    async def _pause(self) -> None:
        """Waits for the next event, or until something is due."""
        due = self.scheduler.due()
        try:
            async with asyncio.timeout(max(0.0, due - self.now()) if due is not None else None):
                await self._wake.wait()
        except TimeoutError:
            pass

    def _start(self, action: Action, transactions: list[Transaction | None], began: float) -> None:
        uids = [each.uid for each in _pods(action)]
        before = {self._saying[uid] for uid in uids if uid in self._saying}
        task = asyncio.create_task(self._do(action, transactions, began, before))
        if isinstance(action, Refuse):
            self._saying.update(dict.fromkeys(uids, task))
            task.add_done_callback(lambda _: self._said(uids, task))
        self._writing.add(task)
        task.add_done_callback(self._done)

    def _said(self, uids: list[str], task: asyncio.Task[None]) -> None:
        for uid in uids:
            if self._saying.get(uid) is task:
                del self._saying[uid]

    def _done(self, task: asyncio.Task[None]) -> None:
        self._writing.discard(task)
        self._slots.release()
        self._wake.set()
        if not task.cancelled() and (error := task.exception()) is not None:
            _logger.error("a decision could not be carried out", exc_info=error)

    async def _do(
        self, action: Action, transactions: list[Transaction | None], began: float, before: set[asyncio.Task[None]]
    ) -> None:
        loop = asyncio.get_running_loop()
        if before:
            await asyncio.wait(before)
        if isinstance(action, Bind | BindGroup):
            result = "scheduled" if await self._bind(action, transactions) else "error"
        else:
            await self._refuse(action)
            if action.news:
                self._note(action)
            result = "error" if action.reason == SCHEDULER_ERROR else "unschedulable"
        self.metrics.attempted(result, loop.time() - began)
        if not isinstance(action, Bind) and action.group is not None:
            self.group_metrics.attempted(result)

    async def _bind(self, action: Bind | BindGroup, transactions: list[Transaction | None]) -> bool:
        if isinstance(action, Bind):
            done = await self._binder.bind(action, transactions[0])
        else:
            done = await self._binder.bind_group(action.binds, transactions)
        self._note(action, done=done)
        pods = [each for each in _pods(action) if each.group is not None]
        if done and pods:
            await self._group_writer.scheduled(pods)
            for each in self._queue_systems:
                await each.scheduled(pods[0])
        return done

    def _note(self, action: Action, *, done: bool = True) -> None:
        if _logger.isEnabledFor(logging.INFO):
            _logger.info("%s", decisions.line(action, done=done))

    # Refusing

    async def _refuse(self, action: Refuse) -> None:
        preemption, group = action.preemption, action.group
        try:
            for claim in action.release:
                self.scheduler.put("ResourceClaim", await self._claims.release(claim), self.now())
            for claim in action.discard:
                await self._claims.discard(claim)
                self.scheduler.remove("ResourceClaim", claim, self.now())
            if preemption is not None and preemption.victims:
                await self._evict(action.pod, preemption, _preemptor(action, preemption))
            if group is not None:
                await self._group_writer.refused(group, action)
                for system in self._queue_systems:
                    await system.refused(group, action)
            for pod in action.pods:
                await self._explain(pod, action)
        except ClientError as error:
            if not is_ordinary(error):
                self._throttled.warning(cause_of(error), "%s: %s", decisions.title(action), error)
            self.scheduler.refusal_failed(action, self.now())

    async def _explain(self, pod: Pod, action: Refuse) -> None:
        """Writes to the pod why it waits, and its nominated node."""
        place = action.preemption.places.get(pod.uid) if action.preemption is not None else None
        if action.news:
            self._events.warning(reference(pod.document), "FailedScheduling", action.message, action="Scheduling")
        if action.news or place is not None or action.group is not None:
            await self._pods.explain(pod, action.reason, action.message, place.node if place is not None else "")

    async def _stop(self, pod: Pod, queue: str) -> None:
        """Evicts a pod because its queue is stopped."""
        await self._pods.evict(pod, stopped=queue)
        self._events.normal(reference(pod.document), "Stopped", f"{queue} is stopped and drained", action="Evicting")
        await self._group_writer.disrupted((pod,), f"{queue.split()[0]}Stopped", f"{queue} is stopped and drained")

    async def _evict(self, preemptor: Pod, preemption: Preemption, title: str) -> None:
        """Evicts the victims; their events and conditions name the preemptor by its title, and say why."""
        victims, queues = preemption.victims, self.scheduler.state.queues
        self.metrics.preemptions.inc()
        self.metrics.victims.observe(len(victims))
        # The reasons are found before the evictions, since the queue of a deleted pod is not known.
        reasons = [preemption_reason(queues, preemptor, each, reclaims=preemption.reclaims) for each in victims]
        for victim, reason in zip(victims, reasons, strict=True):
            await self._pods.evict(victim, reason)
            message = f"Preempted by {title}: {reason}" if reason else f"Preempted by {title}"
            self._events.normal(reference(victim.document), "Preempted", message, action="Preempting")
            if self.scheduler.state.evictions.is_limited(victim, self.now()):
                text = f"evicted again and again in turn with {title}: not evicted for it again within an hour"
                self._events.warning(reference(victim.document), "EvictionsLimited", text, action="Preempting")
        message = f"preempted by {title}: {reasons[0]}" if reasons[0] else f"preempted by {title}"
        await self._group_writer.disrupted(victims, "PreemptionByScheduler", message)


def _preemptor(action: Refuse, preemption: Preemption) -> str:
    """Returns the title of the pod or group that others are evicted for."""
    if action.group is not None:
        return f"{action.group.key.kind} {action.group.key.title}"
    return f"pod {'/'.join(action.pod.key)} on node {preemption.places[action.pod.uid].node}"


def _binds(action: Action) -> tuple[Bind, ...]:
    if isinstance(action, Bind):
        return (action,)
    return action.binds if isinstance(action, BindGroup) else ()


def _pods(action: Action) -> tuple[Pod, ...]:
    """Returns all pods of the action."""
    if isinstance(action, BindGroup):
        return tuple(each.pod for each in action.binds)
    return action.pods if isinstance(action, Refuse) else (action.pod,)
