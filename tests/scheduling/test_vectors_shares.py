"""T5: the worked examples of fair shares, with the numbers of the systems that the formulas come from."""

import pytest

from dray.scheduling.quota.fair_share import UNLIMITED, Claimant, divide, dominant_share
from dray.scheduling.quota.usage_decay import UsageHistory, UsageOptions

HOUR = 3600.0


def test_t5_weighted_max_min():
    def shares(*demands):
        return divide(20, [Claimant(each, weight) for each, weight in zip(demands, (1, 1, 2), strict=True)])

    assert shares(4, 10, 15) == pytest.approx([4, 5.333, 10.667], abs=1e-3)
    assert shares(2, 10, 15) == pytest.approx([2, 6, 12])


def test_t5_weighted_max_min_from_the_top_of_a_tree():
    engineering, science = divide(16, [Claimant(14, 3), Claimant(12, 1)])
    assert (engineering, science) == pytest.approx((12, 4))
    assert divide(engineering, [Claimant(2), Claimant(12)]) == pytest.approx([2, 10])


def test_t5_proportion_of_volcano():
    assert divide(12, [Claimant(1, 1), Claimant(10, 2), Claimant(10, 3)]) == pytest.approx([1, 4.4, 6.6])


def served(weights=(1.0, 1.0)):
    """Who is served in turn, as long as a task of it fits, and the dominant shares at the end."""
    total = {"cpu": 9, "memory": 18}
    tasks = {"A": {"cpu": 1, "memory": 4}, "B": {"cpu": 3, "memory": 1}}
    weight = dict(zip("AB", weights, strict=True))
    used = {name: {"cpu": 0.0, "memory": 0.0} for name in tasks}
    order = ""
    while True:
        free = {name: amount - sum(each[name] for each in used.values()) for name, amount in total.items()}
        fits = [name for name, task in tasks.items() if all(free[each] >= amount for each, amount in task.items())]
        if not fits:
            return order, {name: dominant_share(each, total) for name, each in used.items()}
        first = min(fits, key=lambda name: dominant_share(used[name], total, weight[name]))
        order += first
        used[first] = {name: amount + tasks[first][name] for name, amount in used[first].items()}


def test_t5_dominant_resource_fairness():
    order, shares = served()
    assert order == "ABABA"
    assert shares == pytest.approx({"A": 2 / 3, "B": 2 / 3})


def test_t5_dominant_resource_fairness_by_weight():
    order, _ = served(weights=(1.0, 4.0))
    assert order == "ABBAA"


def test_t5_dominant_share_of_what_is_borrowed():
    """Kueue: 1000 of the fraction of what can be lent, by weight."""
    borrowed, lendable = {"gpu": 6, "cpu": 0}, {"gpu": 16, "cpu": 200}
    assert 1000 * dominant_share(borrowed, lendable) == 375
    assert 1000 * dominant_share(borrowed, lendable, 2) == 187.5


def kai(total, *queues, k=1.0):
    """Of queues with quota, weight, priority, request and past usage."""
    claimants = [
        Claimant(request, weight, quota, priority, *usage) for quota, weight, priority, request, *usage in queues
    ]
    return divide(total, claimants, whole=True, k=k)


def test_t5_kai_what_is_left_over_goes_by_weight():
    assert kai(10, (3, 2, 100, 10), (2, 1, 100, 10), (2, 1, 100, 2)) == [5, 3, 2]


def test_t5_kai_what_is_left_over_goes_to_the_higher_priority():
    assert kai(10, (3, 2, 100, 10), (2, 1, 200, 10), (2, 1, 100, 2)) == [3, 5, 2]


def test_t5_kai_the_oldest_has_the_unit_that_cannot_be_divided():
    assert kai(10, *[(0, 1, 100, 10)] * 3) == [4, 3, 3]


def test_t5_kai_past_usage():
    assert kai(16, (0, 1, 100, 16, 0.5), (0, 1, 100, 16, 0.1)) == [6, 10]


