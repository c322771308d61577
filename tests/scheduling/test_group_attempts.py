"""Pods that start together or not at all, with their devices."""

import pytest

from dray.allocation import Work
from dray.scheduling.attempts import group_attempt
from dray.scheduling.explain.explainer import Explainer
from dray.scheduling.model.actions import NominatedPlace
from dray.scheduling.model.status import GroupDiagnosis
from dray.scheduling.placement.group_placement import GroupPlacer
from dray.scheduling.plugins.inter_pod_affinity import InterPodAffinity
from dray.testing import objects
from tests import gpus
from tests.scheduling.core import Core, bound, one_gpu_node, pod, refused, refused_groups, victims

ONE_PER_NODE = {"ports": [{"containerPort": 80, "hostPort": 8080}]}


def gang(name, size, **members):
    return objects.pod_group(name, minCount=size, uid=f"uid-{name}", **members)


def member(name, *, of="g", **more):
    return pod(name, schedulingGroup={"podGroupName": of}, **more)


def nodes(**counts):
    """Nodes with so many GPUs each."""
    for name, number in counts.items():
        yield objects.node(name)
        yield gpus.slice_of(name, number)


def training(name, size, number=None, request=None, start=0, **more):
    """A gang whose pods have a claim each."""
    yield gang(name, size)
    for index in range(start, start + (number or size)):
        yield objects.claim(f"{name}-{index}", *([request] if request else []))
        yield member(f"{name}-{index}", of=name, claims=[f"{name}-{index}"], **more)


def whole_or_halves(node):
    """One GPU that can be had whole or in halves."""
    board = {"name": "board", "counters": {"halves": {"value": "2"}}}

    def takes(number):
        return [{"counterSet": "board", "counters": {"halves": {"value": str(number)}}}]

    parts = [gpus.gpu("whole", kind="whole", consumesCounters=takes(2))]
    parts += [gpus.gpu(f"half-{n}", kind="half", consumesCounters=takes(1)) for n in range(2)]
    pool = f"{node}-parts"
    yield objects.resource_slice(f"{pool}-0", pool=pool, nodeName=node, resourceSliceCount=2, sharedCounters=[board])
    yield objects.resource_slice(f"{pool}-1", *parts, pool=pool, nodeName=node, resourceSliceCount=2)


EITHER = objects.first_available(
    "gpu", objects.subrequest("whole", deviceClassName="whole"), objects.subrequest("half", deviceClassName="half")
)


def partitioned(*names):
    for name in names:
        yield objects.node(name)
        yield from whole_or_halves(name)
    yield gpus.device_class("whole")
    yield gpus.device_class("half")


def test_a_pod_by_itself_takes_the_whole():
    core = Core(*partitioned("n"), *training("g", 1, request=EITHER))
    core.settle()
    assert gpus.held(core.get("ResourceClaim", "g-0")) == ["whole"]


def network_pool(name, *reached):
    terms = [{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": list(reached)}]}]
    return objects.resource_slice(name, gpus.gpu(f"{name}-0", kind="net"), nodeSelector={"nodeSelectorTerms": terms})


def rack(name, rack_name, number=2):
    return objects.node(name, labels={"rack": rack_name}), gpus.slice_of(name, number)


RACK = {"topology": [{"key": "rack"}]}


def test_the_smallest_rack_that_has_room_for_all_is_taken():
    core = Core(*rack("a", "big", 8), *rack("b", "small", 2), *rack("c", "small", 2), *rack("d", "tiny", 3))
    core.put(*training("g", 4), gang("g", 4, schedulingConstraints=RACK))
    assert set(bound(core.settle()).values()) == {"b", "c"}


def finish(core, name):
    core.put({**core.get("Pod", name), "status": {"phase": "Succeeded"}})
    core.release(core.get("Pod", name)["metadata"]["uid"])


def test_a_gang_is_not_tried_before_there_are_enough_pods():
    core = Core(*nodes(a=4), *training("g", 3, number=2))
    assert core.actions() == []
    core.put(objects.claim("g-2"), member("g-2", claims=["g-2"]))
    assert len(bound(core.settle())) == 3


def test_a_pod_on_a_node_completes_the_gang_for_pods_that_were_known_before_it():
    core = Core(*nodes(a=4), *training("g", 3, number=2))
    assert bound(core.settle()) == {}
    core.put(member("g-2", nodeName="a"))
    assert sorted(bound(core.settle())) == ["g-0", "g-1"]


def test_a_pod_with_a_gate_does_not_hold_back_the_minimum_of_its_gang():
    core = Core(*nodes(a=4), *training("g", 2))
    core.put(objects.claim("gated"), member("gated", claims=["gated"], schedulingGates=[{"name": "later"}]))
    assert sorted(bound(core.settle())) == ["g-0", "g-1"]
    core.put(member("gated", claims=["gated"]))
    assert list(bound(core.settle())) == ["gated"]


def test_a_lower_minimum_lets_those_that_are_there_start():
    core = Core(*nodes(a=2), *training("g", 3))
    assert bound(core.settle()) == {}
    core.put(gang("g", 2))
    assert len(bound(core.settle())) == 2


def test_more_pods_than_the_minimum_are_placed_as_far_as_they_fit():
    core = Core(*nodes(a=3), *training("g", 2, number=5))
    assert len(bound(core.settle())) == 3


@pytest.mark.parametrize("best", "abc")
def test_of_nodes_with_equal_room_a_gang_takes_those_that_its_pods_prefer(best):
    core = Core(gang("g", 2))
    core.put(*(objects.node(name, cpu="2", labels={"zone": "near" if name == best else "far"}) for name in "abc"))
    near = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["near"]}]}
    affinity = {
        "nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": near}]}
    }
    core.put(*(member(f"g-{number}", cpu="1", affinity=affinity) for number in range(2)))
    assert set(bound(core.settle()).values()) == {best}


