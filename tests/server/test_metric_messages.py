"""Metrics as Prometheus' messages."""

import math
import random

import pytest
from prometheus_client import CollectorRegistry, Counter, Gauge, Summary
from prometheus_client import Histogram as PlainHistogram
from prometheus_client.core import SummaryMetricFamily

from dray.server.histograms import Histogram, HistogramFamily
from dray.server.metric_messages import messages
from tests.server.prometheus_messages import read


def families(registry):
    return {family.name: family for family in read(messages(registry.collect()))}


def test_counters_and_gauges():
    registry = CollectorRegistry()
    Counter("told", "How often.", ["whom"], registry=registry).labels("joe").inc(3)
    Gauge("open", "How many.", registry=registry).set(-2.5)
    found = families(registry)
    told = found["told_total"]
    assert (told.help, told.type, told.metric[0].counter.value) == ("How often.", 0, 3)
    assert [(pair.name, pair.value) for pair in told.metric[0].label] == [("whom", "joe")]
    assert (found["open"].type, found["open"].metric[0].gauge.value) == (1, -2.5)


def test_summaries_and_histograms_of_others():
    registry = CollectorRegistry()
    Summary("took", "Seconds.", registry=registry).observe(2)
    plain = PlainHistogram("waited", "Seconds.", ["who"], buckets=[1, 5], registry=registry)
    plain.labels("joe").observe(3)
    plain.labels("kim").observe(9)
    found = families(registry)
    took = found["took"].metric[0].summary
    assert (found["took"].type, took.sample_count, took.sample_sum) == (2, 1, 2)
    joe, kim = found["waited"].metric
    assert [(each.upper_bound, each.cumulative_count) for each in joe.histogram.bucket] == [
        (1, 0),
        (5, 1),
        (math.inf, 1),
    ]
    assert (kim.label[0].value, kim.histogram.sample_count, kim.histogram.sample_sum) == ("kim", 1, 9)
    assert not joe.histogram.HasField("schema")


def test_quantiles():
    family = SummaryMetricFamily("took", "Seconds.", count_value=4, sum_value=8)
    family.add_sample("took", {"quantile": "0.5"}, 1.5)
    (found,) = read(messages([family]))
    (quantile,) = found.metric[0].summary.quantile
    assert (quantile.quantile, quantile.value) == (0.5, 1.5)


@pytest.mark.parametrize("seed", range(5))
def test_native_buckets_hold_what_was_observed(seed):
    chance = random.Random(seed)
    observed = [chance.lognormvariate(-4, 3) for _ in range(200)]
    series = Histogram()
    for seconds in observed:
        series.observe(seconds)
    family = HistogramFamily("took", "Seconds.", ["verb"])
    family.add(["GET"], series)
    (found,) = read(messages([family]))
    assert [(pair.name, pair.value) for pair in found.metric[0].label] == [("verb", "GET")]
    histogram = found.metric[0].histogram
    assert (histogram.sample_count, histogram.sample_sum) == (200, pytest.approx(sum(observed)))
    assert histogram.zero_count == sum(seconds <= histogram.zero_threshold for seconds in observed)
    # As Prometheus reads them: spans say which buckets there are, deltas by how much each differs from the last.
    index, count, deltas = 0, 0, iter(histogram.positive_delta)
    for span in histogram.positive_span:
        index += span.offset
        for _ in range(span.length):
            count += next(deltas)
            lower, upper = (2 ** ((index + end) / 2**histogram.schema) for end in (-1, 0))
            assert count == sum(lower < seconds <= upper for seconds in observed if seconds > histogram.zero_threshold)
            index += 1
    assert next(deltas, None) is None
    for bucket in histogram.bucket:
        assert bucket.cumulative_count == sum(seconds <= bucket.upper_bound for seconds in observed)
