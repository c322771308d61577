"""Packing: which node wastes least of the devices."""

from random import Random

import pytest

from dray.allocation import PACK
from dray.replay.device_units import WHOLE
from dray.replay.simulation import Simulation
from dray.replay.trace_objects import trace_workload, trace_world
from dray.replay.traces import Machine, Task, drawn
from dray.testing import objects
from tests import gpus
from tests.scheduling.core import Core, bound, pod

PACKING = {"policy": PACK}


def shared_gpus(node, count=2):
    devices = [
        {
            "name": f"gpu-{number}",
            "allowMultipleAllocations": True,
            "attributes": {"kind": {"string": "gpu"}},
            "capacity": {"milli": {"value": "1000"}},
        }
        for number in range(count)
    ]
    return objects.resource_slice(node, *devices, nodeName=node)


def share(name, milli):
    claim = objects.claim(name)
    exactly = claim["spec"]["devices"]["requests"][0]["exactly"]
    exactly["capacity"] = {"requests": {"milli": str(milli)}}
    return claim


def place(core, name, node=None, claim=None, **members):
    """Places a pod, where a node is named on that one."""
    if claim is not None:
        core.put(claim)
        members["claims"] = [claim["metadata"]["name"]]
    if node is not None:
        members["nodeSelector"] = {"kubernetes.io/hostname": node}
    core.put(pod(name, **members))
    return bound(core.settle(1.0)).get(name)


@pytest.fixture
def core():
    """Two nodes alike, with two devices each."""
    return Core(*(objects.node(name) for name in "ab"), *(shared_gpus(name) for name in "ab"), **PACKING)


def test_a_node_with_devices_in_use_is_preferred_to_one_without(core):
    place(core, "first", "b", share("first", 1000), cpu="1")
    assert place(core, "second", claim=share("second", 1000), cpu="1") == "b"


def test_a_share_goes_where_it_leaves_the_smallest_rest(core):
    # On a, more is in use; on b, a device has just the room.
    place(core, "whole", "a", share("whole", 1000))
    place(core, "part", "b", share("part", 400))
    assert place(core, "rest", claim=share("rest", 600)) == "b"


def test_a_share_goes_where_other_shares_can_use_the_rest():
    core = Core(*(objects.node(name) for name in "abc"), *(shared_gpus(name, 16) for name in "abc"), **PACKING)
    for number in range(32):
        place(core, f"half-{number}", "c", share(f"half-{number}", 500))
    place(core, "first", "a", share("first", 480))
    place(core, "second", "b", share("second", 200))
    # On a it would leave 220 thousandths, which no share can use; on b a half.
    assert place(core, "next", claim=share("next", 300)) == "b"


def test_kept_scores_follow_the_sizes_of_shares():
    core = Core(*(objects.node(name) for name in "abcd"), *(shared_gpus(name, 16) for name in "abcd"), **PACKING)
    for node, used in {"a": 480, "d": 480, "b": 200}.items():
        place(core, f"first-{node}", node, share(f"first-{node}", used))
    # The smallest rest, since too few shares are in use. The scores of b and of the other node are kept.
    assert place(core, "second", claim=share("second", 300)) in ("a", "d")
    for number in range(32):
        place(core, f"half-{number}", "c", share(f"half-{number}", 500))
    assert place(core, "third", claim=share("third", 300)) == "b"


def test_pods_without_claims_leave_cpu_to_devices_that_are_free(core):
    for number in range(2):
        place(core, f"whole-{number}", "a", share(f"whole-{number}", 1000), cpu="1")
    # On b there is more cpu; but who needs devices will need it.
    assert place(core, "plain", cpu="5") == "a"


def test_devices_are_not_left_over_where_cpu_is_used_up():
    core = Core(*(objects.node(name) for name in "ab"), *(shared_gpus(name, 4) for name in "ab"), **PACKING)
    place(core, "greedy", "a", share("greedy", 1000), cpu="4")
    # It would leave node a with two devices and no cpu at all.
    assert place(core, "next", claim=share("next", 1000), cpu="4") == "b"


@pytest.mark.parametrize(("used_up", "expected"), [(False, "b"), (True, "a")])
def test_devices_that_lose_their_cpu_do_not_count_if_cpu_is_used_up_first(used_up, expected):
    core = Core(*(objects.node(name) for name in "abc"), *(shared_gpus(name, 4) for name in "abc"), **PACKING)
    for number in range(3):
        place(core, f"a-{number}", "a", share(f"a-{number}", 1000), cpu="2")
    place(core, "b-0", "b", share("b-0", 1000))
    if used_up:
        # Pods use 14 of 24 cores and 4 of 12 devices: some devices will stay free wherever pods go.
        place(core, "c-0", "c", cpu="8")
    # The device that is free on a needs the rest of the cpu there; b has cpu to spare.
    assert place(core, "plain", cpu="1") == expected


