"""Context: the parts of a scheduler that attempts and events share, and how pods are enqueued."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dray.api.objects import key_of
from dray.scheduling.attempts.gate_reports import GateReports
from dray.scheduling.attempts.queueing_hints import QueueingHints
from dray.scheduling.cluster.claim_assume_cache import CLAIM
from dray.scheduling.core.framework import Framework
from dray.scheduling.core.guarded_plugin import FaultReport, GuardedPlugin, Watchdog
from dray.scheduling.core.nominations import Nominations
from dray.scheduling.core.options import Options
from dray.scheduling.core.state import State
from dray.scheduling.eviction.group_preemption import GroupPreemptor
from dray.scheduling.eviction.preemption import Preemptor
from dray.scheduling.eviction.reclaim import Reclaimer
from dray.scheduling.eviction.vain_evictions import VainEvictions
from dray.scheduling.model.faults import Report
from dray.scheduling.model.group import pod_key
from dray.scheduling.model.pod import Pod
from dray.scheduling.model.reasons import ObjectRef
from dray.scheduling.model.status import Status
from dray.scheduling.placement.algorithm import Placement, SchedulingAlgorithm
from dray.scheduling.placement.group_placement import GroupPlacer
from dray.scheduling.plugins import default_plugins, score_weights
from dray.scheduling.plugins.dynamic_resources import DynamicResources
from dray.scheduling.reservations.place_search import PlaceSearch
from dray.scheduling.reservations.reserved_places import ReservedPlaces
from dray.scheduling.waiting.queue import Queue
from dray.scheduling.waiting.queued_pods import QueuedPod, SubQueue
from dray.scheduling.waiting.reported_reasons import ReportedReasons
from dray.scheduling.waiting.wait_index import WaitIndex


@dataclass(frozen=True, slots=True)
class InFlightBinding:
    queued: QueuedPod
    placement: Placement


class Context:
    def __init__(self, options: Options, report: Report, plugin_fault: FaultReport, watchdog: Watchdog) -> None:
        self.options = options
        self.state = state = State(gates=options.gates, seed=options.seed, report=report)
        self.queue = queue = Queue(report, state.groups.stage)
        self.user_plugins = [GuardedPlugin(plugin, state, watchdog, plugin_fault) for plugin in options.plugins]
        plugins = default_plugins(
            state,
            policy=options.policy,
            binding_timeout=options.binding_timeout,
            more=self.user_plugins,
        )
        self.devices = next(plugin for plugin in plugins if isinstance(plugin, DynamicResources))
        self.framework = Framework(state, plugins, score_weights(plugins, options.policy))
        self.algorithm = SchedulingAlgorithm(state, self.framework, self.devices, options.policy)
        self.placer = GroupPlacer(state, self.framework, self.algorithm, self.devices)
        vain = VainEvictions(state, self.framework, self.algorithm, self._waiting)
        self.preemptor = Preemptor(
            state, self.algorithm, vain, lambda uid: queue.get(uid) is not None, for_devices=options.preempt_for_devices
        )
        self.group_preemptor = GroupPreemptor(state, self.preemptor, self.placer)
        self.reclaimer = Reclaimer(state, self.framework, self.algorithm, self.preemptor, self.placer)
        self.nominations = Nominations(state)
        self.reservations = ReservedPlaces(self.nominations, queue, options.reservation_seconds)
        self.place_search = PlaceSearch(state, self.preemptor)
        hints = QueueingHints(state, queue, self.framework, self.preemptor, self.nominations)
        self.waits = WaitIndex(state, queue, hints, self.enqueue)
        self.reasons = ReportedReasons(queue)
        self.gate_reports = GateReports()
        self.in_flight: dict[str, InFlightBinding] = {}
        """The bindings in flight, by pod uid."""

    def _waiting(self, priority: int) -> Iterator[Pod]:
        """Yields waiting pods of a higher priority: the first pod of each entry, and pods that are tried next."""
        for entry in self.queue.entries:
            first = entry.first()
            if first is not None and first.pod.priority > priority:
                yield first.pod
        yield from self.queue.more_urgent(priority)

    def enqueue(self, queued: QueuedPod, now: float) -> None:
        """Moves a pod to the active queue, or gates it if a plugin rejects it in `pre_enqueue`."""
        # A pod in backoff waits until its end, whatever changed.
        if queued.subqueue in (SubQueue.IN_FLIGHT, SubQueue.BACKOFF):
            return
        pod = queued.pod
        try:
            status = self.framework.pre_enqueue(pod)
            if status is not None:
                self.waits.objects.set(pod.uid, status.waits_for)
                self.queue.gate(queued, now)
                self.gate_reports.put(pod.uid, status, now)
                self.state.groups.ready(pod, is_ready=False)
                # No place and no quota is kept for a gated pod.
                self.nominations.drop(pod.uid)
                self.reservations.forget(pod_key(pod.key))
                self.state.queues.forget(pod)
                self.waits.forget_quota(pod.uid)
                return
            resolved = self.state.claims.resolve(pod.document)
            assert not isinstance(resolved, Status)
            self.waits.objects.set(pod.uid, tuple([ObjectRef(CLAIM, *key_of(claim)) for _, claim in resolved]))
        except Exception:
            # The attempt reports the error.
            pass
        self.gate_reports.remove(pod.uid)
        if pod.joins:
            self.state.groups.ready(pod, is_ready=True)
            self.queue.take_turn(queued, self.state.queues.wait(pod, queued.arrival))
        self.queue.activate(queued, now)
