"""Plans: where pods go, who is evicted, and what changes of the cluster bring about."""

import pytest

from dray.fleet.choice import choose
from dray.planning.changes import ChangeError, add_machines, drain, set_quota, without
from dray.planning.plan import make_plan
from dray.planning.playing import play
from dray.planning.suggestions import Budget
from dray.scheduling.scheduler import Options
from dray.testing import objects
from tests import gpus
from tests.planning.scenes import device_names, node, places, pod, running, scene, template
from tests.scheduling.test_queues import QUEUE, cluster_queue, flavor, in_queue, local_queue, nominal

GPU = gpus.GPU


def played(made, *changes):
    for change in changes:
        made = change.apply(made)
    return play(made, Options())


def evictions(outcome):
    return {each.key[1]: each for each in outcome.evicted}


def test_pods_get_nodes_and_devices_beside_those_that_run():
    made = scene(*node("a", 2), template(), *running("old", "a", "gpu-0"), wanted=[pod("p"), pod("q")])
    outcome = played(made)
    assert places(outcome) == {"p": "a", "q": ""}
    assert device_names(outcome)["p"] == ["a/gpu-1"]
    assert "cannot allocate all claims" in outcome.pods[1].reason
    assert not outcome.fits


def test_missing_templates_and_claims_are_named():
    claims = pod("q", None)
    claims["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": "mine"}]
    outcome = played(scene(*node("a"), wanted=[pod("p"), claims]))
    assert [each.reason for each in outcome.pods] == [
        "ResourceClaimTemplate default/one not found",
        "ResourceClaim default/mine not found",
    ]
    similar = played(scene(*node("a"), objects.claim("mien"), wanted=[claims]))
    assert similar.pods[0].reason == "ResourceClaim default/mine not found; did you mean mien?"


def test_pods_and_claims_that_are_in_the_cluster_already_stay_as_they_are():
    user, held = running("old", "a", "gpu-0")
    user["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": "old-gpu"}]
    again, claim = pod("old", None), objects.claim("old-gpu", objects.request("gpu", deviceClassName="gpu"))
    again["spec"]["resourceClaims"] = user["spec"]["resourceClaims"]
    outcome = played(scene(*node("a", 1), template(), user, held, wanted=[claim, again, pod("p")]))
    assert places(outcome) == {"old": "a", "p": ""}
    assert device_names(outcome)["old"] == ["a/gpu-0"]


def test_a_pod_of_lower_priority_is_evicted_and_created_again_elsewhere():
    made = scene(*node("a", 1), *node("b", 0), template(), *running("low", "a", "gpu-0"), wanted=[pod("p", priority=5)])
    outcome = played(made)
    assert places(outcome) == {"p": "a"}
    low = evictions(outcome)["low"]
    assert (low.preemptor, low.reason, low.node) == ("pod default/p", "priority 5 is higher than 0", "a")
    assert low.again.node == ""
    assert outcome.fits


def test_pods_without_a_controller_are_not_created_again():
    low = running("low", "a", "gpu-0", owner="")
    outcome = played(scene(*node("a", 1), template(), *low, wanted=[pod("p", priority=5)]))
    assert evictions(outcome)["low"].again is None


def test_a_drained_node_gives_its_pods_to_others_but_for_daemon_sets():
    made = scene(
        *node("a", 2),
        *node("b", 2),
        template(),
        *running("moves", "a", "gpu-0"),
        *running("daemon", "a", owner="DaemonSet"),
        wanted=[pod("p")],
    )
    outcome = played(made, drain("a"))
    moved = evictions(outcome)
    assert moved.keys() == {"moves"}
    assert moved["moves"].again.node == "b"
    assert [result["device"] for _, result in moved["moves"].again.devices] == ["gpu-0"]
    assert device_names(outcome) == {"p": ["b/gpu-1"]}
    assert outcome.fits


def test_a_pod_that_a_budget_protects_is_noted():
    users = [*running("p1", "a", "gpu-0", labels={"app": "x"}), *running("p2", "a", "gpu-1", labels={"app": "x"})]
    budget = objects.pod_disruption_budget("keep", {"app": "x"}, status={"disruptionsAllowed": 1})
    outcome = played(scene(*node("a", 2), *node("b", 2), template(), *users, budget), drain("a"))
    assert outcome.problems == ("a PodDisruptionBudget does not allow to evict pod default/p2 now",)
    assert outcome.fits


def test_a_drain_that_leaves_a_pod_without_a_node_does_not_fit():
    made = scene(*node("a", 1), *node("b", 0), template(), *running("moves", "a", "gpu-0"))
    assert not played(made, drain("a")).fits
    assert played(made, drain("a"), add_machines(choose(["cpu-64=1"]).machines)).fits is False


def test_a_device_that_is_gone_moves_its_pod():
    made = scene(*node("a", 2), template(), *running("moves", "a", "gpu-0"))
    for name in ("a/gpu-0", f"{objects.DRIVER}/a/gpu-0"):
        outcome = played(made, without(name))
        [again] = [each.again for each in outcome.evicted]
        assert (again.node, [result["device"] for _, result in again.devices]) == ("a", ["gpu-1"])


