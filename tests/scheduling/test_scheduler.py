"""Events in, actions out: who is let in, and what is in force at once."""

import pytest

from dray.scheduling.model.actions import Bind
from dray.scheduling.waiting.queued_pods import SubQueue
from dray.testing import objects
from tests import gpus
from tests.scheduling.core import Core, bound, holding, one_gpu_node, placed, pod, refused

# Being let in


def test_a_pod_waits_for_its_claim_without_being_tried():
    core = one_gpu_node(pod("p", claims=["c"]))
    assert core.later(1) == []
    missing = "ResourceClaim default/c not found: create it in namespace default, or correct resourceClaimName"
    assert refused(core.later(1000)) == {"p": missing}
    assert core.later(1000) == []
    core.put(objects.claim("c"))
    assert bound(core.actions()) == {"p": "n"}
    assert core.decisions == 1


def test_a_reason_that_could_not_be_written_is_reported_again():
    core = one_gpu_node(pod("p", claims=["c"]))
    (report,) = core.later(10)
    core.scheduler.refusal_failed(report, core.now)
    assert list(refused(core.later(10))) == ["p"]


def test_a_claim_that_comes_in_time_leaves_nothing_to_report():
    core = one_gpu_node(pod("p", claims=["c"]))
    assert core.later(1) == []
    core.put(objects.claim("c"))
    assert [type(each) for each in core.later(1000)] == [Bind]


def test_a_pod_waits_for_the_claim_that_is_made_from_its_template():
    core = one_gpu_node(gpus.pod("p", templates=["t"]))
    assert core.actions() == []
    stored = core.get("Pod", "p")
    owner = {"kind": "Pod", "name": "p", "uid": stored["metadata"]["uid"], "controller": True}
    generated = objects.claim("made")
    generated["metadata"]["ownerReferences"] = [owner]
    core.put(generated)
    assert core.actions() == []
    core.change("Pod", "p", status={"resourceClaimStatuses": [{"name": "template-0", "resourceClaimName": "made"}]})
    assert bound(core.actions()) == {"p": "n"}


def test_a_generated_claim_of_somebody_else_is_not_taken():
    core = one_gpu_node(objects.claim("made"), gpus.pod("p", templates=["t"]))
    core.change("Pod", "p", status={"resourceClaimStatuses": [{"name": "template-0", "resourceClaimName": "made"}]})
    (message,) = refused(core.later(1000)).values()
    assert message == "ResourceClaim default/made was not created for Pod default/p (Pod is not owner)"


def test_an_entry_that_came_to_nothing_is_passed_over():
    core = one_gpu_node(gpus.pod("p", templates=["t"]))
    core.change("Pod", "p", status={"resourceClaimStatuses": [{"name": "template-0"}]})
    (action,) = core.actions()
    assert (action.node, action.writes) == ("n", ())


def test_a_claim_that_is_being_deleted_is_waited_for():
    core = one_gpu_node()
    leaving = objects.claim("c")
    leaving["metadata"]["deletionTimestamp"] = "2030-01-01T00:00:00Z"
    core.put(leaving, pod("p", claims=["c"]))
    assert "is being deleted" in refused(core.later(1000))["p"]
    core.remove("ResourceClaim", "c")
    assert core.actions() == []
    assert "not found" in refused(core.later(1000))["p"]
    core.put(objects.claim("c"))
    assert bound(core.actions()) == {"p": "n"}


def test_scheduling_gates_hold_a_pod_back():
    core = one_gpu_node(pod("p", schedulingGates=[{"name": "wait"}]))
    assert core.later(1000) == []
    core.change("Pod", "p", spec={"schedulingGates": None})
    assert bound(core.actions()) == {"p": "n"}


@pytest.mark.parametrize("name", ["other", None])
def test_only_pods_that_name_this_scheduler_are_placed(name):
    core = one_gpu_node(name="mine")
    core.put(pod("p", **({"schedulerName": name} if name else {})), pod("q", schedulerName="mine"))
    assert bound(core.actions()) == {"q": "n"}


def test_the_most_urgent_comes_first_and_then_the_oldest():
    core = one_gpu_node()
    core.put(pod("a"), pod("b", value=5), pod("c"), pod("d", value=5))
    assert list(bound(core.actions())) == ["b", "d", "a", "c"]


