"""A gang in a queue with several flavors has one of them, as a pod set of Kueue does; gangs of a tree each have one."""

import pytest

from dray.testing import objects
from tests.scheduling.core import Core, bound, refused_groups
from tests.scheduling.test_group_attempts import gang, member
from tests.scheduling.test_group_trees import composite
from tests.scheduling.test_queues import cluster_queue, flavor, in_queue, local_queue, nominal


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
    assert "there is a place for 3" in refused_groups(actions)["g"]
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
