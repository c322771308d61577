"""Metrics of the Job controller, under the names of kube-controller-manager."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter


class JobMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        self.finished = Counter(
            "job_controller_jobs_finished_total",
            "Jobs that ended",
            ("completion_mode", "result", "reason"),
            registry=registry,
        )
        self.pods_finished = Counter(
            "job_controller_job_pods_finished_total",
            "Pods of Jobs that were counted",
            ("completion_mode", "result"),
            registry=registry,
        )
