"""Suggestions: the changes that help are found, from small to large, and within the budget."""

from itertools import count

import pytest

from dray.planning import tries
from dray.planning.changes import drain, set_quota, without
from dray.planning.playing import Stage, play
from dray.planning.suggestions import Budget, candidates, suggest
from dray.planning.tries import Tries
from dray.scheduling.scheduler import Options
from dray.testing import objects
from tests import gpus
from tests.planning.scenes import node, pod, running, scene, template
from tests.scheduling.test_queues import cluster_queue, flavor, in_queue, local_queue, nominal

GPU = gpus.GPU
ROOT = f"{objects.DRIVER}/root"


def found(made, budget=None, clock=lambda: 0.0):
    """Texts of the suggestions; each must make everything fit."""
    outcome = play(made, Options())
    assert not outcome.fits
    search = suggest(made, outcome, Options(), budget or Budget(tries=200, found=9), clock)
    for each in search.suggestions:
        assert play(each.change.apply(made), Options()).fits
    return [each.change.text for each in search.suggestions]


def test_a_constraint_that_cannot_be_met_is_dropped():
    constraints = [{"matchAttribute": ROOT, "requests": ["gpu"]}]
    made = scene(*node("a", 4), template(count=3, constraints=constraints), wanted=[pod("p")])
    assert f"drop constraint {ROOT} of template default/one" in found(made)
    assert "request 2 instead of 3 gpu in template default/one" in found(made)


def test_a_selector_that_nothing_matches_is_dropped():
    expression = f"device.attributes['{objects.DRIVER}'].root == 'r9'"
    made = scene(*node("a", 1), template(selectors=[expression]), wanted=[pod("p")])
    assert found(made)[0] == f'drop selector "{expression}" of template default/one'


@pytest.mark.parametrize(
    ("members", "node_members", "told"),
    [
        ({"nodeSelector": {"zone": "x", "os": "linux"}}, {"labels": {"os": "linux"}}, "drop nodeSelector zone=x"),
        ({}, {"taints": [objects.taint("gpus")]}, "tolerate taint gpus:NoSchedule"),
    ],
)
def test_what_pods_say_about_nodes_is_relaxed(members, node_members, told):
    made = scene(*node("a", 1, **node_members), template(), wanted=[pod("p", **members)])
    assert found(made)[0] == told


def test_fewer_pods_of_what_fits_in_part_and_of_a_gang():
    made = scene(*node("a", 2), template(), wanted=[pod(f"p{number}") for number in range(3)])
    assert "start 2 instead of 3 pods" in found(made)
    group = objects.pod_group("g", minCount=3)
    members = [pod(f"p{number}", schedulingGroup={"podGroupName": "g"}) for number in range(3)]
    made = scene(*node("a", 2), template(), wanted=[group, *members])
    assert "start 2 instead of 3 pods in group default/g" in found(made)


def test_a_pod_that_ends_and_one_more_machine():
    made = scene(*node("a", 1), template(), *running("old", "a", "gpu-0"), wanted=[pod("p")])
    texts = found(made)
    ending = "end pod default/old on node a, and scale ReplicaSet o down, or it comes back"
    assert ending in texts
    assert "add 1 machine like node a" in texts
    assert texts.index(ending) < texts.index("add 1 machine like node a")


def test_a_claim_that_nobody_uses_is_deleted():
    _, left_over = running("gone", "a", "gpu-0")
    left_over["status"]["reservedFor"] = []
    made = scene(*node("a", 1), template(), left_over, wanted=[pod("p")])
    assert found(made)[0] == "delete claim default/gone-gpu, which no pod uses"


def test_more_quota_and_another_queue():
    queues = [
        flavor(),
        cluster_queue("team", ("any", {GPU: nominal("1")})),
        cluster_queue("other", ("any", {GPU: nominal("4")})),
        local_queue("team", "team"),
        local_queue("other", "other"),
    ]
    made = scene(*node("a", 4), template(), *queues, wanted=[in_queue(pod(f"p{number}")) for number in range(3)])
    texts = found(made)
    assert "use queue other instead of team" in texts
    assert f"raise quota of queue team by 2 {GPU}" in texts


