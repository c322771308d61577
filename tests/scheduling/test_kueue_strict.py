"""Queues where the first that waits holds up the others: who that is, and that the next one is not left asleep."""

import pytest

from dray.scheduling.quota.kueue.strict import StrictFIFO
from dray.testing import objects
from tests.scheduling.core import Core, bound, refused_groups, victims
from tests.scheduling.test_group_attempts import gang, member
from tests.scheduling.test_kueue_policy import PRIORITY, priority
from tests.scheduling.test_queues import cluster_queue, cohort, flavor, in_queue, local_queue, nominal, queued
from tests.scheduling_loop.test_coscheduling import LABEL, group, named

GATED = {"schedulingGates": [{"name": "later"}]}


def queue(number=4, strategy="StrictFIFO", **spec):
    return cluster_queue("team", ("any", {"cpu": nominal(number)}), queueingStrategy=strategy, **spec)


def waiting(*pods, number=4, cpu="64"):
    """A pod runs that has all of a queue, and others wait for its end."""
    core = Core(objects.node("n", cpu=cpu), flavor(), local_queue("team", "team"), queue(number))
    core.put(queued("running", cpu=str(number)))
    core.settle()
    core.put(*pods)
    assert bound(core.settle()) == {}
    return core


def gang_of(name, size, **more):
    return gang(name, size), *(in_queue(member(f"{name}-{n}", of=name, **more)) for n in range(size))


# Who is the first


@pytest.fixture
def woken():
    return []


def line(woken, *places):
    made = StrictFIFO(woken.extend)
    for uid, turn, workload in places:
        made.add(uid, "q", turn, workload)
    return made


def test_only_the_next_is_woken(woken):
    made = line(woken, *((f"p{n}", (0, n), n) for n in range(5)))
    assert [made.is_held_up(f"p{n}") for n in range(5)] == [False, True, True, True, True]
    made.remove("p3")
    assert woken == []
    made.remove("p0")
    assert woken == ["p1"]


def test_pods_of_one_workload_do_not_hold_up_each_other(woken):
    made = line(woken, ("a", (0, 1), "g"), ("x", (0, 2), "x"), ("b", (0, 3), "g"))
    assert [made.is_held_up(each) for each in "axb"] == [False, True, False]
    made.remove("a")
    assert woken == ["x"]
    made.remove("x")
    assert woken == ["x", "b"]


def test_groups_of_one_turn_do_not_hold_up_each_other(woken):
    made = line(woken, ("x", (0, 1), "x"), ("a", (0, 2), "g"), ("b", (0, 2), "h"), ("y", (0, 3), "y"))
    made.remove("x")
    assert sorted(set(woken)) == ["a", "b"]
    assert not made.is_held_up("b")
    assert made.is_held_up("y")


def test_a_pod_that_is_added_again_in_its_place_wakes_no_pod(woken):
    made = line(woken, ("a", (0, 1), "a"), ("b", (0, 2), "b"))
    made.add("a", "q", (0, 1), "a")
    assert woken == []
    made.add("a", "q", (0, 3), "a")
    assert woken == ["b"]
    assert made.is_held_up("a")
    made.add("b", "other", (0, 2), "b")
    assert woken == ["b", "a"]


# Who is tried


def test_when_quota_becomes_free_the_first_few_of_many_are_tried():
    core = waiting(*(queued(f"p{n}", cpu="2") for n in range(500)))
    core.remove("Pod", "running")
    core.decisions = 0
    assert sorted(bound(core.settle())) == ["p0", "p1"]
    assert core.decisions < 10


def test_all_get_their_turn_in_order_with_a_few_decisions_each():
    core = waiting(*(queued(f"p{n:03}", cpu="4") for n in range(100)))
    core.decisions, order, last = 0, [], "running"
    for _ in range(100):
        core.remove("Pod", last)
        (last,) = bound(core.settle())
        order.append(last)
    assert order == [f"p{n:03}" for n in range(100)]
    assert core.decisions <= 300


def test_gangs_behind_the_first_are_not_tried_when_quota_becomes_free():
    core = waiting(*(each for n in range(50) for each in gang_of(f"g{n}", 2, cpu="2")))
    core.remove("Pod", "running")
    core.decisions = 0
    assert sorted(bound(core.settle())) == ["g0-0", "g0-1"]
    assert core.decisions < 10


# The next is woken


def test_when_the_first_is_deleted():
    core = waiting(queued("head", cpu="5"), queued("next", cpu="4"), queued("last", cpu="4"))
    core.remove("Pod", "running")
    assert bound(core.settle()) == {}
    core.remove("Pod", "head")
    assert bound(core.settle()) == {"next": "n"}


def test_when_the_first_is_let_in():
    core = waiting(queued("head", cpu="3"), queued("next", cpu="1"), queued("last", cpu="1"))
    core.remove("Pod", "running")
    assert sorted(bound(core.settle())) == ["head", "next"]


def test_when_the_first_cannot_be_let_in_whatever_is_free():
    core = waiting(queued("head", "other", cpu="5"), queued("next", cpu="4"))
    core.put(local_queue("other", "team"))
    core.remove("Pod", "running")
    assert bound(core.settle()) == {}
    core.put({**local_queue("other", "team"), "spec": {"clusterQueue": "team", "stopPolicy": "Hold"}})
    assert bound(core.settle()) == {"next": "n"}


