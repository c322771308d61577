"""Pods in queues with quota: no queue takes more than it may, and what others lend comes back."""

from dray.scheduling.quota_tree import Asset, Quota, QuotaTree
from dray.testing import objects
from tests import gpus
from tests.scheduling.core import Core, bound, pod, refused, refused_groups, victims
from tests.scheduling.test_group_attempts import gang, member

QUEUE = "kueue.x-k8s.io/queue-name"
GPU = "deviceclass.resource.kubernetes.io/gpu"
A = Asset("any", "gpu")


def test_t6_what_is_available_in_a_cohort():
    tree = QuotaTree()
    tree.put_queue("a", {A: Quota(10, lending=4)}, "org")
    tree.put_queue("b", {A: Quota(6, borrowing=3)}, "org")
    tree.charge("b", {A: 6}, 1)
    assert (tree.available("b", A), tree.available("a", A)) == (3, 10)
    tree.charge("b", {A: 3}, 1)
    assert (tree.available("b", A), tree.available("a", A)) == (0, 7)
    assert (tree.most("a", A), tree.most("b", A)) == (16, 9)


def test_cohorts_above_cohorts_lend_their_own():
    tree = QuotaTree()
    tree.put_queue("a", {}, "team")
    tree.put_cohort("team", {}, "org")
    tree.put_cohort("org", {A: Quota(5)}, "")
    assert tree.available("a", A) == 5
    tree.charge("a", {A: 2}, 1)
    assert tree.available("a", A) == 3
    assert tree.root("a") == "org"
    tree.put_cohort("org", {}, "team")
    assert tree.has_cycle("a")


def flavor(name="any", **labels):
    return {"kind": "ResourceFlavor", "metadata": {"name": name}, "spec": {"nodeLabels": labels}}


def cluster_queue(name, *flavors, cohort="", **spec):
    """`flavors` are names with quotas by resource."""
    covered = list(flavors[0][1])
    listed = [
        {"name": each, "resources": [{"name": resource, **quota} for resource, quota in quotas.items()]}
        for each, quotas in flavors
    ]
    groups = [{"coveredResources": covered, "flavors": listed}]
    spec = {"resourceGroups": groups, "namespaceSelector": {}, "cohortName": cohort, **spec}
    return {"kind": "ClusterQueue", "metadata": {"name": name}, "spec": spec}


def local_queue(name, cluster):
    metadata = {"name": name, "namespace": "default"}
    return {"kind": "LocalQueue", "metadata": metadata, "spec": {"clusterQueue": cluster}}


def nominal(number, **limits):
    return {"nominalQuota": number, **limits}


def queued(name, queue="team", **more):
    made = pod(name, **more)
    return {**made, "metadata": {**made["metadata"], "labels": {QUEUE: queue}}}


def world(*more, gpu_count=8, number=4, **spec):
    """One node, and a queue that may have some of its GPUs."""
    core = Core(objects.node("n", cpu="64"), gpus.slice_of("n", gpu_count), flavor(), local_queue("team", "team"))
    core.put(cluster_queue("team", ("any", {GPU: nominal(number)}), **spec), *more)
    return core


def training(core, *names, **more):
    for name in names:
        core.put(objects.claim(f"c-{name}"), queued(name, claims=[f"c-{name}"], **more))


def test_no_more_devices_than_the_queue_may_have():
    core = world(number=2)
    training(core, "a", "b", "c")
    actions = core.settle()
    assert sorted(bound(actions)) == ["a", "b"]
    assert f"ClusterQueue team: needs 1 of {GPU}, 0 left with what can be borrowed" in refused(actions)["c"]
    core.remove_with_claims("a")
    assert sorted(bound(core.settle())) == ["c"]


def test_pods_without_a_queue_are_not_counted():
    core = world(number=1)
    core.put(objects.claim("free"), pod("free", claims=["free"]))
    training(core, "a")
    assert sorted(bound(core.settle())) == ["a", "free"]


