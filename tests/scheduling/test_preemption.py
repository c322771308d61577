"""Whom to remove for whom: as few and as cheap as possible, and nobody twice."""

import pytest

from dray.scheduling.model.actions import Bind, Refuse
from dray.testing import objects
from tests import gpus
from tests.scheduling.core import NEVER, Core, bound, holding, place_of, placed, pod, user, victims

AWAY_FROM_A = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "a"}}}
        ]
    }
}


def labelled(document, **labels):
    return {**document, "metadata": {**document["metadata"], "labels": labels}}


def budget(name, app, allowed):
    return objects.pod_disruption_budget(name, {"app": app}, status={"disruptionsAllowed": allowed})


def gpu_world(*more, gpu_count=1, **options):
    """A node whose GPUs are held by pods `low-0`…, one each."""
    core = Core(objects.node("n"), gpus.slice_of("n", gpu_count), **options)
    for number in range(gpu_count):
        core.put(user(f"low-{number}"), holding(f"held-{number}", f"gpu-{number}", users=[f"low-{number}"], node="n"))
    core.put(*more)
    return core


def wants_gpu(name="high", value=10, **spec):
    return objects.claim(f"c-{name}"), pod(name, claims=[f"c-{name}"], value=value, **spec)


# For what


def test_for_room():
    core = Core(objects.node("n"), placed("low", "n", cpu="6"), pod("high", cpu="4", value=10))
    assert victims(core.actions()) == ["low"]


def test_for_ports():
    port = {"container": {"ports": [{"containerPort": 80, "hostPort": 80}]}}
    core = Core(objects.node("n"), placed("low", "n", **port), placed("other", "n"), pod("high", value=10, **port))
    assert victims(core.actions()) == ["low"]


def test_for_devices():
    core = gpu_world(*wants_gpu())
    (action,) = core.actions()
    assert victims([action]) == ["low-0"]
    assert [each["device"] for each in place_of(action).devices] == ["gpu-0"]
    core.do(action)
    assert bound(core.settle()) == {"high": "n"}


def test_a_pod_is_evicted_whose_anti_affinity_forbids_the_node():
    """The victim is the only pod with such terms, so that after its eviction no term is left to check."""
    core = Core(objects.node("n"))
    core.put(placed("low", "n", affinity=AWAY_FROM_A))
    core.put(labelled(pod("high", value=10), app="a"))
    assert victims(core.actions()) == ["low"]


def test_not_for_devices_of_a_claim_that_the_pod_needs_itself():
    """If its other users went, the pod would have to get the same number of devices for it again."""
    core = Core(objects.node("n"), gpus.slice_of("n", 2), user("low"), objects.claim("d"))
    core.put(holding("shared", "gpu-0", "gpu-1", users=["low"], node="n"))
    core.put(pod("high", claims=["shared", "d"], value=10))
    assert victims(core.settle()) == []


def test_for_devices_beside_a_claim_that_the_pod_shares_with_the_victim():
    core = Core(objects.node("n"), gpus.slice_of("n", 2), user("low"), objects.claim("d"))
    core.put(holding("shared", "gpu-0", users=["low"], node="n"), holding("own", "gpu-1", users=["low"], node="n"))
    core.put(pod("high", claims=["shared", "d"], value=10))
    (action,) = core.actions()
    assert victims([action]) == ["low"]
    assert [each["device"] for each in place_of(action).devices] == ["gpu-1"]


def test_for_devices_that_serve_an_extended_resource():
    resource = {gpus.GPU: "1"}
    core = gpu_world(pod("high", value=10, requests=resource))
    assert victims(core.actions()) == ["low-0"]


def test_for_devices_of_the_network_that_a_pod_elsewhere_holds():
    net = objects.resource_slice("net", gpus.gpu("net-0", kind="net"))
    wanted = objects.request(deviceClassName="net")
    core = Core(
        objects.node("n"),
        objects.node("m", cpu="1"),
        net,
        user("far", "m"),
        holding("held", "net-0", users=["far"], pool="net"),
        objects.claim("c", wanted),
        pod("high", claims=["c"], cpu="4", value=10),
    )
    actions = core.actions()
    assert victims(actions) == ["far"]
    assert place_of(actions[0]).node == "n"


def test_a_node_comes_on_which_only_a_device_lacks_that_a_pod_elsewhere_holds():
    core = Core(
        objects.node("far"),
        objects.resource_slice("net", gpus.gpu("net-0", kind="net")),
        holding("held", "net-0", users=["low"], pool="net"),
        user("low", "far", claims=["held"]),
        objects.claim("both", objects.request(), objects.request("net", deviceClassName="net")),
        pod("high", claims=["both"], value=10),
    )
    assert victims(core.later()) == []
    core.put(objects.node("near"), gpus.slice_of("near", 1))
    assert victims(core.later()) == ["low"]


