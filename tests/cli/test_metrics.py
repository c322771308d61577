"""Metrics and health over HTTP."""

from __future__ import annotations

import asyncio

import pytest
from prometheus_client import CollectorRegistry, Counter
from prometheus_client.parser import text_string_to_metric_families

from dray.cli.metrics import MetricsAddress, Together, response, serving_metrics


def registries() -> tuple[CollectorRegistry, CollectorRegistry]:
    made = CollectorRegistry(), CollectorRegistry()
    for number, registry in enumerate(made, 1):
        counter = Counter("claims", "Claims.", ["by"], registry=registry)
        counter.labels("both").inc(number)
        counter.labels(f"only {number}").inc()
    Counter("pods", "Pods.", registry=made[0]).inc(5)
    return made


def test_registries_are_served_as_one() -> None:
    text = Together(registries).text().decode()
    assert text.count("# TYPE claims_total counter") == 1
    families = {family.name: family for family in text_string_to_metric_families(text)}
    totals = {each.labels["by"]: each.value for each in families["claims"].samples if each.name == "claims_total"}
    assert totals == {"both": 3, "only 1": 1, "only 2": 1}
    assert "pods_total 5.0" in text
    # Collecting does not change what is counted.
    assert Together(registries).text().decode().count("both") == text.count("both")


@pytest.mark.parametrize(
    ("line", "ready", "code", "body"),
    [
        ("GET /healthz HTTP/1.1", False, 200, "ok"),
        ("GET /readyz HTTP/1.1", True, 200, "ok"),
        ("GET /readyz?verbose HTTP/1.1", False, 503, "not leading yet\n"),
        ("HEAD /healthz HTTP/1.1", True, 200, ""),
        ("POST /metrics HTTP/1.1", True, 405, "method not allowed\n"),
        ("GET /secrets HTTP/1.1", True, 404, "/secrets: there are /metrics, /healthz and /readyz\n"),
        ("", True, 405, "method not allowed\n"),
    ],
)
def test_what_is_answered(line: str, ready: bool, code: int, body: str) -> None:
    answer = response(
        f"{line}\r\nHost: x\r\n\r\n".encode(), Together(list), lambda: [] if ready else ["not leading yet"]
    ).decode()
    head, _, rest = answer.partition("\r\n\r\n")
    assert head.startswith(f"HTTP/1.1 {code} ")
    assert rest == body


async def test_it_listens_where_it_says() -> None:
    async with serving_metrics(MetricsAddress("127.0.0.1", 0), registries, list) as url:
        port = int(url.rpartition(":")[2].removesuffix("/metrics"))
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /metrics HTTP/1.1\r\n\r\n")
        answer = await reader.read()
        writer.close()
    assert b"pods_total 5.0" in answer


async def test_nothing_listens_unless_it_is_asked_for() -> None:
    async with serving_metrics(MetricsAddress("127.0.0.1", None), (), list) as url:
        assert url == ""
