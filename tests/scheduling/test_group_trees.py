"""Groups of groups are placed as one unit: all that has to start together, or nothing."""

from dray.testing import objects
from tests import gpus
from tests.scheduling.core import Core, bound, pod, refused_groups, victims
from tests.scheduling.test_group_attempts import member, network_pool, nodes, rack

API = "scheduling.k8s.io/v1alpha3"
RACK = {"topology": [{"key": "rack"}]}


def composite(name, least=None, parent="", **members):
    above = {"parentCompositePodGroupName": parent} if parent else {}
    return objects.composite_pod_group(name, minGroupCount=least, uid=f"uid-{name}", **above, **members)


def leaf(name, size, *, parent="root", number=None, start=0, value=0, **members):
    """A gang below another group, whose pods have a claim each."""
    yield objects.pod_group(
        name, minCount=size, uid=f"uid-{name}", parentCompositePodGroupName=parent, priority=value, **members
    )
    for index in range(start, start + (number or size)):
        yield objects.claim(f"{name}-{index}")
        yield member(f"{name}-{index}", of=name, claims=[f"{name}-{index}"], value=value)


def test_all_groups_start_or_none():
    core = Core(*nodes(a=2, b=1), composite("root", 2), *leaf("x", 2), *leaf("y", 2))
    actions = core.settle()
    assert bound(actions) == {}
    assert "4 pods have to be placed together, but only 3 fit" in refused_groups(actions)["root"]
    assert core.state.inventory.usage.claims == {}
    core.put(gpus.slice_of("b", 2))
    assert len(bound(core.settle())) == 4


def test_a_group_may_be_left_out_where_enough_others_start():
    core = Core(*nodes(a=3), composite("root", 1), *leaf("x", 2), *leaf("y", 2))
    placed = bound(core.settle())
    assert {name[0] for name in placed} == {"x"}
    assert len(placed) == 2
    core.put(*nodes(b=1))
    assert {name[0] for name in bound(core.settle())} == {"y"}


def test_pods_wait_for_the_group_above_theirs():
    core = Core(*nodes(a=4), *leaf("x", 2))
    assert bound(core.settle()) == {}
    core.put(composite("root"))
    assert len(bound(core.settle())) == 2


def test_a_tree_waits_for_as_many_groups_as_must_start():
    core = Core(*nodes(a=4), composite("root", 2), *leaf("x", 2))
    assert bound(core.settle()) == {}
    core.put(*leaf("y", 2, number=1))
    assert bound(core.settle()) == {}
    core.put(objects.claim("y-1"), member("y-1", of="y", claims=["y-1"]))
    assert len(bound(core.settle())) == 4


def test_a_pod_on_a_node_completes_the_tree_for_pods_that_were_known_before_it():
    core = Core(*nodes(a=4), composite("root", 2), *leaf("x", 1, number=2))
    assert bound(core.settle()) == {}
    core.put(objects.pod_group("y", minCount=1, parentCompositePodGroupName="root"))
    core.put(member("y-0", of="y", nodeName="a"))
    assert sorted(bound(core.settle())) == ["x-0", "x-1"]


def test_each_group_in_its_rack_and_all_in_one_zone():
    def node(name, zone, rack_name, number):
        return objects.node(name, labels={"zone": zone, "rack": rack_name}), gpus.slice_of(name, number)

    core = Core(*node("a", "z1", "r1", 4), *node("b", "z1", "r2", 1), *node("c", "z2", "r3", 2))
    core.put(*node("d", "z2", "r4", 2))
    core.put(composite("root", 2, schedulingConstraints={"topology": [{"key": "zone"}]}))
    core.put(*leaf("x", 2, schedulingConstraints=RACK), *leaf("y", 2, schedulingConstraints=RACK))
    placed = bound(core.settle())
    racks = {name: {node for pod, node in placed.items() if pod.startswith(name)} for name in "xy"}
    # Both fit into zone z1 as well as into z2, which leaves nothing over.
    assert sorted(map(sorted, racks.values())) == [["c"], ["d"]]


def test_a_group_takes_another_rack_where_its_sibling_needs_that_one():
    core = Core(*rack("a", "r1", 2), *rack("b", "r2", 3))
    core.put(composite("root", 2))
    core.put(*leaf("x", 2, schedulingConstraints=RACK), *leaf("y", 3, schedulingConstraints=RACK))
    placed = bound(core.settle())
    assert {placed[f"x-{n}"] for n in range(2)} == {"a"}
    assert {placed[f"y-{n}"] for n in range(3)} == {"b"}


def test_three_levels():
    core = Core(*nodes(a=3), composite("root", 2), composite("left", 1, "root"), composite("right", 1, "root"))
    core.put(*leaf("x", 1, parent="left"), *leaf("y", 2, parent="right"))
    assert len(bound(core.settle())) == 3