@pytest.mark.parametrize("best", "abc")
def test_of_nodes_with_equal_room_a_gang_takes_those_without_soft_taints(best):
    core = Core(gang("g", 2))
    soft = [{"key": "old", "effect": "PreferNoSchedule"}]
    core.put(*(objects.node(name, cpu="2", taints=[] if name == best else soft) for name in "abc"))
    core.put(*(member(f"g-{number}", cpu="1") for number in range(2)))
    assert set(bound(core.settle()).values()) == {best}


def test_a_pod_that_cannot_be_tried_comes_back_though_the_others_start_without_it():
    core = Core(*nodes(a=3), *training("g", 2, number=2))
    special = member("g-9", claims=["other"], value=0)
    core.put(objects.claim("other", objects.request(deviceClassName="later")), special)
    queued = core.scheduler.queue.get(core.get("Pod", "g-9")["metadata"]["uid"])
    # It is the first to be tried.
    others = [each for each in core.scheduler.queue._active if each[-1] != queued.pod.uid]
    core.scheduler.queue._active = [(0, -1, queued.pod.uid), *others]
    assert sorted(bound(core.settle())) == ["g-0", "g-1"]
    core.put(gpus.device_class("later", "gpu"))
    assert list(bound(core.settle())) == ["g-9"]


def test_a_write_that_fails_brings_all_back():
    core = Core(*nodes(a=2, b=2), *training("g", 4))
    (action,) = core.actions()
    for each in action.binds:
        core.scheduler.failed(each, core.now)
    assert core.state.inventory.usage.claims == {}
    assert len(bound(core.settle())) == 4


def test_pods_of_different_priorities_are_no_gang():
    core = Core(*nodes(a=4), gang("g", 2), member("p", value=1), member("q", value=2))
    assert "should have the same priority" in refused_groups(core.actions())["g"]


def test_a_leader_and_workers_of_different_needs():
    core = Core(*nodes(a=4, b=4), gang("g", 3), objects.claim("leader", objects.request(count=3)))
    core.put(member("leader", claims=["leader"]))
    for n in range(2):
        core.put(objects.claim(f"w{n}", objects.request(count=2)), member(f"w{n}", claims=[f"w{n}"]))
    places = bound(core.settle())
    assert places["w0"] == places["w1"] != places["leader"]


WHOLE = {"disruptionMode": {"all": {}}}
HOST = "kubernetes.io/hostname"


def test_a_gang_of_higher_priority_has_as_few_pods_removed_as_it_needs():
    core = Core(*nodes(a=4, b=4))
    for n in range(8):
        core.put(objects.claim(f"low-{n}"), pod(f"low-{n}", claims=[f"low-{n}"], value=1 if n < 4 else 5))
    assert len(bound(core.settle())) == 8
    core.put(*training("g", 3, value=10))
    removed = victims(core.later())
    assert len(removed) == 3
    assert {core.get("Pod", name)["spec"]["priority"] for name in removed} <= {1, 5}
    for name in removed:
        core.remove_with_claims(name)
    actions = core.settle()
    assert sorted(bound(actions)) == ["g-0", "g-1", "g-2"]
    assert victims(actions) == []