def test_pods_that_use_little_cpu_do_not_break_whole_nodes():
    core = Core(*(objects.node(name) for name in "ab"), *(shared_gpus(name, 4) for name in "ab"), **PACKING)
    nodes = [place(core, f"p{number}", claim=share(f"p{number}", 1000), cpu="100m") for number in range(4)]
    assert len(set(nodes)) == 1


def test_pods_without_claims_fill_nodes_without_devices_one_by_one():
    core = Core(*(objects.node(name) for name in "abc"), shared_gpus("c"), **PACKING)
    first = place(core, "first", cpu="2")
    assert first in ("a", "b")
    assert place(core, "second", cpu="2") == first


def test_partitions_whose_counters_are_used_up_are_in_use():
    def cards(node):
        counters = {"memory": {"value": "40Gi"}}
        devices = [
            gpus.gpu(name, consumesCounters=[{"counterSet": "card", "counters": {"memory": {"value": size}}}])
            for name, size in (("whole", "40Gi"), ("left", "20Gi"), ("right", "20Gi"))
        ]
        sets = objects.resource_slice(f"{node}-sets", pool=node, nodeName=node, resourceSliceCount=2)
        sets["spec"]["sharedCounters"] = [{"name": "card", "counters": counters}]
        return [sets, objects.resource_slice(f"{node}-cards", *devices, pool=node, nodeName=node, resourceSliceCount=2)]

    core = Core(objects.node("a"), objects.node("b"), *cards("a"), *cards("b"), **PACKING)
    assert place(core, "whole", "a", objects.claim("whole")) == "a"
    assert place(core, "plain", cpu="1") == "a"


def test_packing_allocates_more_than_the_default_over_a_mixed_load():
    random = Random(1)
    cluster = [Machine(f"m-{n}", 32_000, 131_072, gpus, "A") for n, gpus in enumerate([2, 2, 4, 4, 8, 8])]
    known = [
        *(Task(random.choice([2000, 4000, 8000]), 8192, 1, random.choice([100, 250, 300, 500]), "") for _ in range(40)),
        *(Task(random.choice([4000, 8000]), 16_384, 1, WHOLE, "") for _ in range(15)),
        *(Task(8000, 16_384, random.choice([2, 4]), WHOLE, "") for _ in range(5)),
        *(Task(random.choice([1000, 4000]), 4096, 0, 0, "") for _ in range(15)),
    ]
    plain, packed = [], []
    for seed in range(3):
        sequence = drawn(list(map(trace_workload, known)), 1.3 * WHOLE * sum(machine.gpus for machine in cluster), seed)
        plain.append(Simulation(trace_world(cluster), "kubernetes", seed).play(sequence).percent)
        packed.append(Simulation(trace_world(cluster), "pack", seed).play(sequence).percent)
    assert sum(packed) > sum(plain), (plain, packed)


def test_power_prefers_models_that_draw_little():
    cluster = [Machine("v", 32_000, 131_072, 2, "V100M32"), Machine("t", 32_000, 131_072, 2, "T4")]
    task = trace_workload(Task(1000, 1024, 1, WHOLE))
    simulation = Simulation(trace_world(cluster), "pack,power")
    simulation.play([task, task])
    assert simulation.meter.gpu_watts == 2 * 30 + 2 * 70


@pytest.mark.parametrize(
    ("request_", "affine", "expected"),
    [
        (objects.request(count=4), False, "b"),
        (objects.request(count=4), True, "a"),
        (objects.first_available("gpu", objects.subrequest("four", count=4), objects.subrequest("one")), True, "a"),
    ],
)
def test_a_preferred_node_counts_more_than_the_value_of_models(request_, affine, expected):
    core = Core(*(objects.node(name) for name in "ab"), **PACKING)
    for node, memory in (("a", "192Gi"), ("b", "24Gi")):
        devices = [gpus.gpu(f"gpu-{number}", capacity={"memory": {"value": memory}}) for number in range(4)]
        core.put(objects.resource_slice(node, *devices, nodeName=node))
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["a"]}]}
    preferred = [{"weight": 1, "preference": term}]
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}} if affine else {}
    assert place(core, "p", claim=objects.claim("p", request_), affinity=affinity) == expected


def test_pods_that_take_any_model_get_the_least_valuable():
    """A node with many small devices free is preferred to one with a large one."""
    core = Core(*(objects.node(name) for name in "abc"), **PACKING)
    for node, memory, count in (("a", "80Gi", 1), ("b", "24Gi", 4), ("c", "40Gi", 2)):
        devices = [gpus.gpu(f"gpu-{number}", capacity={"memory": {"value": memory}}) for number in range(count)]
        core.put(objects.resource_slice(node, *devices, nodeName=node))
    assert [place(core, f"p{number}", claim=objects.claim(f"p{number}")) for number in range(7)] == list("bbbbcca")
