"""Test vectors of the reference about groups, by name: T1 to T4, T11 to T14, T17, T21."""

from dray.testing import objects
from tests import gpus
from tests.scheduling.core import Core, bound, pod, refused_groups, victims
from tests.scheduling.test_group_attempts import (
    EITHER,
    ONE_PER_NODE,
    RACK,
    WHOLE,
    finish,
    gang,
    member,
    network_pool,
    nodes,
    partitioned,
    rack,
    training,
)
from tests.scheduling.test_kai_groups import tell
from tests.scheduling.test_kueue_groups import counts, hosts, topology, world
from tests.scheduling_loop.test_coscheduling import group, in_group, named


def test_t1_a_gang_fills_two_nodes_with_two_devices_each():
    core = Core(*nodes(a=2, b=2), *training("g", 4))
    assert sorted(bound(core.settle()).values()) == ["a", "a", "b", "b"]


def test_t1_with_three_free_devices_nothing_is_written():
    core = Core(*nodes(a=2, b=1), *training("g", 4))
    actions = core.settle()
    assert bound(actions) == {}
    (message,) = refused_groups(actions).values()
    assert "4 pods have to be placed together, but only 3 fit" in message
    assert "2 cannot allocate all claims" in message
    assert core.state.inventory.usage.claims == {}
    assert not core.scheduler.in_flight


def test_t2_of_two_gangs_the_older_one_runs():
    core = Core(*nodes(a=3, b=3))
    core.put(gang("old", 4), gang("new", 4))
    core.put(*list(training("new", 4))[1:])
    core.put(*list(training("old", 4))[1:])
    actions = core.settle()
    assert {name.split("-")[0] for name in bound(actions)} == {"old"}
    assert len(bound(actions)) == 4
    for name in list(bound(actions)):
        core.remove_with_claims(name)
    assert {name.split("-")[0] for name in bound(core.settle())} == {"new"}


def test_t3_two_pods_get_halves_where_the_first_would_take_the_whole():
    core = Core(*partitioned("n"), *training("g", 2, request=EITHER))
    assert bound(core.settle()) == {"g-0": "n", "g-1": "n"}
    held = [gpus.held(core.get("ResourceClaim", f"g-{n}")) for n in range(2)]
    assert sorted(held) == [["half-0"], ["half-1"]]


def test_t4_the_pool_is_chosen_that_reaches_enough_nodes():
    names = [f"n{n}" for n in range(1, 6)]
    core = Core(*(objects.node(name, labels={"kubernetes.io/hostname": name}) for name in names))
    core.put(network_pool("p", "n1", "n2"), network_pool("q", "n3", "n4", "n5"))
    entry = {"name": "claim-0", "resourceClaimName": "fabric"}
    core.put(objects.claim("fabric", objects.request(deviceClassName="net")))
    core.put(gang("g", 3, resourceClaims=[entry]))
    for n in range(3):
        core.put(member(f"w{n}", claims=["fabric"], container=ONE_PER_NODE))
    assert sorted(bound(core.settle()).values()) == ["n3", "n4", "n5"]
    claim = core.get("ResourceClaim", "fabric")
    assert gpus.held(claim) == ["q-0"]
    assert [each["resource"] for each in claim["status"]["reservedFor"]] == ["podgroups"]


def test_t11_best_fit():
    core = world(*hosts(3, 3, 2, 1))
    tell(core, topology())
    assert sorted(counts(core, 4, 7, podset_required_topology="rack")[:2]) == [3, 3]
    assert core.state.nodes["b-r-h2"].pods == {}


def test_t11_least_free_capacity():
    core = world(*hosts(3, 3, 2, 1))
    tell(core, topology())
    found = counts(core, 4, 7, podset_unconstrained_topology="true")
    assert (sorted(found[:2]), found[2:]) == ([1, 3], [2, 1])


