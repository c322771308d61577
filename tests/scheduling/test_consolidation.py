"""Which pods to move so that a waiting one fits, and that nothing is changed by finding out."""

import pytest

from dray.scheduling.explain.consolidation import Consolidator
from dray.testing import objects
from tests import gpus
from tests.scheduling.core import Core, bound, holding, pod
from tests.scheduling.test_kai_groups import kai_group, tell
from tests.scheduling.test_reserved_places import fleet, training
from tests.scheduling.test_share_tree import queue

JOB = {"kind": "Job", "name": "j", "uid": "job", "controller": True, "apiVersion": "batch/v1"}


def running(name, node, device, *, owner=JOB, **more):
    """A pod with one GPU, and its claim."""
    made = pod(name, claims=[name], **more)
    made["metadata"].update(uid=name, ownerReferences=[owner] if owner else [])
    made["spec"]["nodeName"] = node
    return holding(name, f"gpu-{device}", users=[name], pool=node, node=node), made


def scattered(*names, **more):
    """One GPU of four in use on each node."""
    return [each for name in names for each in running(f"on-{name}", name, 0, **more)]


def wanting(name, count, **more):
    return objects.claim(name, objects.request(count=count)), pod(name, claims=[name], **more)


def snapshot(core):
    state = core.state
    return (
        {node.name: (sorted(node.pods), dict(node.requested)) for node in state},
        dict(state.inventory.usage.claims),
        sorted(state.claims._claims),
        state.claims._assumed.copy(),
    )


def plan(core, name=""):
    before = snapshot(core)
    consolidator = Consolidator(core.scheduler, core.now)
    waiting = [each for each in consolidator.waiting() if name in ("", each.group.key.name)]
    found = consolidator.find(waiting[0])
    assert snapshot(core) == before
    return found


def moves(found):
    return {each.pod.key[1]: (each.source, each.target) for each in found.moves}


def test_one_pod_is_moved_so_that_another_has_a_whole_node():
    core = Core(*fleet(a=4, b=4), *scattered("a", "b"), *wanting("large", 4))
    assert bound(core.settle()) == {}
    found = plan(core)
    assert moves(found) in ({"on-a": ("a", "b")}, {"on-b": ("b", "a")})
    (place,) = found.places
    assert place.node == next(iter(moves(found).values()))[0]
    assert len(place.devices) == 4
    # It is so: the pod goes, is made again, and both have their place.
    (gone,) = moves(found)
    core.remove_with_claims(gone)
    again = pod("again", claims=["again"])
    core.put(objects.claim("again"), again)
    assert bound(core.settle()).keys() == {"large", "again"}


def test_a_pod_that_was_moved_in_one_plan_can_be_moved_in_the_next():
    core = Core(*fleet(a=4, b=4), *scattered("a", "b"), *wanting("large", 4))
    core.settle()
    assert moves(plan(core)) == moves(plan(core)) != {}


def test_a_gang_in_a_rack():
    nodes = list(fleet(a1=4, a2=4, b1=4, b2=4, c1=4))
    core = Core(*nodes, *scattered("a1", "b1", "b2"), *running("two", "a2", 1), *running("three", "a2", 2))
    rack = {"group": {"schedulingConstraints": {"topology": [{"key": "rack"}]}}}
    core.put(*training("g", 2, claims=(4,), **rack))
    assert bound(core.settle()) == {}
    found = plan(core)
    assert moves(found).keys() == {"on-b1", "on-b2"}
    assert {target for _, target in moves(found).values()}.isdisjoint({"b1", "b2"})
    assert {each.node for each in found.places} == {"b1", "b2"}


def test_no_more_are_moved_than_must_be():
    core = Core(*fleet(a=4, b=4))
    core.put(*running("p0", "a", 0), *running("p1", "a", 1), *running("q", "b", 0), *running("r", "b", 1))
    core.put(*wanting("large", 3))
    core.settle()
    assert len(plan(core).moves) == 1


@pytest.mark.parametrize(
    "stays",
    [
        {"owner": None},
        {"owner": {**JOB, "kind": "DaemonSet"}},
        {"value": 10},
    ],
)
def test_who_cannot_be_moved_stays(stays):
    core = Core(*fleet(a=4, b=4), *scattered("a", "b", **stays), *wanting("large", 4))
    core.settle()
    found = plan(core)
    assert found.moves == ()
    assert "no pods that could be moved" in found.problem


def test_everybody_that_is_moved_has_a_new_place():
    core = Core(*fleet(a=4, b=4), *wanting("large", 4))
    for n in range(4):
        core.put(*running(f"b{n}", "b", n))
    core.put(*running("a0", "a", 0))
    core.settle()
    assert plan(core).moves == ()


def test_budgets_are_respected():
    core = Core(*fleet(a=4, b=4), *scattered("a", labels={"app": "x"}), *scattered("b"), *wanting("large", 4))
    budget = objects.pod_disruption_budget("b", {"app": "x"}, status={"disruptionsAllowed": 0})
    core.put(budget)
    core.settle()
    assert moves(plan(core)) == {"on-b": ("b", "a")}