def test_t18_a_claim_that_five_pods_share_is_charged_once():
    core = world(objects.claim("shared"), number=1)
    for n in range(5):
        core.put(queued(f"p{n}", claims=["shared"]))
    assert len(bound(core.settle())) == 5
    assert core.state.queues.tree.used("team", Asset("any", GPU)) == 1


def test_t19_a_claim_for_all_devices_there_will_ever_be_changes_nothing_for_others():
    core = world(number=2)
    core.put(objects.claim("huge", objects.request(count=2**63 - 1)), queued("huge", claims=["huge"]))
    training(core, "a", "b")
    assert sorted(bound(core.settle())) == ["a", "b"]


def strict(core, policy):
    core.put(cluster_queue("team", ("any", {"cpu": nominal(10)}), queueingStrategy=policy))
    core.put(queued("running", cpu="6"))
    core.settle()
    core.put(queued("head", cpu="6"), queued("second", cpu="2"))
    return core


def test_t9_the_first_of_a_strict_queue_holds_up_the_second():
    core = strict(world(), "StrictFIFO")
    assert bound(core.settle()) == {}
    core.remove_with_claims("running")
    assert list(bound(core.settle())) == ["head", "second"]


def test_t9_otherwise_the_second_runs():
    assert list(bound(strict(world(), "BestEffortFIFO").settle())) == ["second"]


def test_what_one_queue_does_not_use_another_borrows():
    core = world(number=2, cohort="org")
    other = cluster_queue("other", ("any", {GPU: nominal(3, lendingLimit=1)}), cohort="org")
    core.put(other, local_queue("other", "other"))
    training(core, "a", "b", "c", "d")
    assert sorted(bound(core.settle())) == ["a", "b", "c"]


def test_flavors_are_nodes():
    core = world()
    core.put(objects.node("m", labels={"kind": "new"}), gpus.slice_of("m", 4), flavor("new", kind="new"))
    core.put(cluster_queue("team", ("new", {GPU: nominal(1)}), ("any", {GPU: nominal(2)})))
    training(core, "a", "b", "c", "d")
    places = sorted(bound(core.settle()).values())
    assert places == ["m", "n", "n"]


def test_a_gang_is_admitted_as_a_whole():
    core = world(number=3)
    core.put(gang("g", 4))
    for n in range(4):
        made = member(f"g-{n}", claims=[f"c{n}"])
        made["metadata"]["labels"] = {QUEUE: "team"}
        core.put(objects.claim(f"c{n}"), made)
    actions = core.settle()
    assert bound(actions) == {}
    assert "there is a place for 3" in refused_groups(actions)["g"]
    assert "ClusterQueue team" in refused_groups(actions)["g"]
    core.put(cluster_queue("team", ("any", {GPU: nominal(4)})))
    assert len(bound(core.settle())) == 4


def test_which_alternative_it_was_is_charged():
    core = world(gpus.device_class("big"), number=4)
    core.put(cluster_queue("team", ("any", {GPU: nominal(4)})))
    either = objects.first_available(
        "gpu",
        objects.subrequest("two", deviceClassName="gpu", count=2),
        objects.subrequest("one", deviceClassName="gpu"),
    )
    core.put(objects.claim("c", either), queued("p", claims=["c"]))
    core.settle()
    assert core.state.queues.tree.used("team", Asset("any", GPU)) == 2


def test_what_is_known_after_a_restart_is_the_same():
    core = world(number=2)
    training(core, "a", "b")
    core.settle()
    later = Core()
    for kind in ("Pod", "Node", "ResourceSlice", "ResourceClaim", "LocalQueue", "ClusterQueue", "ResourceFlavor"):
        later.put(*[each for (known, _), each in core.objects.items() if known == kind])
    training(later, "c")
    assert bound(later.settle()) == {}
    assert later.state.queues.tree.used("team", Asset("any", GPU)) == 2