@pytest.mark.parametrize("by_claim", [True, False], ids=["devices", "cpu"])
def test_a_pod_stays_if_the_gang_that_is_evicted_beside_it_leaves_room_enough(by_claim):
    """Whichever three of the four nodes the gang is tried on first."""
    names = "abcd"
    core = Core(*(nodes(**dict.fromkeys(names, 1)) if by_claim else [objects.node(name, cpu="1") for name in names]))
    needs = {} if by_claim else {"cpu": "1"}
    core.put(gang("old", 3, **WHOLE))
    for number, name in enumerate(("old-0", "alone", "old-1", "old-2")):
        group = {"schedulingGroup": {"podGroupName": "old"}} if name != "alone" else {}
        claims = {"claims": [name]} if by_claim else needs
        core.put(objects.claim(name), pod(name, **claims, **group, nodeSelector={HOST: names[number]}))
    assert len(bound(core.settle())) == 4
    core.put(gang("new", 3))
    for number in range(3):
        name = f"new-{number}"
        claims = {"claims": [name]} if by_claim else needs
        core.put(objects.claim(name), pod(name, **claims, value=10, schedulingGroup={"podGroupName": "new"}))
    assert victims(core.later()) == ["old-0", "old-1", "old-2"]


def test_a_gang_of_many_pods_on_one_node_evicts_as_many_as_it_needs():
    """Whether a pod may stay is found out without placing all pods of the gang on its node again."""
    core = Core(objects.node("n", cpu="100"))
    core.put(*(pod(f"old-{number}", cpu="1", value=number) for number in range(100)))
    assert len(bound(core.settle())) == 100
    core.put(gang("new", 80), *(member(f"new-{number}", of="new", cpu="1", value=1000) for number in range(80)))
    actions = core.settle()
    assert victims(actions) == sorted(f"old-{number}" for number in range(80))
    assert len(bound(actions)) == 80


def test_devices_of_all_nodes_do_not_make_a_gang_evict_more_than_it_needs():
    """No pod uses these devices, so only the pods of the gang on the same node are placed again for each pod there."""
    core = Core(objects.resource_slice("net", gpus.gpu("net-0", kind="net")))
    core.put(*nodes(**{f"n{number}": 8 for number in range(20)}))
    for number in range(160):
        core.put(objects.claim(f"old-{number}"), pod(f"old-{number}", claims=[f"old-{number}"]))
    assert len(bound(core.settle())) == 160
    core.put(*training("new", 60, value=10, request=objects.request(count=2)))
    assert len(victims(core.later())) == 120


@pytest.mark.parametrize("work", [0, 2_000, 10_000, 30_000, 60_000, 100_000])
def test_a_gang_that_evicts_others_keeps_its_places_whatever_the_work_budget(monkeypatch, work):
    """More pods are evicted if the budget is spent before it is known which pods may stay."""
    monkeypatch.setattr(group_attempt, "_GROUP", work)
    core = Core(*nodes(n=14))
    for number in range(14):
        core.put(objects.claim(f"old-{number}"), pod(f"old-{number}", claims=[f"old-{number}"]))
    assert len(bound(core.settle())) == 14
    core.put(*training("new", 8, value=10))
    action = core.scheduler.next(core.now)
    assert "failed" not in action.message
    assert work < 10_000 or victims([action])
    if victims([action]):
        assert len(action.preemption.places) == 8
        core.do(action)
        assert len(bound(core.settle())) == 8


def test_the_places_of_a_gang_are_those_found_first_if_no_others_are_found(monkeypatch):
    """The gang is tried in other places, so that pods may stay."""
    core = Core(*(objects.node(name, cpu="1") for name in "abcd"))
    core.put(gang("old", 3, **WHOLE))
    for name, node in zip(("old-0", "alone", "old-1", "old-2"), "abcd", strict=True):
        group = {"schedulingGroup": {"podGroupName": "old"}} if name != "alone" else {}
        core.put(pod(name, cpu="1", **group, nodeSelector={HOST: node}))
    assert len(bound(core.settle())) == 4
    find, found = GroupPlacer.place, []

    def place(*args, **options):
        """Finds places once."""
        if any(each is None for each in found):
            return GroupDiagnosis(3)
        found.append(find(*args, **options))
        return found[-1]

    monkeypatch.setattr(GroupPlacer, "place", place)
    core.put(gang("new", 3), *(member(f"new-{number}", of="new", cpu="1", value=10) for number in range(3)))
    action = core.scheduler.next(core.now)
    evicted = victims([action])
    assert len(action.preemption.places) == 3
    nodes_of = {core.get("Pod", name)["spec"]["nodeName"] for name in evicted}
    assert {place.node for place in action.preemption.places.values()} <= nodes_of


