"""How far up a tree of cohorts a Kueue queue borrows, which flavor is reclaimed, and who may preempt at all."""

import pytest

from dray.scheduling.quota.quota_tree import Asset, Quota, QuotaTree
from dray.testing import objects
from tests.scheduling.core import Core, bound, refused, victims
from tests.scheduling.test_queues import cluster_queue, cohort, flavor, local_queue, nominal, queued

A = Asset("any", "cpu")
TRY_NEXT = {"flavorFungibility": {"whenCanBorrow": "TryNextFlavor"}}
ANY = {"preemption": {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"}}


def core_with(*documents, nodes=("any",), cpu="100"):
    """One node for each flavor."""
    core = Core(*documents)
    for name in nodes:
        core.put(flavor(name, kind=name), objects.node(f"on-{name}", cpu=cpu, labels={"kind": name}))
    return core


def team(name, *flavors, parent="org", **spec):
    quotas = [(each, {"cpu": nominal(number)}) for each, number in flavors]
    return cluster_queue(name, *quotas, cohort=parent, **spec), local_queue(name, name)


def on(core, name, queue, node, cpu, start="2026-01-01T00:00:00Z", **more):
    """A pod that runs."""
    made = queued(name, queue, cpu=cpu, **more)
    made["spec"]["nodeName"] = f"on-{node}"
    made["status"] = {"startTime": start}
    core.put(made)


def test_the_level_of_borrowing_is_the_height_of_the_cohort_that_has_enough():
    tree = QuotaTree()
    tree.put_queue("q", {A: Quota(1)}, "team")
    tree.put_cohort("team", {A: Quota(2)}, "org")
    tree.put_cohort("org", {A: Quota(4)}, "")
    assert [tree.borrowing_level("q", A, amount) for amount in (1, 2, 3, 4, 7, 9)] == [0, 1, 1, 2, 2, 2]


def test_a_queue_without_a_cohort_borrows_nothing():
    tree = QuotaTree()
    tree.put_queue("q", {A: Quota(1)}, "")
    assert tree.borrowing_level("q", A, 5) == 0


def test_whoever_borrows_less_far_up_goes_first():
    core = core_with(
        cohort("org", ("any", {"cpu": nominal(4)})),
        cohort("near", ("any", {"cpu": nominal(4)}), parentName="org"),
        *team("a", ("any", 0), parent="org2"),
        *team("b", ("any", 0), parent="near"),
    )
    core.put(cohort("org2", parentName="org"))
    core.put(queued("far", "a", cpu="6"), queued("close", "b", cpu="4"))
    assert list(bound(core.settle())) == ["close"]


@pytest.mark.parametrize(("spec", "expected"), [(TRY_NEXT, "on-spot"), ({}, "on-reserved")])
def test_a_queue_that_tries_the_next_flavor_has_the_one_it_borrows_less_far_up(spec, expected):
    core = core_with(
        cohort("org", ("reserved", {"cpu": nominal(4)}), ("spot", {"cpu": nominal(0)})),
        cohort("team", ("reserved", {"cpu": nominal(0)}), ("spot", {"cpu": nominal(4)}), parentName="org"),
        *team("q", ("reserved", 0), ("spot", 0), parent="team", **spec),
        nodes=("reserved", "spot"),
    )
    core.put(queued("p", "q", cpu="2"))
    assert bound(core.settle()) == {"p": expected}


@pytest.mark.parametrize(("fungibility", "victim"), [({}, "borrower"), ({"whenCanPreempt": "Preempt"}, "own")])
def test_borrowers_of_a_later_flavor_go_before_own_pods_of_an_earlier_one(fungibility, victim):
    core = core_with(
        *team("a", ("reserved", 4), ("spot", 4), flavorFungibility=fungibility, **ANY),
        *team("b", ("reserved", 0), ("spot", 0)),
        nodes=("reserved", "spot"),
    )
    on(core, "own", "a", "reserved", "4", value=-1)
    on(core, "borrower", "b", "spot", "4", value=5)
    core.put(queued("p", "a", cpu="4"))
    actions = core.settle()
    assert victims(actions) == [victim]
    assert list(bound(actions)) == ["p"]


def test_a_pod_larger_than_the_nominal_quota_does_not_preempt():
    core = core_with(*team("a", ("any", 4), **ANY), *team("b", ("any", 4)))
    on(core, "low", "a", "any", "6", value=-1)
    core.put(queued("p", "a", cpu="6"))
    actions = core.settle()
    assert victims(actions) == []
    assert "more than the quota of 4 of ClusterQueue a, can only borrow" in refused(actions)["p"]


def test_a_pod_larger_than_the_nominal_quota_preempts_while_it_borrows_where_that_is_allowed():
    preemption = {**ANY["preemption"], "borrowWithinCohort": {"policy": "LowerPriority"}}
    core = core_with(*team("a", ("any", 4), preemption=preemption), *team("b", ("any", 4)))
    on(core, "low", "a", "any", "6", value=-1)
    core.put(queued("p", "a", cpu="6"))
    assert victims(core.settle()) == ["low"]


def test_a_pod_larger_than_the_nominal_quota_reclaims_what_its_cohort_has():
    core = core_with(
        cohort("org"),
        cohort("near", ("any", {"cpu": nominal(4)}), parentName="org"),
        cohort("other", parentName="org"),
        *team("a", ("any", 0), parent="near", **ANY),
        *team("b", ("any", 0), parent="other"),
    )
    on(core, "borrower", "b", "any", "4")
    core.put(queued("p", "a", cpu="4"))
    assert victims(core.settle()) == ["borrower"]


def test_with_fair_sharing_whoever_fits_the_nominal_quota_goes_first():
    fair = {"fairSharing": {"weight": "1"}}
    core = core_with(
        *team("a", ("reserved", 4), ("spot", 0), **fair),
        *team("b", ("reserved", 0), ("spot", 0), **fair),
        *team("lender", ("reserved", 0), ("spot", 10), **fair),
        nodes=("reserved", "spot"),
    )
    # Queue a has borrowed much of another flavor, so that its share is larger.
    on(core, "spot-heavy", "a", "spot", "9")
    core.put(queued("borrows", "b", cpu="3", nodeSelector={"kind": "reserved"}))
    core.put(queued("fits", "a", cpu="4", nodeSelector={"kind": "reserved"}))
    assert list(bound(core.settle())) == ["fits"]


@pytest.mark.parametrize(("cpu", "gone"), [("1", ["borrower"]), ("2", [])], ids=["within nominal quota", "beyond"])
def test_with_fair_sharing_a_queue_reclaims_its_nominal_quota_whatever_its_share_is(cpu, gone):
    fair = {"fairSharing": {}}
    core = core_with(
        *team("a", ("reserved", 3), ("spot", 0), **ANY, **fair),
        *team("b", ("reserved", 0), ("spot", 6), **fair),
        nodes=("reserved", "spot"),
    )
    # Queue a has borrowed much of another flavor, so that its share is larger than that of queue b.
    on(core, "spot-heavy", "a", "spot", "5")
    on(core, "own", "a", "reserved", "2")
    on(core, "borrower", "b", "reserved", "1")
    core.put(queued("p", "a", cpu=cpu, nodeSelector={"kind": "reserved"}))
    assert victims(core.settle()) == gone


@pytest.mark.parametrize("names", ["xyz", "zyx", "yzx"])
@pytest.mark.parametrize("fair", [{}, {"fairSharing": {}}], ids=["by priority", "fair"])
def test_which_of_equals_is_evicted_does_not_depend_on_the_order_in_which_they_became_known(fair, names):
    core = core_with(*team("a", ("any", 3), **ANY, **fair), *team("b", ("any", 0), **fair))
    for name in names:
        on(core, name, "b", "any", "1")
    core.put(queued("p", "a", cpu="1"))
    assert victims(core.settle()) == ["x"]


@pytest.mark.parametrize("fair", [{}, {"fairSharing": {}}], ids=["by priority", "fair"])
def test_the_one_pod_whose_place_helps_is_evicted_though_it_started_first(fair):
    core = core_with(*team("a", ("any", 3), **ANY, **fair), *team("b", ("any", 1), **fair))
    core.put(objects.node("on-far", cpu="1", labels={"kind": "any", "zone": "far"}))
    on(core, "old", "b", "far", "1")
    for hour, name in enumerate(("new", "newer", "newest"), 1):
        on(core, name, "b", "any", "1", start=f"2026-01-01T0{hour}:00:00Z")
    core.put(queued("p", "a", cpu="1", nodeSelector={"zone": "far"}))
    assert victims(core.settle()) == ["old"]
