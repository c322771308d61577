"""The scheduler's metrics, under the names Kubernetes gives them."""

from __future__ import annotations

from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from dray.scheduling.queue import Place, Queue

_SECONDS = tuple(0.001 * 2**step for step in range(15))
_LONG = tuple(0.01 * 2**step for step in range(20))
_BINDING = tuple(0.1 * 2**step for step in range(14))
_QUEUES = {Place.ACTIVE: "active", Place.DELAYED: "backoff", Place.GATED: "gated", Place.PARKED: "unschedulable"}


class Metrics:
    def __init__(self, registry: CollectorRegistry, profile: str) -> None:
        self._profile = profile
        self._attempts = Counter(
            "scheduler_schedule_attempts_total",
            "Attempts to schedule pods, by result.",
            ["result", "profile"],
            registry=registry,
        )
        self._attempt_seconds = Histogram(
            "scheduler_scheduling_attempt_duration_seconds",
            "How long an attempt took, binding included.",
            ["result", "profile"],
            buckets=_SECONDS,
            registry=registry,
        )
        self._results: dict[str, tuple[Counter, Histogram]] = {}
        self._sli: dict[int, Histogram] = {}
        self.algorithm_seconds = Histogram(
            "scheduler_scheduling_algorithm_duration_seconds",
            "How long a decision took.",
            buckets=_SECONDS,
            registry=registry,
        )
        self._sli_seconds = Histogram(
            "scheduler_pod_scheduling_sli_duration_seconds",
            "From when a pod could first be tried until it was bound.",
            ["attempts"],
            buckets=_LONG,
            registry=registry,
        )
        self._pod_attempts = Histogram(
            "scheduler_pod_scheduling_attempts",
            "Attempts it took to bind a pod.",
            buckets=(1, 2, 4, 8, 16),
            registry=registry,
        )
        self._pending = Gauge("scheduler_pending_pods", "Pods that wait, by queue.", ["queue"], registry=registry)
        self.victims = Histogram(
            "scheduler_preemption_victims",
            "Victims of one preemption.",
            buckets=(1, 2, 4, 8, 16, 32, 64),
            registry=registry,
        )
        self.preemptions = Counter("scheduler_preemption_attempts_total", "Attempts to preempt.", registry=registry)
        self._conditions = Counter(
            "scheduler_dra_bindingconditions_allocations_total",
            "Devices whose binding conditions were waited for, by outcome.",
            ["profile", "driver", "status"],
            registry=registry,
        )
        self._conditions_seconds = Histogram(
            "scheduler_dra_bindingconditions_wait_duration_seconds",
            "How long binding conditions were waited for.",
            ["profile", "driver", "status"],
            buckets=_BINDING,
            registry=registry,
        )
        self.claims_created = Counter(
            "dynamic_resource_allocation_resourceclaim_creates_total",
            "Claims that were created.",
            ["status", "admin_access", "owner_api_group", "owner_api_kind"],
            registry=registry,
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
        for place, name in _QUEUES.items():
            self._pending.labels(name).set_function(partial(_length, queue, place))


def _length(queue: Queue, place: Place) -> float:
    return queue.counts()[place]