def test_nobody_is_removed_for_a_gang_that_does_not_fit_even_then():
    core = Core(*nodes(a=2))
    core.put(objects.claim("low"), pod("low", claims=["low"]))
    core.settle()
    core.put(*training("g", 3, value=10))
    actions = core.settle()
    assert victims(actions) == []
    assert bound(actions) == {}


def test_nor_for_one_that_wants_to_preempt_nobody():
    core = Core(*nodes(a=2))
    core.put(objects.claim("low"), pod("low", claims=["low"]))
    core.settle()
    core.put(*training("g", 2, value=10, preemptionPolicy="Never"))
    assert victims(core.settle()) == []


def test_what_is_kept_for_a_gang_nobody_else_takes():
    core = Core(*nodes(a=2))
    core.put(objects.claim("low"), pod("low", claims=["low"]))
    core.settle()
    core.put(*training("g", 2, value=10))
    assert victims(core.later()) == ["low"]
    core.put(objects.claim("other"), pod("other", claims=["other"], value=5))
    assert bound(core.later()) == {}
    core.remove_with_claims("low")
    assert sorted(bound(core.settle())) == ["g-0", "g-1"]


def test_an_explanation_speaks_of_the_whole_group():
    core = Core(*nodes(a=2), *training("g", 3))
    first = core.scheduler.queue.get(core.get("Pod", "g-0")["metadata"]["uid"]).pod
    found = Explainer(core.scheduler).explain(first, core.now)
    assert "3 pods have to be placed together, but only 2 fit" in found.problem
    assert core.state.inventory.usage.claims == {}
    core.put(gang("g", 2))
    assert Explainer(core.scheduler).explain(first, core.now).chosen == "a"


def used_by(number):
    """A claim that so many pods use."""
    users = [{"resource": "pods", "name": f"u{n}", "uid": f"u{n}"} for n in range(number)]
    return objects.claim("shared", status={"reservedFor": users})


@pytest.mark.parametrize(("users", "placed"), [(253, 3), (254, 0), (256, 0)])
def test_a_claim_has_no_more_consumers_than_the_server_stores(users, placed):
    core = one_gpu_node(gang("g", 3), used_by(users))
    core.put(*(member(f"g-{n}", claims=["shared"]) for n in range(3)))
    actions = core.settle()
    assert len(bound(actions)) == placed
    if not placed:
        assert "resource claim default/shared is in use by 256 pods" in refused_groups(actions)["g"]


def test_a_pod_alone_is_told_that_a_claim_has_too_many_consumers():
    core = one_gpu_node(used_by(256))
    core.put(pod("p", claims=["shared"]))
    assert "is in use by 256 pods, which is the maximum" in refused(core.settle())["p"]


def test_while_a_gang_is_evicted_no_other_pod_of_it_is_started_alone():
    core = Core(objects.node("n", cpu="3"))
    core.put(gang("g", 2, disruptionMode={"all": {}}))
    core.put(*(member(f"g-{n}", cpu="1") for n in range(3)))
    assert len(bound(core.settle())) == 3
    core.put(member("late", cpu="1"), pod("urgent", cpu="1", value=10))
    actions = core.later()
    assert victims(actions) == ["g-0", "g-1", "g-2"]
    for name in ("g-0", "g-1"):
        core.remove("Pod", name)
    assert "late" not in bound(core.later())
    core.remove("Pod", "g-2")
    core.put(member("again", cpu="1"))
    assert {"late", "again"} <= bound(core.settle()).keys()


def test_a_gang_that_could_not_be_evicted_counts_as_started():
    core = Core(objects.node("n", cpu="3"))
    core.put(gang("g", 2, disruptionMode={"all": {}}))
    core.put(*(member(f"g-{n}", cpu="1") for n in range(3)))
    core.settle()
    core.put(pod("urgent", cpu="1", value=10))
    (action,) = [each for each in core.later() if victims([each])]
    core.scheduler.refusal_failed(action, core.now)
    core.remove("Pod", "urgent")
    core.put(objects.node("more", cpu="1"), member("late", cpu="1"))
    assert bound(core.settle()) == {"late": "more"}


