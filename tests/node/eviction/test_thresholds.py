"""Thresholds as a kubelet's flags say them."""

import pytest

from dray.node.eviction.thresholds import (
    DEFAULT_HARD,
    MEMORY,
    Observation,
    Threshold,
    ThresholdError,
    duration,
    parse_hard,
    parse_soft,
)


def test_quantities_and_shares():
    memory, disk, inodes = parse_hard(DEFAULT_HARD)
    assert (memory, disk.share, inodes.share) == (Threshold(MEMORY, 100 << 20), 0.1, 0.05)
    assert disk.is_met(Observation(9, 100))
    assert not disk.is_met(Observation(10, 100))
    assert parse_hard("") == ()


def test_soft_thresholds_have_a_grace_period():
    assert parse_soft("memory.available<1Gi", "memory.available=1m30s") == (Threshold(MEMORY, 1 << 30, grace=90.0),)
    with pytest.raises(ThresholdError, match="needs a grace period"):
        parse_soft("memory.available<1Gi", "")


@pytest.mark.parametrize("text", ["memory<1Gi", "memory.available", "memory.available<much", "memory.available<x%"])
def test_what_is_no_threshold_is_refused(text):
    with pytest.raises(ThresholdError, match="memory"):
        parse_hard(text)


def test_durations():
    assert (duration("1h2m3s"), duration("500ms")) == (3723.0, 0.5)
    with pytest.raises(ThresholdError):
        duration("soon")