def test_when_the_first_goes_to_another_queue():
    core = waiting(queued("head", "other", cpu="5"), queued("next", cpu="4"))
    core.put(local_queue("other", "team"))
    core.remove("Pod", "running")
    assert bound(core.settle()) == {}
    core.put(cluster_queue("second", ("any", {"cpu": nominal(1)})), local_queue("other", "second"))
    assert bound(core.settle()) == {"next": "n"}


def test_when_a_pod_of_a_gang_at_the_head_waits_for_its_gate():
    group, first, second = gang_of("g", 2, cpu="2")
    core = waiting(queued("next", cpu="1"), number=4)
    core.put(group, first, {**second, "spec": {**second["spec"], **GATED}})
    core.put(queued("last", cpu="1"))
    core.remove("Pod", "running")
    assert sorted(bound(core.settle())) == ["last", "next"]
    core.put(second)
    assert bound(core.settle()) == {}
    core.remove("Pod", "last")
    core.remove("Pod", "next")
    assert sorted(bound(core.settle())) == ["g-0", "g-1"]


def test_when_a_gang_at_the_head_is_not_whole_any_more():
    core = waiting(*gang_of("g", 2, cpu="3"), *gang_of("h", 2, cpu="2"), queued("last", cpu="1"))
    core.remove("Pod", "running")
    assert bound(core.settle()) == {}
    core.remove("Pod", "g-0")
    assert sorted(bound(core.settle())) == ["h-0", "h-1"]


def test_when_a_gang_at_the_head_waited_too_long():
    core = waiting(number=4)
    core.put(named(group("g", 2, scheduleTimeoutSeconds=60)))
    for number in range(2):
        made = queued(f"g-{number}", cpu="3")
        made["metadata"]["labels"][LABEL] = "g"
        core.put(made)
    core.put(queued("next", cpu="4"), queued("last", cpu="4"))
    core.settle()
    core.remove("Pod", "running")
    assert bound(core.settle()) == {}
    core.later(60.0)
    core.put(queue(number=5))
    assert bound(core.settle()) == {"next": "n"}


def test_when_the_one_behind_becomes_more_important():
    head, behind = queued("head", cpu="5"), queued("behind", cpu="4")
    behind["metadata"]["labels"][PRIORITY] = "class"
    core = waiting(head, queued("between", cpu="5"), behind)
    core.put(priority("class", 0))
    core.remove("Pod", "running")
    assert bound(core.settle()) == {}
    core.put(priority("class", 7))
    assert bound(core.settle()) == {"behind": "n"}


def test_when_the_first_becomes_less_important():
    head = queued("head", cpu="5")
    head["metadata"]["labels"][PRIORITY] = "class"
    core = waiting(head, queued("next", cpu="4"))
    core.put(priority("class", 7))
    core.remove("Pod", "running")
    assert bound(core.settle()) == {}
    core.put(priority("class", -1))
    assert bound(core.settle()) == {"next": "n"}


def test_when_the_queue_is_strict_no_longer():
    core = waiting(queued("head", cpu="5"), *(queued(f"p{n}", cpu="1") for n in range(6)))
    core.remove("Pod", "running")
    assert bound(core.settle()) == {}
    core.put(queue(strategy="BestEffortFIFO"))
    assert sorted(bound(core.settle())) == ["p0", "p1", "p2", "p3"]


# Order


def test_a_queue_that_becomes_strict_holds_up_those_that_wait():
    core = waiting(queued("head", cpu="3"), queued("second", cpu="2"))
    core.put(queue(strategy="BestEffortFIFO"))
    core.settle()
    core.put(queue())
    core.settle()
    core.put(queue(number=6))
    assert bound(core.settle()) == {}
    core.put(queue(number=7))
    assert bound(core.settle()) == {"head": "n"}


@pytest.mark.parametrize("before", ["ClusterQueue", "LocalQueue"])
def test_pods_that_came_before_their_queue_have_their_turn(before):
    made = {"ClusterQueue": queue(), "LocalQueue": local_queue("team", "team")}
    last = made.pop(before)
    core = Core(objects.node("n", cpu="64"), flavor(), *made.values())
    core.put(queued("head", cpu="5"), queued("behind", cpu="1"))
    core.settle()
    core.put(last)
    assert bound(core.settle()) == {}


def test_pods_of_a_group_without_an_object_start_together():
    core = waiting(number=4)
    core.state.groups.served.add("kueue.x-k8s.io")
    for n in range(2):
        made = queued(f"p{n}", cpu="2")
        made["metadata"]["labels"]["kueue.x-k8s.io/pod-group-name"] = "g"
        made["metadata"]["annotations"] = {"kueue.x-k8s.io/pod-group-total-count": "2"}
        core.put(made, queued(f"other{n}", cpu="1"))
    core.settle()
    core.remove("Pod", "running")
    assert sorted(bound(core.settle())) == ["p0", "p1"]


def test_nobody_has_to_go_for_a_gang_whose_turn_has_not_come():
    core = Core(objects.node("n", cpu="64"), flavor(), local_queue("team", "team"), local_queue("other", "other"))
    core.put(cohort("org"), queue(4, cohort="org", preemption={"reclaimWithinCohort": "Any"}))
    core.put(cluster_queue("other", ("any", {"cpu": nominal(0)}), cohort="org"))
    core.put(queued("borrower", "other", cpu="4"))
    core.settle()
    core.put(queued("head", cpu="5"), *gang_of("g", 2, cpu="2"))
    actions = core.settle()
    assert victims(actions) == []
    assert "other pods are first" in refused_groups(actions)["g"]