def test_not_for_devices_where_that_is_switched_off():
    core = gpu_world(*wants_gpu(), preempt_for_devices=False)
    assert victims(core.actions()) == []
    room = Core(objects.node("n"), placed("low", "n", cpu="6"), pod("high", cpu="4", value=10))
    assert victims(room.actions()) == ["low"]


def crowded(*, gpu_count, **options):
    """A node without room, whose only pod holds a GPU."""
    core = Core(objects.node("n", cpu="4"), gpus.slice_of("n", gpu_count), **options)
    core.put(user("low", cpu="3"), holding("held", "gpu-0", users=["low"], node="n"))
    core.put(*wants_gpu(cpu="3"))
    return core


def test_for_room_also_of_pods_with_devices_where_others_are_free():
    assert victims(crowded(gpu_count=2, preempt_for_devices=False).actions()) == ["low"]
    assert victims(crowded(gpu_count=1, preempt_for_devices=False).actions()) == []
    assert victims(crowded(gpu_count=1).actions()) == ["low"]


def test_not_by_pods_whose_policy_is_never():
    core = gpu_world(*wants_gpu(**NEVER))
    assert victims(core.later(100)) == []


@pytest.mark.parametrize("value", [0, -5])
def test_not_of_pods_as_important_or_more(value):
    core = gpu_world(*wants_gpu(value=value))
    assert victims(core.later(100)) == []


def test_not_where_it_would_not_help():
    core = Core(objects.node("n", cpu="2"), placed("low", "n", cpu="1"), pod("high", cpu="4", value=10))
    assert victims(core.later(100)) == []
    tainted = objects.node("n", taints=[{"key": "k", "effect": "NoSchedule"}])
    core = Core(tainted, placed("low", "n", cpu="8"), pod("high", cpu="4", value=10))
    assert victims(core.later(100)) == []


def test_not_of_a_pod_that_shares_its_device_with_one_that_stays():
    core = Core(
        objects.node("n"),
        gpus.slice_of("n", 1),
        user("low"),
        user("dear", value=50),
        holding("held", "gpu-0", users=["low", "dear"], node="n"),
        *wants_gpu(),
    )
    assert victims(core.later(100)) == []


# Whom


def test_the_fewest():
    core = Core(
        objects.node("n"),
        placed("a", "n", cpu="2", value=1),
        placed("b", "n", cpu="2", value=1),
        placed("c", "n", cpu="4"),
        pod("high", cpu="4", value=10),
    )
    assert len(victims(core.actions())) == 1


def test_the_least_important():
    core = gpu_world(gpu_count=2)
    core.put(user("low-0", value=5), *wants_gpu())
    assert victims(core.actions()) == ["low-1"]


def test_the_node_with_the_cheapest_victims():
    core = Core(
        *(objects.node(name) for name in ("a", "b", "c")),
        placed("on-a", "a", cpu="8", value=5),
        placed("on-b", "b", cpu="8", value=1),
        placed("on-c", "c", cpu="4", value=1),
        placed("on-c-too", "c", cpu="4", value=1),
        pod("high", cpu="8", value=10),
    )
    assert victims(core.actions()) == ["on-b"]


def test_of_equals_those_that_started_last():
    def started(name, node, moment):
        return {**placed(name, node, cpu="8"), "status": {"startTime": f"2030-01-0{moment}T00:00:00Z"}}

    core = Core(
        *(objects.node(name) for name in "abc"),
        started("first", "a", 1),
        started("last", "b", 3),
        started("second", "c", 2),
        pod("high", cpu="8", value=10),
    )
    assert victims(core.actions()) == ["last"]


@pytest.mark.parametrize(("room", "victim"), [(0, "free"), (1, "guarded")])
def test_rather_those_no_budget_protects_which_one_with_room_does_not(room, victim):
    core = Core(
        objects.node("a"),
        objects.node("b"),
        placed("guarded", "a", cpu="8", labels={"app": "x"}),
        placed("free", "b", cpu="8", value=5),
        budget("b", "x", room),
        pod("high", cpu="8", value=10),
    )
    assert victims(core.actions()) == [victim]


def test_where_there_is_no_other_way_a_budget_does_not_help():
    core = Core(objects.node("n"), placed("guarded", "n", cpu="8", labels={"app": "x"}), budget("b", "x", 0))
    core.put(pod("high", cpu="8", value=10))
    assert victims(core.actions()) == ["guarded"]


