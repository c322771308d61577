"""Metrics of the DRA manager on a node, under the names a kubelet gives them."""

from __future__ import annotations

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

ANY_DRIVER: Final = "<any>"
"""Label of the series that counts each claim once, whatever the number of its drivers."""

_STEPS: Final = 15
_BUCKETS: Final = tuple(0.1 * (40 / 0.1) ** (step / (_STEPS - 1)) for step in range(_STEPS))


class NodeMetrics:
    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry or CollectorRegistry()
        self.operations = Histogram(
            "dra_operations_duration_seconds",
            "How long it took to prepare or unprepare the claims of a pod.",
            ("operation_name", "is_error"),
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self.calls = Histogram(
            "dra_grpc_operations_duration_seconds",
            "How long a call to a driver took.",
            ("driver_name", "method_name", "grpc_status_code"),
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self.claims = Gauge(
            "dra_resource_claims_in_use", "Prepared claims by driver.", ("driver_name",), registry=self.registry
        )
        self.prepare_skips = Counter(
            "dra_node_prepare_skips_total",
            "Claims for which the driver was not asked to prepare.",
            ("driver_name",),
            registry=self.registry,
        )
        self.unprepare_skips = Counter(
            "dra_node_unprepare_skips_total",
            "Claims for which the driver was not asked to unprepare.",
            ("driver_name",),
            registry=self.registry,
        )