def test_a_gang_goes_as_a_whole():
    whole = {"disruptionMode": {"all": {}}}
    core = Core(*fleet(a=4, b=4, c=2))
    core.put(objects.pod_group("w", minCount=2, uid="uid-w", **whole))
    for n, node in enumerate("ab"):
        core.put(*running(f"w{n}", node, 0, schedulingGroup={"podGroupName": "w"}))
    core.put(*wanting("large", 4))
    core.settle()
    found = plan(core)
    assert moves(found).keys() == {"w0", "w1"}


def test_devices_on_one_root_are_freed_within_the_node():
    same = [{"requests": ["gpu"], "matchAttribute": f"{objects.DRIVER}/root"}]
    core = Core(*fleet(a=4), *running("p", "a", 0), *running("q", "a", 2))
    core.put(objects.claim("pair", objects.request(count=2), constraints=same), pod("pair", claims=["pair"]))
    core.settle()
    assert moves(plan(core)) in ({"p": ("a", "a")}, {"q": ("a", "a")})


def test_one_that_fits_needs_no_moves():
    core = Core(*fleet(a=4), *wanting("small", 1))
    core.put(gpus.pod("other"))
    found = plan(core, "small")
    assert (found.moves, found.problem) == ((), "")
    assert [each.node for each in found.places] == ["a"]


@pytest.mark.parametrize("policy", [{"gang": {"minCount": 1}}, {"basic": {}}])
def test_a_pod_whose_group_starts_pod_by_pod_is_helped(policy):
    core = Core(*fleet(a=4, b=4), *scattered("a", "b"))
    core.put({"kind": "PodGroup", "metadata": {"name": "g"}, "spec": {"schedulingPolicy": policy}})
    claim, made = wanting("large", 4, schedulingGroup={"podGroupName": "g"})
    core.put(claim, made)
    assert bound(core.settle()) == {}
    assert len(moves(plan(core))) == 1


def kai_world(limit, minimum, number, count):
    """Two nodes with one pod each in a queue of KAI, and a group of it that waits."""
    core = Core(*fleet(a=4, b=4), queue("dept", quota=-1), queue("team", "dept", quota=2, limit=limit))
    for name in "ab":
        claim, made = running(f"on-{name}", name, 0)
        made["metadata"]["labels"] = {"kai.scheduler/queue": "team"}
        core.put(claim, made)
    tell(core, kai_group("g", queue="team", minMember=minimum))
    for n in range(number):
        claim, made = wanting(f"g-{n}", count)
        made["metadata"]["annotations"] = {"pod-group-name": "g"}
        core.put(claim, made)
    core.settle()
    return core


def test_pods_that_are_moved_are_charged_to_their_queue_once():
    assert len(moves(plan(kai_world(limit=6, minimum=1, number=1, count=4)))) == 1


def test_pods_beyond_the_minimum_of_a_group_take_no_place_of_moved_pods():
    core = Core(*fleet(a=4, b=4), queue("dept", quota=-1), queue("team", "dept", quota=2))
    for number in range(3):
        core.put(*running(f"r{number}", "a", number))
    core.put(*running("r3", "b", 0))
    tell(core, kai_group("g", queue="team", minMember=2))
    for n in range(6):
        claim, made = wanting(f"g-{n}", 2)
        made["metadata"]["annotations"] = {"pod-group-name": "g"}
        core.put(claim, made)
    core.settle()
    found = plan(core)
    assert moves(found) == {"r3": ("b", "a")}
    assert len(found.places) == 2


def test_pods_of_different_size_leave_the_new_place_of_the_moved_pod_free():
    """The small pod of the gang would fit beside the other running pod, where the moved pod has its only new place."""
    core = Core(*fleet(a=4, b=4))
    for node in "ab":
        claim, made = running(f"on-{node}", node, 0)
        both = holding(f"on-{node}", "gpu-0", "gpu-1", users=[f"on-{node}"], pool=node, node=node)
        core.put({**claim, "spec": wanting("pair", 2)[0]["spec"], "status": both["status"]}, made)
    core.put(objects.pod_group("g", minCount=2))
    for name, count in (("small", 1), ("large", 3)):
        core.put(*wanting(name, count, schedulingGroup={"podGroupName": "g"}))
    assert bound(core.settle()) == {}
    found = plan(core)
    assert moves(found) in ({"on-a": ("a", "b")}, {"on-b": ("b", "a")})
    assert {each.node for each in found.places} == {source for source, _ in moves(found).values()}


def test_of_two_pods_the_one_with_another_place_is_moved():
    core = Core(*fleet(a=4, b=1))
    for number, where in enumerate(({"kubernetes.io/hostname": "a"}, None, {"kubernetes.io/hostname": "a"})):
        core.put(*running(f"r{number}", "a", number, **({"nodeSelector": where} if where else {})))
    core.put(*wanting("large", 2))
    assert bound(core.settle()) == {}
    assert moves(plan(core)) == {"r1": ("a", "b")}