# While they go


def going(core, name):
    core.change("Pod", name, metadata={"deletionTimestamp": "2030-01-01T00:00:00Z"})


def test_no_second_preemption_while_the_victims_go():
    core = gpu_world(*wants_gpu(), gpu_count=2)
    (victim,) = victims(core.actions())
    going(core, victim)
    core.put(objects.node("elsewhere"))
    assert victims(core.later(600)) == []
    assert bound(core.later(1)) == {}


def test_no_second_preemption_while_the_device_is_not_given_back_yet():
    core = gpu_world(*wants_gpu(), gpu_count=2)
    (victim,) = victims(core.actions())
    going(core, victim)
    core.later(5)
    core.remove("Pod", victim)
    assert victims(core.later(100)) == []
    core.release(victim)
    assert bound(core.later(11)) == {"high": "n"}


def test_the_place_is_kept_against_the_less_important():
    core = gpu_world(*wants_gpu())
    (victim,) = victims(core.actions())
    core.put(*wants_gpu("late", value=5))
    core.remove_with_claims(victim)
    assert bound(core.later(11)) == {"high": "n"}


def test_the_place_is_not_kept_against_the_more_important():
    core = gpu_world(*wants_gpu())
    (victim,) = victims(core.actions())
    core.remove_with_claims(victim)
    core.put(*wants_gpu("higher", value=50))
    assert bound(core.actions()) == {"higher": "n"}


def test_a_place_that_cannot_be_had_any_more_is_not_kept():
    core = Core(objects.node("n"), placed("low", "n", cpu="8"), pod("high", cpu="8", value=10))
    assert victims(core.actions()) == ["low"]
    core.put(objects.node("n", cpu="4"))
    core.remove("Pod", "low")
    core.later(11)
    core.put(pod("small", cpu="2"))
    assert bound(core.later(11)) == {"small": "n"}


def test_each_of_several_of_one_kind_finds_its_own_victim():
    core = gpu_world(*wants_gpu("a"), *wants_gpu("b"), gpu_count=3)
    actions = core.actions()
    assert len(victims(actions)) == 2
    assert len(set(victims(actions))) == 2


def test_pods_that_are_being_bound_are_victims_once_they_are():
    core = Core(objects.node("n"), pod("low", cpu="8"))
    (binding,) = core.actions()
    core.put(pod("high", cpu="8", value=10))
    assert victims(core.later(5)) == []
    core.bind(binding)
    assert victims(core.later(11)) == ["low"]


def test_a_pod_that_comes_to_where_another_waits_for_is_a_victim_once_it_is_bound():
    """While it is being bound, those leave who stood in the way of removing it."""
    core = Core(objects.node("n"), gpus.slice_of("n", 2), reservation_seconds=0)
    for number, value in enumerate((20, 10)):
        core.put(user(f"held-{number}", value=value), holding(f"c{number}", f"gpu-{number}", users=[f"held-{number}"]))
    core.put(objects.claim("c-high", objects.request(count=2)), pod("high", claims=["c-high"], value=10))
    assert victims(core.settle()) == []
    core.remove_with_claims("held-0")
    core.put(*wants_gpu("low", 1))
    (bind,) = [each for each in core.later() if isinstance(each, Bind)]
    core.write(bind)
    core.remove_with_claims("held-1")
    assert victims(core.later()) == []
    core.bind(bind)
    assert victims(core.settle()) == ["low"]


def test_who_preempts_says_where_it_will_be():
    core = gpu_world(*wants_gpu())
    (action,) = core.actions()
    assert isinstance(action, Refuse)
    assert place_of(action).node == "n"
    assert action.news


def test_thinking_about_it_changes_nothing():
    core = gpu_world(*wants_gpu(value=0), gpu_count=4)
    state = core.state
    before = (dict(state.inventory.usage.claims), dict(state.nodes["n"].requested), set(state.nodes["n"].pods))
    core.put(pod("huge", cpu="100", value=99))
    core.put(objects.claim("many", objects.request(count=5)), pod("greedy", claims=["many"], value=99))
    assert victims(core.later(100)) == []
    assert (dict(state.inventory.usage.claims), dict(state.nodes["n"].requested), set(state.nodes["n"].pods)) == before


def test_one_that_found_no_victims_tries_again_when_a_node_opens():
    core = Core(objects.node("n", taints=[{"key": "k", "effect": "NoSchedule"}]), placed("low", "n", cpu="8"))
    core.put(pod("high", cpu="8", value=10))
    assert victims(core.later(60)) == []
    core.put(objects.node("n"))
    assert victims(core.later(11)) == ["low"]


