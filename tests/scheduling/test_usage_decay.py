"""Past usage of queues while the clock is set, and after somebody has written nonsense into its record."""

import pytest

from dray.scheduling.quota.usage_decay import UsageHistory, UsageOptions

HOUR = 3600.0
NOW = 1.8e9


def sampled(history, start, minutes, held=4.0):
    for minute in range(minutes):
        history.sample(start + 60 * minute, {"a": {"gpu": held}}, {"gpu": 8.0})
    return start + 60 * (minutes - 1)


@pytest.mark.parametrize("jump", [-365 * 24 * HOUR, -2 * HOUR, -30.0, 30.0, 2 * HOUR, 365 * 24 * HOUR])
@pytest.mark.parametrize("half_life", [None, HOUR])
def test_usage_stays_a_fraction_when_the_clock_jumps(jump, half_life):
    history = UsageHistory(UsageOptions(window=24 * HOUR, half_life=half_life))
    end = sampled(history, NOW, 60)
    end = sampled(history, end + jump, 60)
    usage = history.usage(end)
    assert usage["a"]["gpu"] == pytest.approx(0.5, rel=0.01)


@pytest.mark.parametrize("half_life", [None, HOUR])
def test_a_record_from_a_time_yet_to_come_is_not_taken(half_life):
    history = UsageHistory(UsageOptions(window=24 * HOUR, half_life=half_life))
    amounts = {"capacity": {"gpu": 8.0}, "used": {"a": {"gpu": 8.0}}}
    future = [{"start": NOW, "end": 1e29, **amounts}, {"start": NOW + HOUR, "end": NOW + 2 * HOUR, **amounts}]
    history.restore({"buckets": [*future, {"start": NOW - HOUR, "end": NOW, **amounts}]}, NOW)
    assert history.usage(NOW) == {"a": {"gpu": 1.0}}