def test_t5_kai_past_usage_does_not_count():
    assert kai(16, (0, 1, 100, 16, 0.5), (0, 1, 100, 16, 0.1), k=0) == [8, 8]


def test_quotas_beyond_the_total_are_not_scaled_down():
    assert kai(10, (8, 1, 100, 8), (8, 1, 100, 8), (0, 1, 100, 5)) == [8, 8, 0]


def test_unlimited_quota_is_all_there_is():
    assert kai(10, (UNLIMITED, 1, 100, 30), (0, 1, 100, 5)) == [10, 0]


def test_without_weight_there_is_nothing_beyond_the_quota():
    assert kai(10, (2, 0, 100, 10), (0, 1, 100, 4)) == [2, 4]


def test_t5_time_based_usage_over_a_window():
    """24 GPU-hours of a cluster of 10 over 10 hours."""
    history = UsageHistory(UsageOptions(window=10 * HOUR))
    for minute in range(0, 601, 5):
        history.sample(minute * 60.0, {"a": {"gpu": 8 if minute <= 180 else 0}}, {"gpu": 10})
    assert history.usage(10 * HOUR)["a"]["gpu"] == pytest.approx(0.24)


def hours(history, *held, start=0):
    for hour, number in enumerate(held, start):
        for minute in range(0, 60, 5):
            history.sample(hour * HOUR + minute * 60.0 + 300, {"a": {"gpu": number}}, {"gpu": 10})
    return (start + len(held)) * HOUR


def test_t5_time_based_usage_with_a_half_life():
    """An hour of everything, and an hour of nothing, with a half-life of an hour: a half out of a half and one."""
    history = UsageHistory(UsageOptions(half_life=HOUR))
    history.sample(0.0, {}, {"gpu": 10})
    assert history.usage(hours(history, 10, 0))["a"]["gpu"] == pytest.approx(1 / 3)


def test_a_window_that_slides_forgets_what_is_before_it():
    history = UsageHistory(UsageOptions(window=4 * HOUR))
    history.sample(0.0, {}, {"gpu": 10})
    assert history.usage(hours(history, 10, 10, 0, 0))["a"]["gpu"] == pytest.approx(0.5)
    assert history.usage(hours(history, 0, start=4))["a"]["gpu"] == pytest.approx(0.25, abs=0.01)


def test_a_window_that_tumbles_starts_with_nothing():
    history = UsageHistory(UsageOptions(window=4 * HOUR, tumbling=True))
    history.sample(0.0, {}, {"gpu": 10})
    end = hours(history, 10, 10, 10, 10)
    assert history.usage(end - 1)["a"]["gpu"] == pytest.approx(1.0, abs=0.02)
    assert history.usage(end + 1).get("a", {}).get("gpu", 0.0) == 0


def test_usage_is_the_same_after_a_restart():
    options = UsageOptions(window=10 * HOUR, half_life=HOUR)
    history, later = UsageHistory(options), UsageHistory(options)
    history.sample(0.0, {}, {"gpu": 10})
    end = hours(history, 10, 3, 0, 5)
    later.restore(history.to_object(), 1e12)
    assert later.usage(end)["a"]["gpu"] == pytest.approx(history.usage(end)["a"]["gpu"], rel=1e-4)


def test_a_time_without_samples_counts_for_nothing():
    history = UsageHistory(UsageOptions(window=100 * HOUR))
    history.sample(0.0, {}, {"gpu": 10})
    end = hours(history, 10)
    history.sample(end + 50 * HOUR, {"a": {"gpu": 10}}, {"gpu": 10})
    assert history.usage(end + 50 * HOUR)["a"]["gpu"] == pytest.approx(1.0)


def test_what_was_stored_by_somebody_else_is_not_trusted():
    history = UsageHistory(UsageOptions())
    odd = {"start": 1, "end": 2, "used": {"a": 4, "b": {"gpu": float("inf")}}, "capacity": {"gpu": float("nan")}}
    history.restore({"buckets": [{"start": 5, "end": 3}, {"start": "x"}, 7, odd]}, 1e12)
    assert history.usage(10.0) == {"a": {}, "b": {}}
