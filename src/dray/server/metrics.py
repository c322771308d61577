"""Metrics: requests by verb, resource and code, their time, open watches, lost audit events, the store's revision."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from dray.server.health import Health

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_MOST_SERIES = 4096


class Metrics:
    """Counting is a dictionary entry; the families are made when somebody looks."""

    def __init__(self, revision: Callable[[], int]) -> None:
        self._revision = revision
        # (verb, group, resource, subresource, code) → [requests, seconds]
        self._requests: dict[tuple[str, str, str, str, int], list[float]] = {}
        self._open_watches: Callable[[], int] = lambda: 0
        self._dropped_audit_events: Callable[[], int] = lambda: 0
        self.registry = CollectorRegistry(auto_describe=False)
        """Others may have their metrics served along."""
        self.registry.register(self)

    def count(self, verb: str, group: str, resource: str, subresource: str, code: int, seconds: float) -> None:
        key = (verb, group, resource, subresource, code)
        entry = self._requests.get(key)
        if entry is None:
            # Clients may name what is not there: the names of all others are left out.
            if len(self._requests) >= _MOST_SERIES:
                key = (verb, "", "", "", code)
            entry = self._requests.setdefault(key, [0, 0.0])
        entry[0] += 1
        entry[1] += seconds

    def count_watches(self, how_many: Callable[[], int]) -> None:
        self._open_watches = how_many

    def count_dropped_audit_events(self, how_many: Callable[[], int]) -> None:
        self._dropped_audit_events = how_many

    def collect(self) -> Iterator[Metric]:
        labels = ["verb", "group", "resource", "subresource", "code"]
        total = CounterMetricFamily("apiserver_request", "Requests that were answered.", labels=labels)
        seconds = CounterMetricFamily("apiserver_request_seconds", "Time spent on answering them.", labels=labels)
        for (*names, code), (count, spent) in self._requests.items():
            values = [*names, str(code)]
            total.add_metric(values, count)
            seconds.add_metric(values, spent)
        yield total
        yield seconds
        yield GaugeMetricFamily("apiserver_longrunning_requests", "Open watches.", value=self._open_watches())
        dropped = CounterMetricFamily("apiserver_audit_dropped", "Audit events that were lost.")
        dropped.add_metric([], self._dropped_audit_events())
        yield dropped
        yield GaugeMetricFamily("dray_store_revision", "The newest revision of the store.", value=self._revision())

    def expose(self) -> bytes:
        return generate_latest(self.registry)


def health_metrics(health: Health) -> bytes:
    """Each check as a gauge, and how often it was found well or not."""
    now = GaugeMetricFamily("kubernetes_healthcheck", "Whether a check is well.", labels=["name", "type"])
    counts = CounterMetricFamily("kubernetes_healthchecks", "Results of checks.", labels=["name", "type", "status"])
    for check, name, found, count in health.samples():
        counts.add_metric([name, check, found], count)
    for check in ("healthz", "livez", "readyz"):
        for name, problem in health.problems(check).items():
            now.add_metric([name, check], 0 if problem else 1)
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Families((now, counts)))
    return generate_latest(registry)


class _Families:
    def __init__(self, families: Sequence[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterator[Metric]:
        yield from self._families