def test_the_search_keeps_to_its_budget():
    made = scene(*node("a", 1), template(), *running("old", "a", "gpu-0"), wanted=[pod("p")])
    outcome = play(made, Options())
    none = suggest(made, outcome, Options(), Budget(seconds=0), lambda: 0.0)
    assert (none.tried, none.suggestions, none.exhausted) == (0, (), False)
    times = iter(range(100))
    many = [pod(f"p{number}", "two") for number in range(3)]
    long = scene(*node("a", 1), template("two", 9), *running("old", "a", "gpu-0"), wanted=many)
    late = suggest(long, play(long, Options()), Options(), Budget(seconds=2.0), lambda: float(next(times)))
    assert 1 <= late.tried <= 4
    assert not late.exhausted
    one = suggest(made, outcome, Options(), Budget(tries=200, found=1), lambda: 0.0)
    assert len(one.suggestions) == 1


def test_changes_are_tried_until_one_helps():
    """The first changes do not help: only more quota does. The number of tries counts from then on."""
    queues = [flavor(), cluster_queue("team", ("any", {GPU: nominal("0")})), local_queue("team", "team")]
    made = scene(*node("a", 2), template(), *queues, wanted=[in_queue(pod("p"))])
    search = suggest(made, play(made, Options()), Options(), Budget(tries=1), lambda: 0.0)
    assert search.tried > 1
    assert [each.change.kind for each in search.suggestions] == ["SetQuota"]


@pytest.mark.parametrize("index", range(14))
def test_a_change_on_a_filled_scheduler_has_the_same_outcome_as_from_the_beginning(index):
    queues = [flavor(), cluster_queue("team", ("any", {GPU: nominal("2")})), local_queue("team", "team")]
    cluster = [*node("a", 2), *node("b", 1), *running("old", "a", "gpu-0", "gpu-1"), *running("low", "b", "gpu-0")]
    wanted = [in_queue(pod(f"p{number}", "two", priority=number)) for number in range(2)]
    made = scene(*cluster, template("two", 2), *queues, wanted=wanted)
    changes = [drain("a"), drain("b"), without("a/gpu-0"), set_quota("team", GPU, "8")]
    changes += candidates(made, play(made, Options()))
    change = changes[index % len(changes)]
    again = play(change.apply(made), Options())
    tried = Tries(made, Options()).from_stage(Stage(made, Options()), change)
    assert (tried.fits, tried.evicted) == (again.fits, again.evicted)


def test_a_gang_that_finds_no_rack_may_do_without_one():
    group = objects.pod_group("g", minCount=2, schedulingConstraints={"topology": [{"key": "rack"}]})
    members = {"schedulingGroup": {"podGroupName": "g"}}
    made = scene(*node("a"), wanted=[template(), group, pod("p0", **members), pod("p1", **members)])
    played = play(made, Options())
    assert not played.fits
    found = suggest(made, played, Options(), Budget(), lambda: 0.0)
    assert "drop schedulingConstraints rack of group default/g" in [each.change.text for each in found.suggestions]


def test_no_kind_of_change_uses_up_the_budget_alone():
    """A gang of 40 pods could be smaller in 39 ways, and its claims in 31; what helps is one more machine."""
    group = objects.pod_group("g", minCount=40)
    members = {"schedulingGroup": {"podGroupName": "g"}, "nodeSelector": {"size": "large"}}
    large = objects.node("large", cpu="80", labels={"size": "large"}, pods="200")
    slices = gpus.slice_of("large", 40, allowMultipleAllocations=False)
    pods = [pod(f"p{number}", requests={"cpu": "4"}, **members) for number in range(40)]
    made = scene(large, slices, template(), wanted=[group, *pods])
    outcome = play(made, Options())
    search = suggest(made, outcome, Options(), Budget(), lambda: 0.0)
    texts = [each.change.text for each in search.suggestions]
    assert "add 1 machine like node large" in texts
    assert "start 20 instead of 40 pods in group default/g" in texts
    assert search.tried < 60


def test_the_smallest_amount_that_helps_is_found():
    made = scene(*node("a", 1, cpu="64"), template("two", 2), wanted=[pod(f"p{number}", "two") for number in range(11)])
    assert "add 11 machines like node a" not in found(made)
    made = scene(*node("a", 2, cpu="64"), template("two", 2), wanted=[pod(f"p{number}", "two") for number in range(11)])
    assert "add 10 machines like node a" in found(made)


