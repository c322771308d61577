"""Metrics of a driver, under the names that the kubelet uses for its side of the same calls, with `dra_driver_`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from time import perf_counter

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from dray.driver.driver import DeviceUtilization

_BUCKETS = [0.001 * 2**power for power in range(16)]


class DriverMetrics:
    def __init__(self, driver: str) -> None:
        self.registry = CollectorRegistry()
        self._driver = driver
        self._operations = Histogram(
            "dra_driver_operations_duration_seconds",
            "Seconds to prepare or unprepare a claim.",
            ["driver_name", "operation_name", "is_error"],
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self._claims = Gauge(
            "dra_driver_claims_in_use", "Claims with a record on disk.", ["driver_name"], registry=self.registry
        )
        self._writes = Counter(
            "dra_driver_slice_writes", "ResourceSlices written.", ["driver_name", "verb"], registry=self.registry
        )
        self._errors = Counter(
            "dra_driver_background_errors",
            "Failures outside of the kubelet's calls.",
            ["driver_name", "part"],
            registry=self.registry,
        )
        self._unhealthy = Gauge(
            "dra_driver_unhealthy_devices", "Devices reported as unhealthy.", ["driver_name"], registry=self.registry
        )
        places = ["driver_name", "pool", "device"]
        self._ratio = Gauge(
            "dray_device_utilization_ratio", "How busy a device is, from 0 to 1.", places, registry=self.registry
        )
        self._memory = Gauge(
            "dray_device_memory_used_bytes", "Memory of a device that is in use.", places, registry=self.registry
        )

    @contextmanager
    def operation(self, name: str) -> Iterator[None]:
        """Counts as an error if it raises."""
        start, failed = perf_counter(), "true"
        try:
            yield
            failed = "false"
        finally:
            self._operations.labels(self._driver, name, failed).observe(perf_counter() - start)

    def claims(self, count: int) -> None:
        self._claims.labels(self._driver).set(count)

    def wrote(self, verb: str) -> None:
        self._writes.labels(self._driver, verb).inc()

    def failed(self, part: str) -> None:
        self._errors.labels(self._driver, part).inc()

    def unhealthy(self, count: int) -> None:
        self._unhealthy.labels(self._driver).set(count)

    def utilization(self, sampled: Sequence[DeviceUtilization]) -> None:
        """Replaces what was sampled before: a device that does not tell any more is not shown."""
        self._ratio.clear()
        self._memory.clear()
        for device in sampled:
            place = self._driver, device.pool, device.device
            if device.ratio is not None:
                self._ratio.labels(*place).set(device.ratio)
            if device.memory_used is not None:
                self._memory.labels(*place).set(device.memory_used)