# Sharing


def test_a_claim_is_allocated_once_and_then_shared():
    core = one_gpu_node(objects.claim("c"), pod("a", claims=["c"]), pod("b", claims=["c"]))
    (first,) = core.actions()
    # The second sees that the claim is about to get its devices, and waits for that.
    assert core.scheduler.queue.counts()[SubQueue.GATED] == 1
    core.write(first)
    (second,) = core.actions()
    assert second.writes[0].allocation is None
    assert first.writes[0].allocation is not None
    assert {first.pod.key[1], second.pod.key[1]} == {"a", "b"}


def test_who_waits_for_the_allocation_of_another_goes_on_if_that_fails():
    core = one_gpu_node(objects.claim("c"), pod("a", claims=["c"]), pod("b", claims=["c"]))
    (first,) = core.actions()
    core.remove("Pod", first.pod.key[1])
    assert core.actions() == []
    core.scheduler.failed(first, core.now)
    (second,) = core.actions()
    assert second.pod is not first.pod
    assert second.writes[0].allocation is not None


def test_a_claim_with_256_users_takes_no_more():
    users = [f"u{n}" for n in range(256)]
    core = one_gpu_node(holding("c", "gpu-0", users=users), pod("p", claims=["c"]))
    (answer,) = core.actions()
    assert "256" in answer.message
    assert answer.reason == "SchedulerError"
    core.put(holding("c", "gpu-0", users=users[1:]))
    assert bound(core.actions()) == {"p": "n"}


def test_that_a_claim_has_256_users_matters_only_where_the_pod_would_fit():
    users = [f"u{n}" for n in range(256)]
    core = one_gpu_node(
        placed("big", "n", cpu="8"), holding("c", "gpu-0", users=users), pod("p", claims=["c"], cpu="1")
    )
    (answer,) = core.actions()
    assert (answer.reason, answer.message) == ("Unschedulable", "0/1 nodes are available: 1 Insufficient cpu.")
    core.remove("Pod", "big")
    (answer,) = core.later()
    assert answer.reason == "SchedulerError"


# In force at once


def test_a_decision_is_in_force_before_it_is_written():
    core = one_gpu_node(objects.claim("a"), objects.claim("b"), pod("p", claims=["a"]), pod("q", claims=["b"]))
    actions = core.actions()
    assert len(bound(actions)) == 1
    assert len(refused(actions)) == 1


def test_a_failed_write_is_taken_back_and_tried_again():
    core = one_gpu_node(objects.claim("c"), pod("p", claims=["c"], cpu="8"))
    (first,) = core.actions()
    assert core.state.nodes["n"].requested["cpu"] == 8000
    core.scheduler.failed(first, core.now)
    assert not core.state.nodes["n"].requested
    assert not core.state.inventory.usage.devices
    assert core.actions() == []
    assert bound(core.later(1)) == {"p": "n"}


def test_failures_in_a_row_are_spaced_out():
    core = one_gpu_node(pod("p"))
    for _ in range(12):
        (action,) = core.later(11)
        core.scheduler.failed(action, core.now)
    assert core.later(9) == []
    assert bound(core.later(2)) == {"p": "n"}


def test_an_old_event_does_not_free_what_was_just_given_away():
    core = one_gpu_node(pod("p", claims=["c"]))
    old = core.put(objects.claim("c"))
    (action,) = core.actions()
    core.write(action)
    core.say_again(old)
    assert core.state.inventory.usage.claims[("default", "c")]
    core.scheduler.bound(action, core.now)
    core.put(objects.claim("d"), pod("q", claims=["d"]))
    assert bound(core.actions()) == {}


def test_an_event_between_decision_and_write_changes_nothing():
    core = one_gpu_node(objects.claim("c"), pod("p", claims=["c"]))
    (action,) = core.actions()
    finalized = objects.claim("c")
    finalized["metadata"]["finalizers"] = ["resource.kubernetes.io/delete-protection"]
    core.put(finalized)
    assert core.state.inventory.usage.devices
    core.write(action)
    core.bind(action)
    assert core.state.inventory.usage.devices