def test_added_machines_take_pods():
    outcome = played(scene(template(), wanted=[pod("p", None, cpu="32")]), add_machines(choose(["cpu-64=2"]).machines))
    assert places(outcome) == {"p": "cpu-64-0-added"}


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (drain("aa"), "node aa not found; did you mean a?"),
        (without("a/gpu-9"), "device a/gpu-9 not found"),
        (set_quota("tea", "gpu", "1"), "queue tea not found; did you mean team?"),
        (set_quota("team", "cpu", "1"), "queue team has no quota of cpu"),
        (set_quota("team", GPU, "many"), "'many' is no amount"),
        (set_quota("team", GPU, "-1"), "'-1' is no amount"),
        (set_quota("team", GPU, "+-3"), "'+-3' is no amount"),
    ],
)
def test_changes_of_what_is_not_there_are_refused(change, told):
    made = scene(*node("a"), flavor(), cluster_queue("team", ("any", {GPU: nominal("2")})))
    with pytest.raises(ChangeError) as raised:
        change.apply(made)
    assert told in str(raised.value)


def queued_scene(*wanted):
    queues = [flavor(), cluster_queue("team", ("any", {GPU: nominal("2")})), local_queue("team", "team")]
    return scene(*node("a", 8), template(), *queues, wanted=[in_queue(each) for each in wanted])


def test_quota_decides_and_a_pod_that_waits_has_a_position():
    made = queued_scene(*(pod(f"p{number}") for number in range(4)))
    outcome = played(made)
    assert sum(map(bool, places(outcome).values())) == 2
    waiting = [each for each in outcome.pods if not each.node]
    assert [(each.queue, each.position) for each in waiting] == [("team", 1), ("team", 2)]
    assert played(made, set_quota("team", GPU, "4")).fits
    assert played(made, set_quota("team", "gpu", "4")).fits
    assert played(made, set_quota("team", GPU, "+2")).fits
    assert not played(made, set_quota("team", GPU, "+1")).fits


def test_quota_that_another_queue_borrowed_is_reclaimed():
    quota = ("any", {GPU: nominal("1")})
    preemption = {"reclaimWithinCohort": "Any"}
    queues = [flavor(), local_queue("team", "team"), local_queue("other", "other")]
    queues += [
        cluster_queue("team", quota, cohort="org", preemption=preemption),
        cluster_queue("other", quota, cohort="org"),
    ]
    users = [running(f"old{number}", "a", f"gpu-{number}", labels={QUEUE: "other"}) for number in range(2)]
    made = scene(*node("a", 2), template(), *queues, *users[0], *users[1], wanted=[in_queue(pod("p"))])
    outcome = played(made)
    assert places(outcome) == {"p": "a"}
    [evicted] = outcome.evicted
    assert (evicted.reclaims, evicted.reason) == (True, "queue team reclaims quota from queue other")
    assert evicted.again.queue == "other"


def test_a_pod_that_needed_quota_alone_does_not_wait_for_the_devices_of_the_evicted_pod():
    quota = {GPU: nominal("9"), "cpu": nominal("2")}
    queues = [flavor(), cluster_queue("team", ("any", quota), preemption={"withinClusterQueue": "LowerPriority"})]
    low = running("low", "a", "gpu-0", requests={"cpu": "2"})
    low[0] = in_queue(low[0])
    high = in_queue(pod("high", priority=5, requests={"cpu": "2"}))
    outcome = played(scene(*node("a", 2), *queues, local_queue("team", "team"), template(), *low, wanted=[high]))
    assert list(evictions(outcome)) == ["low"]
    # On a cluster the claim of a pod is released a moment after the pod has ended.
    assert device_names(outcome)["high"] == ["a/gpu-1"]


def test_a_gang_starts_together_or_waits_together():
    group = objects.pod_group("g", minCount=3)
    members = [pod(f"p{number}", schedulingGroup={"podGroupName": "g"}) for number in range(3)]
    small = played(scene(*node("a", 2), template(), wanted=[group, *members]))
    assert set(places(small).values()) == {""}
    assert {each.group.name for each in small.pods} == {"g"}
    assert played(scene(*node("a", 2), *node("b", 1), template(), wanted=[group, *members])).fits


def test_pods_that_waited_before_have_their_turn_first():
    early = pod("early")
    early["metadata"]["uid"] = "early"
    early["status"] = {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "early-gpu"}]}
    request = objects.request("gpu", deviceClassName="gpu", count=1, allocationMode="ExactCount")
    claim = objects.claim("early-gpu", request)
    claim["metadata"]["ownerReferences"] = [{"kind": "Pod", "name": "early", "uid": "early", "controller": True}]
    outcome = played(scene(*node("a", 1), template(), early, claim, wanted=[pod("late")]))
    assert [each.key[1] for each in outcome.started] == ["early"]
    assert places(outcome) == {"late": ""}


def test_a_claim_of_a_late_version_is_given_back_when_its_pod_leaves():
    user, held = running("old", "a", "gpu-0", owner="")
    held["metadata"] = {**held["metadata"], "resourceVersion": "123456", "ownerReferences": []}
    outcome = played(scene(*node("a", 1), template(), user, held, wanted=[pod("p", priority=5)]))
    assert places(outcome) == {"p": "a"}


def test_a_scene_is_not_changed_by_playing_it():
    made = scene(*node("a", 1), template(), *running("low", "a", "gpu-0"), wanted=[pod("p", priority=5)])
    assert played(made) == played(made)


def test_a_plan_that_takes_too_long_is_stopped_and_says_so():
    made = scene(*node("a", 8), template(), wanted=[pod(f"p{number}") for number in range(8)])
    left = iter([True] * 6)
    outcome = play(made, Options(), lambda: next(left, False))
    assert not outcome.fits
    assert "the scheduler was stopped before it had tried everything" in outcome.problems[0]
    times = iter(range(0, 10_000, 50))
    plan = make_plan(made, (), Options(), prices={}, budget=Budget(), clock=lambda: float(next(times)))
    assert (plan.verdict.value, plan.tried, plan.exhausted) == ("DoesNotFit", 0, False)
