"""Metrics of requests: their labels, their time, and the form in which they are served."""

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from dray.server.metrics import Metrics, RequestLabels
from tests.server.api import CLAIMS, MAPS, PODS, claim, config_map, pod
from tests.server.prometheus_messages import read

DELIMITED = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited"


def counted(api):
    """Labels of the requests that were counted, without those that are empty."""
    text = api.raw("GET", "/metrics").body.decode()
    (family,) = [each for each in text_string_to_metric_families(text) if each.name == "apiserver_request"]
    return [{name: value for name, value in sample.labels.items() if value} for sample in family.samples]


def test_labels_are_those_of_kubernetes(api):
    api.create(CLAIMS, claim())
    common = {"component": "apiserver", "group": "resource.k8s.io", "version": "v1", "resource": "resourceclaims"}
    assert {**common, "verb": "POST", "scope": "resource", "code": "201"} in counted(api)


@pytest.mark.parametrize(
    ("method", "path", "labels"),
    [
        ("GET", MAPS, {"verb": "LIST", "scope": "namespace"}),
        ("GET", "/api/v1/configmaps", {"verb": "LIST", "scope": "cluster"}),
        ("GET", f"{MAPS}/m", {"verb": "GET", "scope": "resource"}),
        ("DELETE", f"{MAPS}/m?dryRun=All", {"verb": "DELETE", "scope": "resource", "dry_run": "All"}),
        ("DELETE", MAPS, {"verb": "DELETE", "scope": "namespace"}),
    ],
)
def test_verb_and_scope(api, method, path, labels):
    api.create(MAPS, config_map("m"))
    assert api.raw(method, path).code == 200
    common = {"component": "apiserver", "version": "v1", "resource": "configmaps", "code": "200"}
    assert {**common, **labels} in counted(api)


def test_apply_is_told_from_other_patches(api):
    applied = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}}
    api.ask("PATCH", f"{MAPS}/m?fieldManager=me", applied, content_type="application/apply-patch+yaml")
    assert {each["verb"] for each in counted(api) if each.get("resource") == "configmaps"} == {"APPLY"}


def test_what_is_not_there_has_no_labels_of_its_own(api):
    api.raw("GET", "/apis/example.com/v1/things")
    assert {"component": "apiserver", "verb": "GET", "code": "404"} in counted(api)


def test_watches_have_no_time(api):
    api.create(PODS, pod())
    api.raw("GET", f"{PODS}?watch=1&timeoutSeconds=1")
    text = api.raw("GET", "/metrics").body.decode()
    assert 'apiserver_request_total{code="200",component="apiserver",dry_run="",group="",resource="pods"' in text
    assert 'verb="WATCH"' in text
    assert not [line for line in text.splitlines() if "duration_seconds" in line and "WATCH" in line]


def test_names_that_clients_make_up_do_not_fill_the_metrics():
    metrics = Metrics(lambda: 1)
    for number in range(10_000):
        metrics.count(RequestLabels("GET", resource=f"things-{number}"), 403, 0.001)
    exposed = generate_latest(metrics.registry).decode()
    assert exposed.count("apiserver_request_total{") < 5000
    assert exposed.count("apiserver_request_duration_seconds_count{") < 5000
    left_out = next(line for line in exposed.splitlines() if 'code="403"' in line and ',resource=""' in line)
    assert left_out.endswith(" 5904.0")


@pytest.mark.parametrize("path", ["/metrics", "/metrics/slis"])
@pytest.mark.parametrize("accept", ["", "*/*", "text/plain", f"text/plain;version=0.0.4,{DELIMITED};q=0.5"])
def test_text_unless_protobuf_is_preferred(api, path, accept):
    answer = api.raw("GET", path, accept=accept)
    assert answer.content_type == "text/plain; version=0.0.4; charset=utf-8"
    assert answer.body.startswith(b"# HELP ")


def test_protobuf_has_native_histograms_and_their_old_buckets(api):
    api.create(CLAIMS, claim())
    answer = api.raw("GET", "/metrics", accept=f"{DELIMITED},text/plain;q=0.5")
    assert answer.content_type == DELIMITED.replace(";", "; ")
    families = {family.name: family for family in read(answer.body)}
    durations = families["apiserver_request_duration_seconds"].metric[0].histogram
    assert durations.sample_count == durations.bucket[-1].cumulative_count
    assert (durations.schema, len(durations.bucket)) == (3, 24)
    assert durations.zero_count + sum(span.length for span in durations.positive_span) > 0
    assert families["apiserver_request_total"].metric[0].counter.value >= 1


def test_health_in_protobuf(api):
    families = {family.name for family in read(api.raw("GET", "/metrics/slis", accept=DELIMITED).body)}
    assert families == {"kubernetes_healthcheck", "kubernetes_healthchecks_total"}
