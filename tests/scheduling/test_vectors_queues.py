"""Vectors and worked examples of Kueue's queues, as the references of the project give them."""

import pytest

from dray.scheduling.quota.kueue.policy import KueueQueues
from dray.scheduling.quota.kueue.shares import share_of
from dray.scheduling.quota.kueue.usage import LocalUsage, alpha
from dray.scheduling.quota.quota_tree import Asset, Quota, QuotaTree
from dray.testing import objects
from tests import gpus
from tests.scheduling.core import Core, bound, victims
from tests.scheduling.test_queues import (
    GPU,
    cluster_queue,
    cohort,
    flavor,
    local_queue,
    nominal,
    queued,
    strict,
    training,
    world,
)

A = Asset("any", "gpu")


def test_t6_the_example_of_cohort_arithmetic():
    tree = QuotaTree()
    tree.put_queue("a", {A: Quota(10, lending=4)}, "org")
    tree.put_queue("b", {A: Quota(6, borrowing=3)}, "org")
    tree.charge("b", {A: 6}, 1)
    root = tree.cohort("org")
    assert (root.total(A), root.used[A], root.available(A)) == (10, 6, 4)
    assert (tree.available("b", A), tree.available("a", A)) == (3, 10)
    tree.charge("b", {A: 3}, 1)
    assert root.available(A) == 1
    assert (tree.available("b", A), tree.available("a", A)) == (0, 7)
    assert (tree.most("a", A), tree.most("b", A)) == (16, 9)


def test_t9_strict_fifo_the_second_waits():
    core = strict(world(), "StrictFIFO")
    assert bound(core.settle()) == {}
    core.remove_with_claims("running")
    assert list(bound(core.settle())) == ["head", "second"]


def test_t9_best_effort_fifo_the_second_runs():
    assert list(bound(strict(world(), "BestEffortFIFO").settle())) == ["second"]


@pytest.mark.parametrize("strategy", ["LessThanInitialShare", "LessThanOrEqualToFinalShare"])
def test_t10_shares_meet_in_the_middle(strategy):
    core = Core(objects.node("n", cpu="64"), gpus.slice_of("n", 8), flavor())
    notes = {"dray.dev/preemption-strategies": strategy}
    core.put(cohort("org", ("any", {GPU: nominal(8)}), annotations=notes, fairSharing={}))
    for name in ("a", "b"):
        policy = {"reclaimWithinCohort": "Any"}
        core.put(cluster_queue(name, ("any", {GPU: nominal(0)}), cohort="org", preemption=policy))
        core.put(local_queue(name, name))
    training(core, *(f"a{n}" for n in range(8)), queue="a")
    assert len(bound(core.settle())) == 8
    training(core, *(f"b{n}" for n in range(6)), queue="b")
    actions = core.settle()
    assert sorted(bound(actions)) == ["b0", "b1", "b2", "b3"]
    assert len(victims(actions)) == 4
    tree = core.state.queues.system(KueueQueues).tree
    assert (tree.used("a", Asset("any", GPU)), tree.used("b", Asset("any", GPU))) == (4, 4)


def test_t18_a_claim_that_five_pods_share_is_charged_once():
    core = world(objects.claim("shared"), number=1)
    for n in range(5):
        core.put(queued(f"p{n}", claims=["shared"]))
    assert len(bound(core.settle())) == 5
    assert core.state.queues.system(KueueQueues).tree.used("team", Asset("any", GPU)) == 1


def test_t19_a_claim_for_all_devices_there_will_ever_be_changes_nothing_for_others():
    core = world(number=2)
    for n in range(3):
        core.put(objects.claim(f"huge{n}", objects.request(count=2**63 - 1)), queued(f"huge{n}", claims=[f"huge{n}"]))
    training(core, "a", "b")
    assert sorted(bound(core.settle())) == ["a", "b"]


def shares(weight):
    """The share of a queue with quota for gpu 4 and cpu 50 that uses 10 and 40, where 16 and 200 could be lent."""
    gpu, cpu = Asset("any", "gpu"), Asset("any", "cpu")
    tree = QuotaTree()
    tree.put_queue("a", {gpu: Quota(4), cpu: Quota(50)}, "org", weight)
    tree.put_queue("b", {gpu: Quota(12), cpu: Quota(150)}, "org")
    tree.charge("a", {gpu: 10, cpu: 40}, 1)
    return share_of(tree.node("a")), share_of(tree.node("b"))


def test_10_4_the_example_of_dominant_resource_share():
    assert shares(1.0)[0].value == 375
    assert shares(2.0)[0].value == 187.5
    assert shares(2.0)[0].shown == 188
    assert shares(1.0)[1].value == 0


def test_10_4_a_queue_of_no_weight_that_borrows_has_an_infinite_share():
    share, _ = shares(0.0)
    assert share.shown == 2**63 - 1
    assert share > shares(0.001)[0]


def test_10_5_the_examples_of_use_over_time():
    hour = 3600.0
    usage, key = LocalUsage(), ("default", "team")
    usage.restore(key, {"gpu": 8.0}, 0.0)
    assert usage.is_due(key, hour, 300.0)
    usage.sample(key, {}, hour, hour)
    assert usage.consumed(key) == {"gpu": 4.0}
    assert round(alpha(300.0, 168 * hour), 6) == 0.000344
    assert alpha(300.0, 0.0) == 0.0
    usage.admit(key, {"gpu": 1}, hour, hour)
    assert usage.score(key, 1.0) == 4.5
    assert usage.score(key, 2.0) == 2.25
    assert usage.score(key, 0.0) == float("inf")