def test_a_cycle_and_a_tree_that_is_too_deep_are_reported():
    core = Core(*nodes(a=3), composite("a", 1, "b"), composite("b", 1, "a"), *leaf("x", 1, parent="a"))
    (found,) = (each for each in core.settle() if getattr(each, "group", None))
    assert found.diagnosis.invalid
    assert "cycle" in found.message
    core = Core(*nodes(a=3), composite("1"), composite("2", 1, "1"), composite("3", 1, "2"), composite("4", 1, "3"))
    core.put(*leaf("x", 1, parent="4"))
    assert "depth" in refused_groups(core.settle())["x"]
    core.remove("PodGroup", "x")
    core.put(*leaf("y", 1, parent="3"))
    assert list(bound(core.settle())) == ["y-0"]


def test_the_highest_group_that_wants_to_go_as_a_whole_does():
    everything = {"disruptionMode": {"all": {}}}
    core = Core(*nodes(a=2, b=2), composite("root", 2, **everything), *leaf("x", 2), *leaf("y", 2, **everything))
    assert len(bound(core.settle())) == 4
    core.put(objects.claim("high"), pod("high", claims=["high"], value=10))
    assert victims(core.later()) == ["x-0", "x-1", "y-0", "y-1"]


def test_priorities_are_those_of_the_root():
    core = Core(*nodes(a=4), composite("root", 2, priority=5), *leaf("x", 1, value=5), *leaf("y", 1))
    assert "priority" in refused_groups(core.settle())["root"]


def test_a_late_pod_of_a_group_that_runs_goes_to_its_rack():
    core = Core(*rack("a", "r1", 3), *rack("b", "r2", 8), composite("root", 1))
    core.put(*leaf("x", 2, schedulingConstraints=RACK))
    assert set(bound(core.settle()).values()) == {"a"}
    core.put(objects.claim("x-2"), member("x-2", of="x", claims=["x-2"]))
    core.put(objects.claim("x-3"), member("x-3", of="x", claims=["x-3"]))
    assert bound(core.settle()) == {"x-2": "a"}


def test_a_lower_minimum_of_one_group_lets_the_tree_start():
    core = Core(*nodes(a=3), composite("root", 2), *leaf("x", 2), *leaf("y", 2))
    assert bound(core.settle()) == {}
    core.put(next(leaf("y", 1)))
    assert len(bound(core.settle())) == 3


def test_a_replaced_pod_goes_back_though_its_group_fell_below_the_minimum():
    core = Core(*rack("a", "r1", 2), *rack("b", "r2", 4), composite("root", 2))
    core.put(*leaf("x", 2, schedulingConstraints=RACK), *leaf("y", 3, schedulingConstraints=RACK))
    before = bound(core.settle())
    assert len(before) == 5
    core.remove_with_claims("x-1")
    core.put(objects.claim("x-2"), member("x-2", of="x", claims=["x-2"]))
    assert bound(core.settle()) == {"x-2": before["x-1"]}


def test_a_claim_of_a_group_serves_a_thousand_pods():
    entry = {"name": "claim-0", "resourceClaimName": "fabric"}
    core = Core(*(objects.node(f"n{n}") for n in range(10)), objects.claim("fabric", network_request()))
    core.put(network_pool("p", *(f"n{n}" for n in range(10))))
    for n in range(10):
        core.put(objects.node(f"n{n}", labels={"kubernetes.io/hostname": f"n{n}"}))
    core.put(objects.pod_group("g", minCount=1000, uid="uid-g", resourceClaims=[entry]))
    for n in range(1000):
        core.put(member(f"w{n}", claims=["fabric"], cpu="1m"))
    (action,) = core.actions()
    assert len(action.binds) == 1000
    assert sum(len(each.writes) for each in action.binds) == 1


def network_request():
    return objects.request(deviceClassName="net")


def test_a_tree_of_higher_priority_has_as_few_pods_removed_as_it_needs():
    core = Core(*rack("a", "r1", 2), *rack("b", "r2", 2))
    for n in range(4):
        core.put(objects.claim(f"low-{n}"), pod(f"low-{n}", claims=[f"low-{n}"]))
    assert len(bound(core.settle())) == 4
    core.put(composite("root", 2, priority=10))
    core.put(*leaf("x", 2, value=10, schedulingConstraints=RACK), *leaf("y", 1, value=10, schedulingConstraints=RACK))
    assert len(victims(core.later())) == 3


def test_of_units_with_the_same_priority_single_pods_are_evicted_first_and_groups_of_groups_last():
    core = Core(objects.node("n", cpu="3"), composite("root", disruptionMode={"all": {}}))
    core.put(objects.pod_group("child", minCount=1, parentCompositePodGroupName="root"))
    core.put(objects.pod_group("group", minCount=1, disruptionMode={"all": {}}))
    # The pods that started last would be evicted first.
    groups = {"single": {}, "of-group": {"of": "group"}, "of-tree": {"of": "child"}}
    for hour, (name, of) in enumerate(groups.items()):
        made = (member if of else pod)(name, cpu="1", nodeName="n", **of)
        core.put({**made, "status": {"phase": "Running", "startTime": f"2026-01-01T0{hour}:00:00Z"}})
    removed = []
    for number in range(2):
        core.put(pod(f"high-{number}", cpu="1", value=10))
        removed += victims(core.settle())
    assert removed == ["single", "of-group"]
