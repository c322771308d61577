"""Queues with several flavors, which are nodes. A gang has one of them, as a pod set of Kueue does; of a tree each."""

import pytest

from dray.testing import objects
from tests import gpus
from tests.scheduling.core import Core, bound, pod, refused_groups, victims
from tests.scheduling.test_group_attempts import gang, member
from tests.scheduling.test_group_trees import composite
from tests.scheduling.test_queues import (
    GPU,
    cluster_queue,
    flavor,
    in_queue,
    local_queue,
    nominal,
    queued,
    training,
    world,
)


def queue_of(room, quota, **spec):
    """By flavor, in their order: the cpus of its one node, and what the queue has of it."""
    core = Core(local_queue("team", "team"))
    for name, cpu in room.items():
        core.put(flavor(name, kind=name), objects.node(f"on-{name}", cpu=str(cpu), labels={"kind": name}))
    core.put(cluster_queue("team", *((name, {"cpu": nominal(each)}) for name, each in quota.items()), **spec))
    return core


def members(name, numbers):
    return [in_queue(member(f"{name}-{number}", of=name, cpu="1")) for number in numbers]


def nodes_of(actions, name):
    return {node for pod, node in bound(actions).items() if pod.startswith(name)}


def test_all_pods_have_the_first_flavor_that_has_enough_for_all():
    core = queue_of({"reserved": 3, "spot": 8}, {"reserved": 3, "spot": 8})
    core.put(gang("g", 4), *members("g", range(4)), gang("h", 3), *members("h", range(3)))
    actions = core.settle()
    assert nodes_of(actions, "g") == {"on-spot"}
    assert nodes_of(actions, "h") == {"on-reserved"}


@pytest.mark.parametrize("quota", [4, 8])
def test_no_gang_is_split_over_flavors(quota):
    core = queue_of({"reserved": 2, "spot": 3}, {"reserved": quota, "spot": quota})
    core.put(gang("g", 4), *members("g", range(4)))
    actions = core.settle()
    assert bound(actions) == {}
    assert "only 3 fit" in refused_groups(actions)["g"]
    assert "Insufficient cpu" in refused_groups(actions)["g"]
    core.put(objects.node("more", cpu="1", labels={"kind": "spot"}))
    assert nodes_of(core.settle(), "g") == {"on-spot", "more"}


def test_the_rest_of_a_gang_has_the_flavor_of_those_that_run():
    core = queue_of({"reserved": 3, "spot": 8}, {"reserved": 3, "spot": 8})
    started = members("g", range(2))
    for each in started:
        each["spec"]["nodeName"] = "on-spot"
    core.put(gang("g", 4), *started, *members("g", range(2, 4)))
    assert nodes_of(core.settle(), "g") == {"on-spot"}


def test_gangs_of_a_tree_have_a_flavor_each():
    core = queue_of({"reserved": 3, "spot": 3}, {"reserved": 8, "spot": 8})
    core.put(composite("root", 2))
    for name in "xy":
        core.put(objects.pod_group(name, minCount=3, uid=f"uid-{name}", parentCompositePodGroupName="root"))
        core.put(*members(name, range(3)))
    actions = core.settle()
    assert {frozenset(nodes_of(actions, name)) for name in "xy"} == {frozenset({"on-reserved"}), frozenset({"on-spot"})}


def test_rather_a_later_flavor_than_a_borrowed_one():
    core = queue_of(
        {"reserved": 8, "spot": 8},
        {"reserved": 2, "spot": 4},
        cohort="org",
        flavorFungibility={"whenCanBorrow": "TryNextFlavor"},
    )
    core.put(cluster_queue("other", ("reserved", {"cpu": nominal(6)}), cohort="org"))
    core.put(gang("g", 4), *members("g", range(4)), gang("h", 2), *members("h", range(2)))
    actions = core.settle()
    assert nodes_of(actions, "g") == {"on-spot"}
    assert nodes_of(actions, "h") == {"on-reserved"}


def test_flavors_are_nodes():
    core = world()
    core.put(objects.node("m", labels={"kind": "new"}), gpus.slice_of("m", 4), flavor("new", kind="new"))
    core.put(cluster_queue("team", ("new", {GPU: nominal(1)}), ("any", {GPU: nominal(2)})))
    training(core, "a", "b", "c", "d")
    places = sorted(bound(core.settle()).values())
    assert places == ["m", "n", "n"]


def two_flavors(**quotas):
    """A node of each flavor; another queue borrows all of the first, and the node of the second is full."""
    core = Core(
        flavor("f1", zone="1"), flavor("f2", zone="2"), local_queue("team", "team"), local_queue("other", "other")
    )
    core.put(*(objects.node(f"n{zone}", cpu="4", labels={"zone": zone}) for zone in "12"))
    flavors = [(name, {"cpu": nominal(number)}) for name, number in quotas.items()]
    core.put(cluster_queue("team", *flavors, cohort="org", preemption={"reclaimWithinCohort": "Any"}))
    core.put(cluster_queue("other", ("f1", {"cpu": nominal(0)}), cohort="org"))
    core.put(pod("plain", cpu="4", nodeSelector={"zone": "2"}, value=1000), queued("borrower", "other", cpu="4"))
    assert bound(core.settle()) == {"plain": "n2", "borrower": "n1"}
    return core


