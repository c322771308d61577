"""Shares in a tree of queues, and that they are reckoned anew when they have to be, and only then."""

from random import Random

import pytest

from dray.scheduling.quota.kai import queue as kai_queue
from dray.scheduling.quota.kai import share_tree
from dray.scheduling.quota.kai.share_tree import ShareTree


def queue(name, parent="", priority=None, created="", **gpu):
    """Unlimited in everything but GPUs, of which are given quota, limit and weight."""
    free = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
    gpu = {"quota": gpu.get("quota", 0), "limit": gpu.get("limit", -1), "overQuotaWeight": gpu.get("weight", 1)}
    spec = {"parentQueue": parent, "resources": {"cpu": free, "memory": free, "gpu": gpu}}
    if priority is not None:
        spec["priority"] = priority
    return {"kind": "Queue", "metadata": {"name": name, "creationTimestamp": created}, "spec": spec}


def tree(*queues, gpus=10):
    made = ShareTree()
    made.resize({"gpu": gpus})
    for each in queues:
        made.put(kai_queue.read(each))
    return made


def shares(made):
    return {node.name: node.fair.get("gpu") for node in made.all()}


def test_shares_are_divided_from_the_top():
    made = tree(
        queue("eng", weight=3),
        queue("sci", weight=1),
        queue("e1", "eng"),
        queue("e2", "eng"),
        queue("s", "sci"),
        gpus=16,
    )
    made.count("e1", "waiting", {"gpu": 2}, 1)
    made.count("e2", "waiting", {"gpu": 12}, 1)
    made.count("s", "waiting", {"gpu": 12}, 1)
    assert shares(made) == {"eng": 12, "sci": 4, "e1": 2, "e2": 10, "s": 4}


def test_a_queue_asks_for_no_more_than_those_below_it_may_have():
    made = tree(queue("one"), queue("two"), queue("small", "one", limit=2), queue("large", "two"))
    made.count("small", "waiting", {"gpu": 50}, 1)
    made.count("large", "waiting", {"gpu": 50}, 1)
    assert shares(made) == {"one": 2, "two": 8, "small": 2, "large": 8}


def test_a_parent_that_is_missing_or_below_its_child():
    made = tree(queue("a", "b"), queue("b", "a"), queue("c", "nobody"), queue("d"))
    assert [made.path(each) for each in ("a", "b", "c")] == [(), (), ()]
    assert [node.name for node in made.path("d")] == ["d"]
    made.put(kai_queue.read(queue("nobody")))
    made.count("c", "waiting", {"gpu": 1}, 1)
    assert shares(made)["c"] == 1


def test_where_two_queues_part():
    made = tree(queue("top"), queue("a", "top"), queue("b", "top"), queue("other"), queue("c", "other"))
    assert [each.name for each in made.split("a", "b")] == ["a", "b"]
    assert [each.name for each in made.split("a", "c")] == ["top", "other"]
    assert made.split("a", "a") is None


def test_what_is_counted_stays_when_queues_change():
    made = tree(queue("top"), queue("a", "top"))
    made.count("a", "held", {"gpu": 3}, 1)
    made.put(kai_queue.read(queue("a", "other")))
    made.put(kai_queue.read(queue("other")))
    assert made.get("top").held == {}
    assert made.get("other").held == {"gpu": 3}
    made.count("a", "held", {"gpu": 3}, -1)
    assert made.get("other").held == {}


@pytest.mark.parametrize("seed", range(20))
def test_shares_are_what_they_would_be_if_reckoned_every_time(seed):
    random = Random(seed)
    queues = [queue(f"d{n}", weight=random.randint(0, 3), quota=random.randint(-1, 5)) for n in range(3)]
    queues += [
        queue(f"q{n}", f"d{n % 3}", random.choice((100, 200)), quota=random.randint(0, 4), limit=random.randint(-1, 6))
        for n in range(8)
    ]
    made = tree(*queues, gpus=20)
    counted = []
    for _ in range(60):
        name, amounts = f"q{random.randrange(8)}", {"gpu": random.randint(1, 4)}
        if counted and random.random() < 0.4:
            made.count(*counted.pop(random.randrange(len(counted))), -1)
        else:
            counted.append((name, random.choice(("held", "waiting")), amounts))
            made.count(*counted[-1], 1)
        kept = shares(made)
        made.outdate()
        assert kept == shares(made)


def test_what_is_wanted_beyond_the_share_makes_no_difference(monkeypatch):
    made = tree(queue("top"), *[queue(f"q{n}", "top") for n in range(5)])
    for n in range(5):
        made.count(f"q{n}", "waiting", {"gpu": 100}, 1)
    assert shares(made)["q3"] == 2
    calls = []
    monkeypatch.setattr(share_tree, "divide", lambda *_, **__: calls.append(1))
    for n in range(5):
        made.count(f"q{n}", "waiting", {"gpu": 1}, -1)
        made.count(f"q{n}", "held", {"gpu": 1}, 1)
        made.count(f"q{n}", "held", {"gpu": 1}, -1)
    assert shares(made)["q3"] == 2
    assert not calls


def test_who_had_more_in_the_past_gets_less_beyond_its_quota():
    made = tree(queue("top"), queue("a", "top", quota=2), queue("b", "top", quota=2), gpus=20)
    for name in "ab":
        made.count(name, "waiting", {"gpu": 20}, 1)
    assert shares(made) == {"top": 20, "a": 10, "b": 10}
    made.usage = {"a": {"gpu": 0.5}, "b": {"gpu": 0.1}}
    made.outdate()
    assert shares(made) == {"top": 20, "a": 8, "b": 12}
    made.k = 0.0
    made.outdate()
    assert shares(made) == {"top": 20, "a": 10, "b": 10}


def test_a_weight_beyond_all_bounds_is_a_large_one():
    weights = [kai_queue.read(queue("q", weight=each)).quotas["gpu"].weight for each in (-1, 0, 2.5, 1e308, "x")]
    assert weights == [0.0, 0.0, 2.5, 2.0**63, 0.0]
