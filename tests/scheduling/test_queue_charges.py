"""What pods hold of their queues is what a restart would count, also when classes, nodes or topologies change."""

import pytest

from dray.scheduling.quota.kueue.policy import KueueQueues
from dray.testing import objects
from tests import gpus
from tests.scheduling.core import Core, bound, pod, refused
from tests.scheduling.test_kueue_groups import topology
from tests.scheduling.test_queues import cluster_queue, flavor, local_queue, nominal, queued, training, world
from tests.scheduling.test_share_tree import queue
from tests.scheduling.test_vectors_kai import cluster, held, labelled, submit

NAME = "example.com/gpu"


def used(core, name="team"):
    core.state.queues.refresh()
    return {
        asset: amount for asset, amount in core.state.queues.system(KueueQueues).tree.node(name).used.items() if amount
    }


def recounted(core):
    """As a restart counts it."""
    core.state.queues.system(KueueQueues).charges.outdate()
    return used(core)


def named(name=NAME):
    return gpus.device_class("gpu", **({"extendedResourceName": name} if name else {}))


def gpu_queue(number, resource=NAME):
    core = world()
    core.put(cluster_queue("team", ("any", {resource: nominal(number)})))
    return core


# Classes


def test_pods_that_run_count_under_a_name_that_their_class_gets_later():
    core = gpu_queue(1)
    training(core, "a", "b")
    assert sorted(bound(core.settle())) == ["a", "b"]
    core.put(named())
    training(core, "c")
    actions = core.settle()
    assert bound(actions) == {}
    assert "needs 1 example.com/gpu, 0 left" in refused(actions)["c"]
    assert used(core) == recounted(core) == {("any", NAME): 2}


def network():
    return objects.resource_slice("net", *[gpus.gpu(f"net-{number}", kind="net") for number in range(2)])


def net_claim(name):
    return objects.claim(name, objects.request(deviceClassName="net"))


@pytest.mark.parametrize("change", ["other", "none", "removed"])
def test_a_name_that_a_class_loses_is_free_for_those_that_wait(change):
    core = gpu_queue(1)
    core.put(named(), network(), gpus.device_class("net", extendedResourceName=NAME))
    training(core, "a")
    assert list(bound(core.settle())) == ["a"]
    core.put(net_claim("c-waits"), queued("waits", claims=["c-waits"]))
    assert bound(core.settle()) == {}
    if change == "removed":
        core.remove("DeviceClass", "gpu")
    else:
        core.put(named("example.com/other" if change == "other" else None))
    assert list(bound(core.settle())) == ["waits"]
    assert used(core) == recounted(core) == {("any", NAME): 1}


def test_a_class_that_comes_after_its_pods_gives_them_its_name():
    core = gpu_queue(1)
    claim = objects.claim("c-a", status={"allocation": objects.allocation("gpu-0", pool="n", nodeName="n")})
    core.put({**claim, "spec": {"devices": {"requests": [objects.request("gpu", deviceClassName="late")]}}})
    core.put(queued("a", claims=["c-a"], nodeName="n"))
    core.settle()
    assert used(core) == {}
    core.put(gpus.device_class("late", extendedResourceName=NAME))
    assert used(core) == recounted(core) == {("any", NAME): 1}


def test_without_extended_resources_classes_have_no_names():
    core = gpu_queue(1)
    core.put(named())
    training(core, "a")
    core.settle()
    core.scheduler.leave_out_extended()
    assert used(core) == recounted(core) == {}


def test_a_class_that_gets_a_name_of_gpus_counts_for_queues_of_kai():
    core = cluster(queue("a", "dept", quota=1, limit=1), network())
    for name in ("first", "second"):
        core.put(net_claim(name), labelled(pod(name, claims=[name]), "a"))
        core.settle()
    assert held(core, "a") == 0
    core.put(gpus.device_class("net", extendedResourceName=NAME))
    submit(core, "a", "late")
    assert bound(core.settle()) == {}
    assert held(core, "a") == 2


def test_a_class_that_says_the_same_again_costs_nothing():
    core = gpu_queue(2)
    core.put(named())
    training(core, "a")
    core.settle()
    before = core.state.queues.revision
    core.put(named())
    assert core.state.queues.revision == before
    core = Core(objects.node("n"), named(), named(None))
    assert core.state.queues.revision == 0


# Nodes


def two_kinds():
    """A queue with cores of one flavor and none of another."""
    labels = {"kind": "old"}
    core = Core(objects.node("n", cpu="4", labels=labels), objects.node("m", cpu="4", labels=labels))
    core.put(flavor("old", kind="old"), flavor("new", kind="new"), local_queue("team", "team"))
    core.put(cluster_queue("team", ("old", {"cpu": nominal(4)}), ("new", {"cpu": nominal(0)})))
    return core


def test_a_node_with_other_labels_has_its_pods_in_another_flavor():
    core = two_kinds()
    core.put(queued("a", cpu="4"))
    (node,) = bound(core.settle()).values()
    core.put(queued("b", cpu="4"))
    assert bound(core.settle()) == {}
    core.put(objects.node(node, cpu="4", labels={"kind": "new"}))
    assert list(bound(core.settle())) == ["b"]
    assert used(core) == recounted(core) == {("new", "cpu"): 4000, ("old", "cpu"): 4000}


def test_a_node_that_comes_after_its_pods_has_them_in_its_flavor():
    core = two_kinds()
    core.put(queued("a", cpu="4", nodeName="late"))
    assert used(core) == {("old", "cpu"): 4000}
    core.put(objects.node("late", cpu="4", labels={"kind": "new"}))
    assert used(core) == recounted(core) == {("new", "cpu"): 4000}
    core.remove("Node", "late")
    assert used(core) == recounted(core) == {("old", "cpu"): 4000}


def test_labels_that_no_flavor_speaks_of_cost_nothing():
    core = two_kinds()
    core.put(queued("a", cpu="4"))
    (node,) = bound(core.settle()).values()
    before = core.state.queues.revision
    core.put(objects.node(node, cpu="4", labels={"kind": "old", "more": "of it"}))
    core.put(objects.node("empty", labels={"kind": "new"}))
    assert core.state.queues.revision == before


def test_a_topology_that_changes_moves_pods_to_another_flavor():
    core = Core(objects.node("n", cpu="8", labels={"rack": "r"}), local_queue("team", "team"))
    racks = {**flavor("racks"), "spec": {"topologyName": "default"}}
    core.put(racks, flavor())
    core.scheduler.put(*topology("rack"), core.now)
    core.put(cluster_queue("team", ("racks", {"cpu": nominal(4)}), ("any", {"cpu": nominal(4)})))
    core.put(queued("a", cpu="2"))
    core.settle()
    assert used(core) == {("racks", "cpu"): 2000}
    core.scheduler.put(*topology("rack", "host"), core.now)
    assert used(core) == recounted(core) == {("any", "cpu"): 2000}