def test_a_pod_says_what_is_wrong_with_its_queue():
    core = world()
    core.put(queued("lost", queue="none"), queued("cpu", cpu="1"))
    messages = refused(core.settle())
    assert "LocalQueue default/none does not exist" in messages["lost"]
    assert "has no quota for cpu" in messages["cpu"]
    core.put(local_queue("none", "team"))
    assert list(bound(core.settle())) == ["lost"]
    core.put(cluster_queue("team", ("any", {GPU: nominal(4)}), stopPolicy="Hold"), queued("late"))
    assert "queue team is stopped" in refused(core.settle())["late"]


def two_teams(**preemption):
    """Four GPUs each, of eight; b has them all."""
    core = Core(objects.node("n", cpu="64"), gpus.slice_of("n", 8), flavor())
    for name in ("a", "b"):
        core.put(cluster_queue(name, ("any", {GPU: nominal(4)}), cohort="org", preemption=preemption))
        core.put(local_queue(name, name))
    return core


def test_what_is_its_own_a_queue_takes_back_one_by_one():
    core = two_teams(reclaimWithinCohort="Any")
    training(core, *(f"b{n}" for n in range(8)), queue="b")
    core.settle()
    training(core, *(f"a{n}" for n in range(5)), queue="a")
    actions = core.settle()
    assert sorted(bound(actions)) == ["a0", "a1", "a2", "a3"]
    # The fifth is not its own.
    assert len(victims(actions)) == 4
    assert core.state.queues.tree.used("b", Asset("any", GPU)) == 4


def test_only_from_lower_priorities_where_it_says_so():
    core = two_teams(reclaimWithinCohort="LowerPriority")
    training(core, *(f"b{n}" for n in range(8)), queue="b", value=5)
    core.settle()
    training(core, "a0", queue="a", value=5)
    assert victims(core.settle()) == []
    training(core, "a1", queue="a", value=6)
    assert len(victims(core.settle())) == 1


def test_within_a_queue_the_less_important_make_room():
    core = two_teams(withinClusterQueue="LowerPriority")
    training(core, *(f"a{n}" for n in range(8)), queue="a")
    core.settle()
    training(core, "urgent", queue="a", value=5)
    actions = core.settle()
    assert len(victims(actions)) == 1
    assert list(bound(actions)) == ["urgent"]


def test_nobody_takes_what_is_kept_for_the_one_that_reclaimed_it():
    core = two_teams(reclaimWithinCohort="Any")
    training(core, *(f"b{n}" for n in range(9)), queue="b")
    core.settle()
    training(core, "a0", queue="a")
    (name,) = victims(core.later())
    core.remove_with_claims(name)
    assert list(bound(core.settle())) == ["a0"]


def test_a_gang_goes_as_a_whole():
    core = two_teams(reclaimWithinCohort="Any")
    training(core, *(f"b{n}" for n in range(4)), queue="b", value=5)
    core.settle()
    core.put(gang("g", 4))
    for n in range(4):
        made = member(f"g-{n}", claims=[f"c{n}"])
        made["metadata"]["labels"] = {QUEUE: "b"}
        core.put(objects.claim(f"c{n}"), made)
    assert len(bound(core.settle())) == 4
    training(core, "a0", queue="a")
    assert len(victims(core.later())) == 4


def test_a_queue_that_says_odd_things_lets_nobody_in_and_harms_no_other():
    core = world(number=1)
    core.put({"kind": "ClusterQueue", "metadata": {"name": "odd"}, "spec": {"resourceGroups": "all", "cohortName": 7}})
    core.put({"kind": "Cohort", "metadata": {"name": "odd"}, "spec": {"resourceGroups": {}, "parentName": []}})
    core.put(local_queue("odd", "odd"), queued("p", queue="odd"))
    training(core, "a")
    assert list(bound(core.settle())) == ["a"]
