"""Metrics: requests as Kubernetes labels them, their time, open watches, lost audit events, the store's revision."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from dray.server import metric_messages, negotiation
from dray.server.health import Health
from dray.server.histograms import Histogram, HistogramFamily
from dray.server.paths import ResourcePath
from dray.server.requests import Request, Response

_TEXT = "text/plain; version=0.0.4; charset=utf-8"
_MOST_SERIES = 4096
_METHODS = {"GET": "GET", "HEAD": "GET", "POST": "POST", "PUT": "PUT", "PATCH": "PATCH", "DELETE": "DELETE"}
_CONNECTED = frozenset({"attach", "exec", "log", "portforward", "proxy"})
# Requests that last as long as the client wants: their duration says nothing about the server.
_LASTING = frozenset({"CONNECT", "WATCH"})


class RequestLabels(NamedTuple):
    verb: str
    dry_run: str = ""
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    scope: str = ""
    component: str = "apiserver"


def request_labels(request: Request, path: ResourcePath | None) -> RequestLabels:
    """Returns the labels of kube-apiserver; for paths that name no resource, only the verb."""
    verb = _METHODS.get(request.method, "other")
    if path is None:
        return RequestLabels(verb)
    if path.subresource in _CONNECTED:
        verb = "CONNECT"
    elif request.verb in ("list", "watch"):
        verb = request.verb.upper()
    elif verb == "PATCH" and request.headers.get("content-type", "").startswith("application/apply-patch"):
        verb = "APPLY"
    dry_run = "All" if "dryRun=All" in request.query else ""
    if path.name or verb == "POST":
        scope = "resource"
    else:
        scope = "namespace" if path.namespace else "cluster"
    return RequestLabels(verb, dry_run, path.group, path.version, path.plural, path.subresource, scope)


class _Series:
    """Requests with the same labels."""

    __slots__ = ("codes", "durations")

    def __init__(self) -> None:
        self.codes: dict[int, int] = {}
        """Number of answers by status code."""
        self.durations = Histogram()


class Metrics:
    """Counts requests in dictionaries; metric families are made when they are read."""

    def __init__(self, revision: Callable[[], int]) -> None:
        self._revision = revision
        self._requests: dict[RequestLabels, _Series] = {}
        self._open_watches: Callable[[], int] = lambda: 0
        self._dropped_audit_events: Callable[[], int] = lambda: 0
        self.registry = CollectorRegistry(auto_describe=False)
        """Other metrics may be registered here."""
        self.registry.register(self)

    def count(self, labels: RequestLabels, code: int, seconds: float) -> None:
        series = self._requests.get(labels)
        if series is None:
            # Clients may name anything: further names are left out.
            if len(self._requests) >= _MOST_SERIES:
                labels = RequestLabels(labels.verb)
            series = self._requests.setdefault(labels, _Series())
        series.codes[code] = series.codes.get(code, 0) + 1
        if labels.verb not in _LASTING:
            series.durations.observe(seconds)

    def count_watches(self, how_many: Callable[[], int]) -> None:
        self._open_watches = how_many

    def count_dropped_audit_events(self, how_many: Callable[[], int]) -> None:
        self._dropped_audit_events = how_many

    def collect(self) -> Iterator[Metric]:
        names = RequestLabels._fields
        total = CounterMetricFamily("apiserver_request", "Requests that were answered.", labels=[*names, "code"])
        for labels, series in self._requests.items():
            for code, count in series.codes.items():
                total.add_metric([*labels, str(code)], count)
        yield total
        durations = HistogramFamily("apiserver_request_duration_seconds", "Time until they were answered.", names)
        for labels, series in self._requests.items():
            if labels.verb not in _LASTING:
                durations.add(labels, series.durations)
        yield durations
        yield GaugeMetricFamily("apiserver_longrunning_requests", "Open watches.", value=self._open_watches())
        dropped = CounterMetricFamily("apiserver_audit_dropped", "Audit events that were lost.")
        dropped.add_metric([], self._dropped_audit_events())
        yield dropped
        yield GaugeMetricFamily("dray_store_revision", "The newest revision of the store.", value=self._revision())


def exposed(registry: CollectorRegistry, accept: str) -> Response:
    """Returns the metrics as text, or as protobuf if the client prefers that."""
    for media, parameters in negotiation.clauses(accept):
        if media == "text/plain":
            break
        if media == "application/vnd.google.protobuf" and parameters.get("encoding") == "delimited":
            return Response(200, metric_messages.messages(registry.collect()), metric_messages.CONTENT_TYPE)
    return Response(200, generate_latest(registry), _TEXT)


def health_metrics(health: Health) -> CollectorRegistry:
    """Returns a gauge for each health check, and counters of its results."""
    now = GaugeMetricFamily("kubernetes_healthcheck", "Whether a check is well.", labels=["name", "type"])
    counts = CounterMetricFamily("kubernetes_healthchecks", "Results of checks.", labels=["name", "type", "status"])
    for check, name, found, count in health.samples():
        counts.add_metric([name, check, found], count)
    for check in ("healthz", "livez", "readyz"):
        for name, problem in health.problems(check).items():
            now.add_metric([name, check], 0 if problem else 1)
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Families((now, counts)))
    return registry


class _Families:
    def __init__(self, families: Sequence[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterator[Metric]:
        yield from self._families