def test_a_search_that_ends_too_early_says_that_amounts_may_not_be_the_smallest(monkeypatch):
    monkeypatch.setattr(tries, "workers", lambda: 0)
    made = scene(*node("a", 2, cpu="64"), template("two", 2), wanted=[pod(f"p{number}", "two") for number in range(6)])
    outcome, seen = play(made, Options()), set()
    for seconds in range(2, 40, 2):
        search = suggest(made, outcome, Options(), Budget(seconds=seconds), count(0, 0.5).__next__)
        machines = {each.change.text for each in search.suggestions if each.change.kind == "AddMachines"}
        seen.add((search.smallest, *machines))
        assert not (machines and search.smallest) or machines == {"add 5 machines like node a"}
    assert {(False, "add 5 machines like node a"), (True, "add 5 machines like node a")} <= seen


def test_fewer_devices_of_an_extended_resource():
    extended = gpus.device_class("ext", "gpu", extendedResourceName="example.com/gpu")
    wanted = objects.pod("p", requests={"example.com/gpu": "4"}, limits={"example.com/gpu": "4"})
    assert "request 3 instead of 4 example.com/gpu" in found(scene(extended, *node("a", 3), wanted=[wanted]))


def test_a_smaller_share_of_a_device():
    share = {"allowMultipleAllocations": True, "capacity": {"memory": {"value": "40Gi"}}}
    asked = template(capacity={"requests": {"memory": "48Gi"}})
    made = scene(objects.node("a"), gpus.slice_of("a", 1, **share), asked, wanted=[pod("p")])
    assert "request 40Gi instead of 48Gi memory in template default/one" in found(made)


def test_a_pod_that_holds_cpu_and_no_device():
    hog = running("hog", "a", cpu="8", owner="")
    holder = running("holder", "b", "gpu-0")
    made = scene(*node("a", 1), *node("b", 1, cpu="4"), template(), *hog, *holder, wanted=[pod("p", cpu="8")])
    assert "end pod default/hog on node a" in found(made)


def test_the_queue_with_the_most_similar_name_is_tried_first():
    queues = [flavor()]
    for name in ("blue", "red"):
        queues += [cluster_queue(name, ("any", {GPU: nominal("4")})), local_queue(name, name)]
    made = scene(*node("a", 4), template(), *queues, wanted=[in_queue(pod("p"), "redd")])
    assert "use queue red instead of redd" in found(made)


def test_quota_of_the_flavor_that_the_pods_need_and_of_memory():
    amounts = {GPU: nominal("0"), "memory": nominal("1Gi")}
    queues = [flavor("fx", zone="x"), flavor("fy", zone="y"), local_queue("team", "team")]
    queues.append(cluster_queue("team", ("fx", amounts), ("fy", {**amounts, GPU: nominal("4")})))
    members = {"nodeSelector": {"zone": "x"}}
    made = scene(*node("a", 4, labels={"zone": "x"}), template(), *queues, wanted=[in_queue(pod("p", **members))])
    assert f"raise quota of flavor fx in queue team by 1 {GPU}" in found(made)
    large = [in_queue(pod("p", requests={"memory": "3Gi"}, nodeSelector={"zone": "y"}))]
    made = scene(*node("a", 4, labels={"zone": "y"}, memory="16Gi"), template(), *queues, wanted=large)
    assert "raise quota of flavor fy in queue team by 2Gi memory" in found(made)


def test_a_smaller_group_of_kueue():
    queues = [flavor(), cluster_queue("team", ("any", {GPU: nominal("2")})), local_queue("team", "team")]
    members = []
    for number in range(3):
        made = in_queue(pod(f"p{number}"))
        made["metadata"]["labels"]["kueue.x-k8s.io/pod-group-name"] = "g"
        made["metadata"]["annotations"] = {"kueue.x-k8s.io/pod-group-total-count": "3"}
        members.append(made)
    assert "start 2 instead of 3 pods in group default/g" in found(
        scene(*node("a", 4), template(), *queues, wanted=members)
    )