def test_no_second_pod_of_a_group_is_evicted_before_the_first_has_gone():
    core = Core(*nodes(n=2), *training("g", 1, number=2))
    core.settle()
    core.put(objects.claim("high"), pod("high", claims=["high"], value=10))
    first = victims(core.later(1))
    assert len(first) == 1
    core.put(objects.node("n", cpu="9"))
    assert victims(core.later(1)) == []
    core.remove_with_claims(*first)
    assert bound(core.later()) == {"high": "n"}


AWAY_FROM_A = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "a"}}}
        ]
    }
}


def created(document, seconds):
    return {**document, "metadata": {**document["metadata"], "creationTimestamp": f"2030-01-01T00:00:{seconds:02}Z"}}


def test_of_two_gangs_the_one_whose_pods_came_first_is_tried_first():
    """The age of the PodGroups does not matter: a gang cannot start without pods."""
    core = Core(objects.node("n", cpu="2"))
    core.put(created(gang("early", 2), 1), created(gang("late", 2), 2))
    for seconds, name in enumerate(("late-0", "early-0", "late-1", "early-1"), 3):
        core.put(created(member(name, of=name.split("-")[0], cpu="1"), seconds))
    assert set(bound(core.settle())) == {"late-0", "late-1"}


def test_a_pod_that_came_before_those_of_a_gang_is_tried_first():
    core = Core(objects.node("n", cpu="2"), created(gang("g", 2), 1), created(pod("alone", cpu="1"), 2))
    core.put(*(created(member(f"g-{number}", cpu="1"), 3) for number in range(2)))
    assert bound(core.settle()) == {"alone": "n"}


def labelled(document, **labels):
    return {**document, "metadata": {**document["metadata"], "labels": labels}}


def couple(first, second):
    """A gang of two pods, the first of which keeps pods with the label app=a off its node."""
    return gang("g", 2), first, second


@pytest.mark.parametrize("plain_first", [False, True])
def test_anti_affinity_of_a_pod_of_a_gang_holds_for_the_others(plain_first):
    """No pod had such terms before the gang, so the filter did not concern the other pod."""
    pods = [member("anti", affinity=AWAY_FROM_A, cpu="1"), labelled(member("plain", cpu="1"), app="a")]
    core = Core(objects.node("n"), *couple(*reversed(pods) if plain_first else pods))
    assert bound(core.settle()) == {}
    core.put(objects.node("m"))
    placed = bound(core.settle())
    assert len(placed) == 2
    assert len(set(placed.values())) == 2


def test_pods_of_a_gang_that_anti_affinity_does_not_concern_join_the_pod_with_terms():
    """Four pods on two nodes with room for two each: only the pod without the label fits beside the pod with terms."""
    core = Core(objects.node("m", cpu="2"), objects.node("n", cpu="2"), gang("g", 4))
    core.put(member("anti", affinity=AWAY_FROM_A, cpu="1"), member("free", cpu="1"))
    core.put(*(labelled(member(f"a{number}", cpu="1"), app="a") for number in range(2)))
    placed = bound(core.settle())
    assert placed["anti"] == placed["free"] != placed["a0"] == placed["a1"]


def test_finding_out_why_a_group_has_no_place_leaves_the_attempt_as_it_was():
    """Reserved places are hidden meanwhile, whose pods keep others off their nodes afterwards."""
    core = Core(*nodes(n=1), *training("g", 2, labels={"app": "a"}), pod("large", affinity=AWAY_FROM_A, cpu="99"))
    core.later()
    scheduler, state = core.scheduler, core.state
    *gang_pods, large = sorted(scheduler.queue.all(), key=lambda queued: queued.pod.key)
    scheduler.nominations.keep({large.pod: NominatedPlace("n")}, reserved=True)
    cycles = [scheduler.algorithm.begin(queued.pod, core.now, Work(10_000)) for queued in gang_pods]
    assert [scheduler.framework.prefilter(cycle) for cycle in cycles] == [None, None]
    prepared = list(zip(gang_pods, cycles, strict=True))
    with scheduler.placer.trial(prepared, Work(10_000)) as (trial, members):
        with scheduler.nominations.without_reservations():
            answer = scheduler.placer.place(state.groups.of(gang_pods[0].pod), members, 2, trial)
        assert answer.best == 1
        assert not any(InterPodAffinity.name in member.cycle.skipped for member in members)
