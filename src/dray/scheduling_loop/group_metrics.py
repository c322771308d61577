"""Metrics of groups and queues, looked up when somebody asks for them: nothing is counted per pod meanwhile."""

from __future__ import annotations

from collections import Counter as Counts
from collections.abc import Iterator
from typing import Final

from prometheus_client import CollectorRegistry, Counter
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from dray.scheduling.scheduler import Scheduler

_PODS: Final = "dray_queue_pods"
_USED: Final = "dray_queue_used"


class GroupMetrics(Collector):
    def __init__(self, registry: CollectorRegistry, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._attempts = Counter(
            "dray_scheduler_group_attempts_total",
            "Attempts to place groups of pods, by result.",
            ("result",),
            registry=registry,
        )
        registry.register(self)

    def attempted(self, result: str) -> None:
        self._attempts.labels(result).inc()

    def describe(self) -> list[Metric]:
        """Known before anything is read of the scheduler."""
        return []

    def collect(self) -> Iterator[Metric]:
        yield from self._groups()
        yield from self._queues()

    def _groups(self) -> Iterator[Metric]:
        reservations = self._scheduler.reservations
        waiting = {each.pod.group for each in self._scheduler.queue.all() if each.pod.group is not None}
        yield GaugeMetricFamily("dray_scheduler_waiting_groups", "Groups with pods that wait.", value=len(waiting))
        without_room = len(reservations.waiting)
        yield GaugeMetricFamily(
            "dray_scheduler_groups_without_room", "Groups that wait for nothing but room.", value=without_room
        )
        yield GaugeMetricFamily(
            "dray_scheduler_groups_with_reservation",
            "Groups for which room is reserved.",
            value=int(reservations.active),
        )
        kept = CounterMetricFamily(
            "dray_scheduler_reservations_total",
            "Reservations of room for groups, and those in vain.",
            labels=("result",),
        )
        kept.add_metric(("begun",), reservations.begun)
        kept.add_metric(("given_up",), reservations.given_up)
        yield kept

    def _queues(self) -> Iterator[Metric]:
        pods = GaugeMetricFamily(_PODS, "Pods of queues, admitted or waiting.", labels=("api", "queue", "state"))
        used = GaugeMetricFamily(
            _USED, "What the pods of a queue have; cpu in thousandths.", labels=("api", "queue", "flavor", "resource")
        )
        waiting = self._waiting()
        for policy in self._scheduler.state.queues.policies:
            api = policy.label.partition("/")[0]
            for queue, number in policy.charges.admitted().items():
                pods.add_metric((api, queue, "admitted"), number)
            for (queue, asset), amount in policy.charges.totals().items():
                used.add_metric((api, queue, asset.flavor, asset.resource), amount)
            for (label, queue), number in waiting.items():
                if label == policy.label:
                    pods.add_metric((api, queue, "waiting"), number)
        yield pods
        yield used

    def _waiting(self) -> Counts[tuple[str, str]]:
        """Counts pods by label of the queue system and queue."""
        found: Counts[tuple[str, str]] = Counts()
        queues = self._scheduler.state.queues
        for each in self._scheduler.queue.all():
            member = queues.member(each.pod)
            if member is not None and each.pod.uid not in self._scheduler.in_flight:
                found[member.policy.label, member.queue] += 1
        return found
