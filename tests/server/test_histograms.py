"""Histograms of durations."""

import math

import pytest

from dray.server.histograms import BOUNDS, ZERO_THRESHOLD, Histogram, HistogramFamily


def filled(*seconds):
    histogram = Histogram()
    for each in seconds:
        histogram.observe(each)
    return histogram


def test_a_bound_belongs_to_its_bucket():
    counts = dict(filled(0.005, 0.0051, 61.0).cumulative())
    assert (counts[0.005], counts[0.025], counts[60.0], counts[math.inf]) == (1, 2, 2, 3)


@pytest.mark.parametrize(("seconds", "bucket"), [(1.0, 0), (2.0, 8), (1.01, 1), (0.5, -8), (2 ** (1 / 8), 1)])
def test_native_buckets_end_at_powers_of_the_eighth_root_of_two(seconds, bucket):
    assert list(filled(seconds).spans()) == [(bucket, [1])]


def test_spans_are_of_buckets_without_a_gap():
    histogram = filled(1.0, 1.05, 1.05, 4.0, ZERO_THRESHOLD, 0.0)
    assert list(histogram.spans()) == [(0, [1, 2]), (16, [1])]
    assert (histogram.zeros, histogram.count) == (2, 6)


def test_a_family_is_text_like_any_histogram():
    family = HistogramFamily("took_seconds", "Time.", ["verb"])
    family.add(["GET"], filled(0.01, 100.0))
    values = {(sample.name, sample.labels.get("le")): sample.value for sample in family.samples}
    assert (values["took_seconds_bucket", "0.025"], values["took_seconds_bucket", "+Inf"]) == (1, 2)
    assert (values["took_seconds_count", None], values["took_seconds_sum", None]) == (2, 100.01)
    assert len(family.samples) == len(BOUNDS) + 3
