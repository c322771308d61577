"""The scheduler's metrics, under the names Kubernetes gives them."""

from __future__ import annotations

from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from dray.scheduling.waiting.queue import Queue
from dray.scheduling.waiting.queued_pods import SubQueue

_SECONDS = tuple(0.001 * 2**step for step in range(15))
_LONG = tuple(0.01 * 2**step for step in range(20))
_BINDING = tuple(0.1 * 2**step for step in range(14))
_QUEUES = {each: each.value for each in SubQueue if each is not SubQueue.IN_FLIGHT}


class Metrics:
    def __init__(self, registry: CollectorRegistry, profile: str) -> None:
        self._profile = profile
        counter = partial(Counter, registry=registry)
        histogram = partial(Histogram, registry=registry)
        by_result, by_condition = ("result", "profile"), ("profile", "driver", "status")
        by_owner = ("status", "admin_access", "owner_api_group", "owner_api_kind")
        self._attempts = counter(
            "scheduler_schedule_attempts_total", "Attempts to schedule pods, by result.", by_result
        )
        self._attempt_seconds = histogram(
            "scheduler_scheduling_attempt_duration_seconds",
            "How long an attempt took, binding included.",
            by_result,
            buckets=_SECONDS,
        )
        self._results: dict[str, tuple[Counter, Histogram]] = {}
        self.algorithm_seconds = histogram(
            "scheduler_scheduling_algorithm_duration_seconds", "How long a decision took.", buckets=_SECONDS
        )
        self._sli_seconds = histogram(
            "scheduler_pod_scheduling_sli_duration_seconds",
            "From when a pod could first be tried until it was bound.",
            ("attempts",),
            buckets=_LONG,
        )
        self._sli: dict[int, Histogram] = {}
        self._pod_attempts = histogram(
            "scheduler_pod_scheduling_attempts", "Attempts it took to bind a pod.", buckets=(1, 2, 4, 8, 16)
        )
        self._pending = Gauge("scheduler_pending_pods", "Pods that wait, by queue.", ("queue",), registry=registry)
        self.victims = histogram(
            "scheduler_preemption_victims", "Victims of one preemption.", buckets=(1, 2, 4, 8, 16, 32, 64)
        )
        self.preemptions = counter("scheduler_preemption_attempts_total", "Attempts to preempt.")
        self.faults = counter(
            "dray_scheduler_faults_total", "Errors in the scheduler that nobody expected, each about one object."
        )
        self._conditions = counter(
            "scheduler_dra_bindingconditions_allocations_total",
            "Devices whose binding conditions were waited for, by outcome.",
            by_condition,
        )
        self._conditions_seconds = histogram(
            "scheduler_dra_bindingconditions_wait_duration_seconds",
            "How long binding conditions were waited for.",
            by_condition,
            buckets=_BINDING,
        )
        self.held_twice = Gauge(
            "dray_devices_held_twice", "Devices that more than one claim holds, one of them alone.", registry=registry
        )
        self.claims_created = counter(
            "dynamic_resource_allocation_resourceclaim_creates_total", "Claims that were created.", by_owner
        )

    def attempted(self, result: str, seconds: float) -> None:
        known = self._results.get(result)
        if known is None:
            labels = (result, self._profile)
            known = self._results[result] = self._attempts.labels(*labels), self._attempt_seconds.labels(*labels)
        attempts, duration = known
        attempts.inc()
        duration.observe(seconds)

    def bound(self, attempts: int, seconds: float) -> None:
        """How many attempts it took to bind a pod, and how long since it could first be tried."""
        counted = min(attempts, 16)
        known = self._sli.get(counted)
        if known is None:
            known = self._sli[counted] = self._sli_seconds.labels(str(counted))
        known.observe(seconds)
        self._pod_attempts.observe(attempts)

    def waited(self, driver: str, status: str, seconds: float) -> None:
        self._conditions.labels(self._profile, driver, status).inc()
        self._conditions_seconds.labels(self._profile, driver, status).observe(seconds)

    def follow(self, queue: Queue) -> None:
        """The lengths of the queues are looked up when somebody asks for them."""
        for subqueue, name in _QUEUES.items():
            self._pending.labels(name).set_function(partial(_length, queue, subqueue))


def _length(queue: Queue, subqueue: SubQueue) -> float:
    return queue.counts()[subqueue]