def test_a_pod_that_goes_while_it_is_written_keeps_its_devices_until_that_is_over():
    core = one_gpu_node(objects.claim("c"), objects.claim("d"), pod("p", claims=["c"]))
    (action,) = core.actions()
    core.remove("Pod", "p")
    core.put(pod("q", claims=["d"]))
    # The write to claim c may have gone through already.
    assert bound(core.actions()) == {}
    core.scheduler.failed(action, core.now)
    assert bound(core.later()) == {"q": "n"}


def test_a_claim_of_the_same_name_is_another_claim():
    core = one_gpu_node(objects.claim("c"), pod("p", claims=["c"]), gpu_count=2)
    (old,) = core.actions()
    core.remove("Pod", "p")
    core.remove("ResourceClaim", "c")
    core.put(objects.claim("c"), pod("q", claims=["c"]))
    (new,) = core.actions()
    core.scheduler.failed(old, core.now)
    assert core.state.claims.assumed(("default", "c"))
    held = core.state.inventory.usage.claims[("default", "c")]
    assert [each["device"] for each in held] == [
        each["device"] for each in new.writes[0].allocation["devices"]["results"]
    ]


def test_an_answer_that_comes_after_the_claim_is_gone_brings_nothing_back():
    core = one_gpu_node(objects.claim("c"), pod("p", claims=["c"]))
    (action,) = core.actions()
    stored = core.write_one(action, action.writes[0], tell=False)
    core._tell("put", stored)
    core.remove("ResourceClaim", "c")
    core.scheduler.written(action, action.writes[0], stored, core.now)
    assert not core.state.inventory.usage.devices
    assert core.state.claims.get(("default", "c")) is None


def test_a_pod_that_was_bound_after_all_is_not_tried_again():
    core = one_gpu_node(pod("p", cpu="1"))
    (action,) = core.actions()
    known = core.get("Pod", "p")
    core.put({**known, "spec": {**known["spec"], "nodeName": "n"}})
    core.scheduler.failed(action, core.now)
    assert core.later(1000) == []
    assert len(core.scheduler.queue) == 0
    assert core.state.nodes["n"].requested["cpu"] == 1000


def test_a_pod_that_somebody_else_bound_elsewhere_is_there():
    core = Core(objects.node("n"), objects.node("m"), pod("p", cpu="1"))
    (action,) = core.actions()
    other = {"n": "m", "m": "n"}[action.node]
    known = core.get("Pod", "p")
    core.put({**known, "spec": {**known["spec"], "nodeName": other}})
    core.scheduler.failed(action, core.now)
    assert core.later(1000) == []
    assert not core.state.nodes[action.node].requested
    assert core.state.nodes[other].requested["cpu"] == 1000


def test_an_old_event_of_a_bound_pod_does_not_queue_it_again():
    core = one_gpu_node()
    old = core.put(pod("p"))
    core.settle()
    core.say_again(old)
    assert core.actions() == []


def test_finished_pods_take_nothing():
    core = one_gpu_node(placed("p", "n", cpu="8"), pod("q", cpu="8"))
    assert bound(core.actions()) == {}
    core.change("Pod", "p", status={"phase": "Succeeded"})
    assert bound(core.later()) == {"q": "n"}


# Chance


def test_the_same_seed_gives_the_same_choices():
    def choices(seed):
        core = Core(*(objects.node(f"n{n}") for n in range(20)), seed=seed)
        core.put(*(pod(f"p{n}") for n in range(40)))
        return [each.node for each in core.actions() if isinstance(each, Bind)]

    assert choices(1) == choices(1)
    assert choices(1) != choices(2)


def test_labels_that_change_while_a_pod_is_being_bound_count_on_its_node():
    core = Core(objects.node("n"))
    core.put(pod("p", labels={"app": "a"}))
    (action,) = core.actions()
    core.change("Pod", "p", metadata={"labels": {"app": "b"}})
    core.do(action)
    apart = {"labelSelector": {"matchLabels": {"app": "b"}}, "topologyKey": "kubernetes.io/hostname"}
    rule = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}}
    core.put(pod("q", affinity=rule))
    assert "didn't match pod anti-affinity rules" in refused(core.actions())["q"]