def test_one_that_found_no_victims_tries_again_when_somebody_more_important_leaves():
    core = Core(objects.node("n"), placed("low", "n", cpu="4"), placed("dear", "n", cpu="4", value=50))
    core.put(pod("high", cpu="8", value=10))
    assert victims(core.later(60)) == []
    core.remove("Pod", "dear")
    assert victims(core.later(11)) == ["low"]


def test_no_place_is_kept_for_one_whose_claim_is_gone():
    core = gpu_world(*wants_gpu())
    (victim,) = victims(core.actions())
    core.remove("ResourceClaim", "c-high")
    core.remove_with_claims(victim)
    core.put(*wants_gpu("late", value=0))
    assert bound(core.later(11)) == {"late": "n"}


def test_a_share_that_was_kept_for_one_user_of_a_claim_stays_the_claims_when_another_gets_it():
    """Both count on the same share of the same claim; that the place is no longer kept must not free it."""
    capacity = {"memory": {"value": "10", "requestPolicy": {"default": "6"}}}
    shared = gpus.gpu("gpu-0", allowMultipleAllocations=True, capacity=capacity)
    core = Core(objects.node("n"), objects.resource_slice("n", shared, nodeName="n"))
    core.put(
        user("low"), holding("held", "gpu-0", users=["low"], node="n", shareID="s", consumedCapacity={"memory": "6"})
    )
    core.put(objects.claim("c"), pod("a", claims=["c"], value=10))
    assert victims(core.actions()) == ["low"]
    core.remove_with_claims("low")
    core.put(pod("b", claims=["c"], value=20))
    assert bound(core.settle()).keys() == {"a", "b"}
    core.put(objects.claim("d"), pod("late", claims=["d"]))
    assert bound(core.later()) == {}


@pytest.mark.parametrize("written", [True, False], ids=["written", "failed"])
def test_nobody_else_goes_before_the_deletion_of_the_first_is_seen(written):
    """A cheaper victim is found meanwhile. If the eviction failed, that one goes."""
    core = Core(objects.node("n1", cpu="1"), objects.node("n2", cpu="1"))
    core.put(pod("a", cpu="1", value=1), pod("b", cpu="1", value=1))
    assert len(bound(core.settle())) == 2
    core.put(pod("urgent", cpu="1", value=10))
    (action,) = core.later()
    assert len(victims([action])) == 1
    core.put(objects.node("n3", cpu="1"), placed("cheap", "n3", cpu="1"))
    assert victims(core.later()) == []
    if written:
        core.do(action)
        assert bound(core.settle()) == {"urgent": action.preemption.places[action.pod.uid].node}
    else:
        core.scheduler.refusal_failed(action, core.now)
        assert victims(core.settle()) == ["cheap"]
    assert not core.state.queues.evicted


# For gangs


def racks(*low):
    """Two racks with a node each, whose cpu pods of these priorities have."""
    core = Core(*(objects.node(f"n{number}", labels={"rack": f"r{number}"}) for number in range(len(low))))
    core.put(*(placed(f"on-{number}", f"n{number}", cpu="7", value=value) for number, value in enumerate(low)))
    group = objects.pod_group("g", minCount=2, schedulingConstraints={"topology": [{"key": "rack"}]})
    of_group = {"schedulingGroup": {"podGroupName": "g"}}
    core.put(group, *(pod(f"p{number}", cpu="1", value=10, **of_group) for number in range(2)))
    return core


@pytest.mark.parametrize(("low", "victim"), [((5, 1), "on-1"), ((1, 5), "on-0"), ((9, 5, 7), "on-1")])
def test_a_gang_evicts_the_least_important_pods_whichever_rack_they_are_in(low, victim):
    assert victims(racks(*low).settle()) == [victim]


def test_a_gang_evicts_pods_that_no_budget_protects_though_they_are_more_important():
    core = racks(5, 1)
    core.put(labelled(core.get("Pod", "on-1"), app="kept"), budget("kept", "kept", 0))
    assert victims(core.settle()) == ["on-0"]


@pytest.mark.parametrize("names", ["xyz", "zyx", "yxz"])
def test_which_of_equals_is_evicted_does_not_depend_on_the_order_in_which_they_became_known(names):
    core = Core(objects.node("n", cpu="3"))
    for name in names:
        core.put({**placed(name, "n", cpu="1"), "status": {"startTime": "2026-01-01T00:00:00Z"}})
    core.put(pod("high", cpu="1", value=10))
    assert victims(core.actions()) == ["z"]