def test_t11_slices_best_fit():
    core = world(*hosts(6, 5, 4, 3, 2))
    tell(core, topology())
    said = {"podset_required_topology": "rack", "podset_slice_required_topology": "host", "podset_slice_size": "2"}
    assert counts(core, 5, 12, **said) == [6, 0, 4, 0, 2]


def test_t11_slices_least_free_capacity():
    core = world(*hosts(6, 5, 4, 3, 2))
    tell(core, topology())
    said = {
        "podset_unconstrained_topology": "true",
        "podset_slice_required_topology": "host",
        "podset_slice_size": "2",
    }
    assert counts(core, 5, 10, **said) == [0, 2, 4, 2, 2]


def test_t12_nodes_without_the_label_are_never_used():
    core = Core(*nodes(bare=4), *rack("a", "r1"), *rack("b", "r1"))
    core.put(*training("g", 4), gang("g", 4, schedulingConstraints=RACK))
    assert set(bound(core.settle()).values()) == {"a", "b"}


def test_t12_where_no_node_has_it_no_placement_is_found():
    core = Core(*nodes(bare=4), *training("g", 2), gang("g", 2, schedulingConstraints=RACK))
    assert "no feasible placements found" in refused_groups(core.settle())["g"]


def test_t13_a_group_that_is_in_a_rack_waits_for_room_there():
    core = Core(*rack("a", "r1"), *rack("b", "r2", 4), gang("g", 3, schedulingConstraints=RACK))
    placed = member("g-0", claims=["g-0"])
    placed["spec"]["nodeName"] = "a"
    core.put(objects.claim("g-0"), placed)
    core.put(*list(training("g", 2, start=1))[1:])
    core.put(pod("other", claims=["other"], nodeName="a"))
    core.put(objects.claim("other", status={"allocation": objects.allocation("gpu-0", pool="a", nodeName="a")}))
    actions = core.settle()
    assert bound(actions) == {}
    assert "rack=r1" in refused_groups(actions)["g"]


def test_t14_a_group_that_never_fits_holds_nothing_and_goes_behind_after_its_time():
    core = Core(objects.node("n"), gpus.slice_of("n", 2), named(group("g", 3, scheduleTimeoutSeconds=10)))
    for n in range(3):
        core.put(objects.claim(f"c{n}"), in_group(pod(f"p{n}", claims=[f"c{n}"]), "g"))
    assert "only 2 fit" in refused_groups(core.later(5))["g"]
    assert core.state.inventory.usage.claims == {}
    before = core.scheduler.queue.get(core.get("Pod", "p0")["metadata"]["uid"]).arrival
    core.later(400)
    # Others that came meanwhile are tried first.
    assert core.scheduler.queue.get(core.get("Pod", "p0")["metadata"]["uid"]).arrival > before
    core.put(gpus.slice_of("n", 3))
    assert len(bound(core.settle())) == 3


def test_t17_but_not_for_a_pod_of_no_higher_priority():
    core = Core(*nodes(a=2, b=1), *training("g", 3), gang("g", 3, **WHOLE))
    assert len(bound(core.settle())) == 3
    core.put(objects.claim("other"), pod("other", claims=["other"]))
    assert victims(core.later()) == []


def test_t17_all_three_are_evicted_for_one_place():
    core = Core(*nodes(a=2, b=1), *training("g", 3), gang("g", 3, **WHOLE))
    assert len(bound(core.settle())) == 3
    core.put(objects.claim("high"), pod("high", claims=["high"], value=10))
    assert victims(core.later()) == ["g-0", "g-1", "g-2"]


def test_t21_pods_that_ended_well_count_towards_the_minimum():
    core = Core(*nodes(a=2, b=2), *training("g", 4))
    assert len(bound(core.settle())) == 4
    finish(core, "g-0")
    finish(core, "g-1")
    core.remove_with_claims("g-2")
    core.put(objects.claim("again"), member("again", claims=["again"]))
    assert list(bound(core.settle())) == ["again"]