@pytest.mark.parametrize("second", [0, 4])
def test_own_quota_of_one_flavor_comes_back_though_another_has_quota_and_no_room(second):
    core = two_flavors(f1=4, f2=second)
    core.put(queued("owner", cpu="4"))
    actions = core.settle()
    assert victims(actions) == ["borrower"]
    assert bound(actions) == {"owner": "n1"}


def test_own_quota_of_one_flavor_comes_back_to_a_gang():
    core = two_flavors(f1=4, f2=4)
    core.put(gang("g", 2), *(in_queue(member(f"g-{number}", cpu="2")) for number in range(2)))
    actions = core.settle()
    assert victims(actions) == ["borrower"]
    assert bound(actions) == {"g-0": "n1", "g-1": "n1"}


def test_who_has_room_without_quota_of_the_flavor_there_is_woken_when_it_is_free():
    core = Core(flavor("f1", zone="1"), flavor("f2", zone="2"), local_queue("team", "team"))
    core.put(
        *(objects.node(name, cpu="4", labels={"zone": zone}) for name, zone in (("a", "1"), ("b", "1"), ("c", "2")))
    )
    core.put(cluster_queue("team", ("f1", {"cpu": nominal(4)}), ("f2", {"cpu": nominal(4)})))
    core.put(pod("plain", cpu="4", nodeSelector={"zone": "2"}), queued("running", cpu="4"))
    assert bound(core.settle())["running"] in "ab"
    core.put(queued("waiting", cpu="4", preemptionPolicy="Never"))
    assert bound(core.settle()) == {}
    core.remove("Pod", "running")
    assert bound(core.settle()).keys() == {"waiting"}


def test_what_would_be_free_without_others_is_not_when_they_stay():
    core = Core(objects.node("n", cpu="4", labels={"zone": "b"}), flavor(), flavor("zone-b", zone="b"))
    core.put(local_queue("team", "team"), local_queue("other", "other"))
    flavors = [("zone-b", {"cpu": nominal(0)}), ("any", {"cpu": nominal(3)})]
    core.put(cluster_queue("team", *flavors, cohort="org", preemption={"reclaimWithinCohort": "Any"}))
    core.put(cluster_queue("other", ("any", {"cpu": nominal(0)}), cohort="org"))
    core.put(queued("borrower", "other", cpu="3"))
    assert bound(core.settle()) == {"borrower": "n"}
    # There would be quota for it without the borrower, but not on this node.
    core.put(queued("owner", cpu="3"))
    assert victims(core.settle()) == []
    core.put(pod("plain", cpu="3"))
    assert bound(core.settle()) == {}


def mixed(name, **kinds):
    """Pods of one gang, so many for each kind of node."""
    return [
        in_queue(member(f"{name}-{kind}-{n}", of=name, cpu="1", nodeSelector={"kind": kind}))
        for kind, number in kinds.items()
        for n in range(number)
    ]


@pytest.mark.parametrize("quota", [{"cpus": 1, "gpus": 3}, {"cpus": 8, "gpus": 8}])
def test_pods_of_a_gang_that_need_different_flavors_have_one_each(quota):
    core = queue_of({"cpus": 4, "gpus": 4}, quota)
    core.put(gang("g", 4), *mixed("g", cpus=1, gpus=3))
    placed = bound(core.settle())
    assert sorted(placed.values()) == ["on-cpus", "on-gpus", "on-gpus", "on-gpus"]


def test_a_gang_waits_for_quota_of_each_flavor_that_its_pods_need():
    core = queue_of({"cpus": 4, "gpus": 4}, {"cpus": 1, "gpus": 2})
    core.put(gang("g", 4), *mixed("g", cpus=1, gpus=3))
    actions = core.settle()
    assert bound(actions) == {}
    assert "ClusterQueue team has 2 cpu at most" in refused_groups(actions)["g"]


def test_for_a_gang_pods_are_evicted_in_each_flavor_that_it_needs():
    core = queue_of({"cpus": 4, "gpus": 4}, {"cpus": 2, "gpus": 2}, preemption={"withinClusterQueue": "LowerPriority"})
    for kind in ("cpus", "gpus"):
        made = queued(f"low-{kind}", cpu="2", value=-1)
        made["spec"]["nodeName"] = f"on-{kind}"
        core.put(made)
    core.put(gang("g", 3), *mixed("g", cpus=1, gpus=2))
    actions = core.settle()
    assert victims(actions) == ["low-cpus", "low-gpus"]
    assert len(bound(actions)) == 3
