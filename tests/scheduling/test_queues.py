"""Pods in queues with quota: no queue takes more than it may, and what others lend comes back."""

import pytest

from dray.scheduling.quota.kueue.policy import KueueQueues
from dray.scheduling.quota.kueue.status import QueueStatuses
from dray.scheduling.quota.quota_tree import Asset, Quota, QuotaTree
from dray.testing import objects
from tests import gpus
from tests.scheduling.core import Core, bound, pod, refused, refused_groups, victims
from tests.scheduling.test_group_attempts import gang, member
from tests.scheduling.test_group_trees import composite
from tests.scheduling.test_volumes import NAMED, volume_claim

QUEUE = "kueue.x-k8s.io/queue-name"
GPU = "deviceclass.resource.kubernetes.io/gpu"
A = Asset("any", "gpu")


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


def cohort(name, *flavors, annotations=None, **spec):
    groups = cluster_queue(name, *flavors)["spec"]["resourceGroups"] if flavors else []
    metadata = {"name": name, "annotations": annotations or {}}
    return {"kind": "Cohort", "metadata": metadata, "spec": {"resourceGroups": groups, **spec}}


def local_queue(name, cluster):
    metadata = {"name": name, "namespace": "default"}
    return {"kind": "LocalQueue", "metadata": metadata, "spec": {"clusterQueue": cluster}}


def nominal(number, **limits):
    return {"nominalQuota": number, **limits}


def in_queue(made, queue="team"):
    return {**made, "metadata": {**made["metadata"], "labels": {QUEUE: queue}}}


def queued(name, queue="team", **more):
    return in_queue(pod(name, **more), queue)


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
    assert "quota of ClusterQueue team is used up: needs 1 gpu, 0 left, borrowing included" in refused(actions)["c"]
    core.remove_with_claims("a")
    assert sorted(bound(core.settle())) == ["c"]


def test_quota_that_a_pod_was_woken_for_is_the_next_ones_when_that_one_goes():
    core = world(number=1)
    training(core, "running", "first", "second", "third", "fourth")
    core.settle()
    core.remove_with_claims("running")
    core.remove("Pod", "first")
    core.remove("ResourceClaim", "c-second")
    assert sorted(bound(core.settle())) == ["third"]


def test_quota_that_a_pod_was_woken_for_is_the_next_ones_when_that_one_cannot_use_it():
    core = world(number=1)
    core.state.volumes.known = True
    core.scheduler.put("PersistentVolumeClaim", volume_claim(), core.now)
    training(core, "running")
    training(core, "first", volumes=[NAMED])
    training(core, "second")
    core.settle()
    core.scheduler.remove("PersistentVolumeClaim", volume_claim(), core.now)
    core.remove_with_claims("running")
    assert sorted(bound(core.settle())) == ["second"]


def test_quota_that_a_pod_was_woken_for_is_the_next_ones_when_that_one_needs_none_of_it():
    """The second pod has the claim of the first one, which is charged by then."""
    core = world(number=2)
    training(core, "running", "another")
    core.put(objects.claim("shared"), *(queued(name, claims=["shared"]) for name in ("first", "second")))
    training(core, "third")
    core.settle()
    core.remove_with_claims("running")
    core.remove_with_claims("another")
    assert sorted(bound(core.settle())) == ["first", "second", "third"]


@pytest.mark.parametrize(
    "change",
    [
        lambda pod: in_queue(pod, "other"),
        lambda pod: {**pod, "spec": {**pod["spec"], "schedulingGroup": {"podGroupName": "made-later"}}},
        lambda pod: {**pod, "spec": {**pod["spec"], "schedulingGroup": {"podGroupName": "large"}}},
    ],
    ids=["another queue", "a group that does not exist", "a group that lacks quota"],
)
def test_quota_that_a_pod_was_woken_for_is_the_next_ones_when_that_one_asks_elsewhere(change):
    core = world(number=1)
    core.put(local_queue("other", "other"), cluster_queue("other", ("any", {GPU: nominal(0)})))
    core.put(gang("large", 2), objects.claim("c-large"))
    core.put(in_queue(member("large", of="large", claims=["c-large"])))
    training(core, "running", "first", "second")
    core.settle()
    core.remove_with_claims("running")
    core.put(pod("urgent", value=10))
    # The first pod is woken at the same time, and changes before it is tried.
    action = core.scheduler.next(core.now)
    assert bound([action]) == {"urgent": "n"}
    core.put(change(core.get("Pod", "first")))
    core.do(action)
    assert bound(core.settle()) == {"second": "n"}


def test_pods_without_a_queue_are_not_counted():
    core = world(number=1)
    core.put(objects.claim("free"), pod("free", claims=["free"]))
    training(core, "a")
    assert sorted(bound(core.settle())) == ["a", "free"]


def strict(core, policy):
    core.put(cluster_queue("team", ("any", {"cpu": nominal(10)}), queueingStrategy=policy))
    core.put(queued("running", cpu="6"))
    core.settle()
    core.put(queued("head", cpu="6"), queued("second", cpu="2"))
    return core


def lacking_quota_and_place(**spec):
    """A queue has no GPU left, and its node no cpu: two pods of low priority have one each."""
    quotas = {GPU: nominal(1), "cpu": nominal(100)}
    core = Core(objects.node("n", cpu="4"), gpus.slice_of("n", 1), flavor(), local_queue("team", "team"))
    core.put(cluster_queue("team", ("any", quotas), **spec))
    core.put(queued("cpus", cpu="3"))
    training(core, "gpus")
    assert len(bound(core.settle())) == 2
    training(core, "high", value=10, cpu="3")
    return core


def test_a_pod_that_lacks_quota_may_evict_pods_that_have_only_its_place():
    """Quota of GPUs alone is no use. The pod with cpu has no quota of GPUs, but lower priority."""
    core = lacking_quota_and_place(preemption={"withinClusterQueue": "LowerPriority"})
    actions = core.settle()
    assert sorted(victims(actions)) == ["cpus", "gpus"]
    assert bound(actions) == {"high": "n"}


def test_pods_that_have_only_the_place_stay_where_the_queue_evicts_nobody():
    core = lacking_quota_and_place(preemption={"withinClusterQueue": "Never"})
    assert victims(core.settle()) == []


def test_quota_is_taken_back_when_there_is_a_place_at_last():
    core = Core(objects.node("n", cpu="4"), flavor(), local_queue("team", "team"), local_queue("other", "other"))
    reclaiming = {"reclaimWithinCohort": "Any"}
    core.put(cluster_queue("team", ("any", {"cpu": nominal(4)}), cohort="org", preemption=reclaiming))
    core.put(cluster_queue("other", ("any", {"cpu": nominal(0)}), cohort="org"))
    core.put(queued("borrower", "other", cpu="2"), pod("plain", cpu="2", value=1000))
    assert len(bound(core.settle())) == 2
    core.put(queued("owner", cpu="4"))
    assert victims(core.settle()) == []
    core.remove("Pod", "plain")
    actions = core.settle()
    assert victims(actions) == ["borrower"]
    assert bound(actions) == {"owner": "n"}


def without_a_place():
    """Others have most of a node, and a queue has quota left."""
    core = Core(objects.node("n", cpu="6"), flavor(), local_queue("team", "team"), local_queue("other", "other"))
    reclaiming = {"reclaimWithinCohort": "Any"}
    core.put(cluster_queue("team", ("any", {"cpu": nominal(6)}), cohort="org", preemption=reclaiming))
    core.put(cluster_queue("other", ("any", {"cpu": nominal(0)}), cohort="org"))
    core.put(queued("b1", "other", cpu="2"), pod("plain", cpu="2", value=1000))
    assert len(bound(core.settle())) == 2
    return core


def test_who_finds_no_place_takes_quota_back_once_others_borrow_it():
    core = without_a_place()
    core.put(queued("owner", cpu="4"), queued("next", cpu="4"))
    assert bound(core.settle()) == {}
    core.put(queued("b2", "other", cpu="1"))
    actions = core.settle()
    assert sorted(victims(actions)) == ["b1", "b2"]
    assert bound(actions)["owner"] == "n"


def test_who_lacks_quota_takes_it_from_the_less_important_that_come_later():
    core = Core(objects.node("n", cpu="16"), flavor(), local_queue("team", "team"), local_queue("other", "other"))
    preemption = {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"}
    preemption["borrowWithinCohort"] = {"policy": "LowerPriority", "maxPriorityThreshold": -1}
    core.put(cluster_queue("team", ("any", {"cpu": nominal(2)}), cohort="org", preemption=preemption))
    core.put(cluster_queue("other", ("any", {"cpu": nominal(2)}), cohort="org"))
    core.put(gang("lent", 3, disruptionMode={"all": {}}))
    core.put(*(in_queue(member(f"lent-{n}", of="lent", cpu="1"), "other") for n in range(3)))
    assert len(bound(core.settle())) == 3
    # It wants more than is the queue's own, so that nobody of other queues has to go for it.
    core.put(queued("large", cpu="3", value=10))
    assert bound(core.settle()) == {}
    core.put(gang("pair", 2), *(in_queue(member(f"pair-{n}", of="pair", cpu="1", value=0)) for n in range(2)))
    actions = core.settle()
    assert sorted(victims(actions)) == ["lent-0", "lent-1", "lent-2", "pair-0", "pair-1"]
    assert "large" in bound(actions)


def test_one_of_many_kinds_that_find_no_place_takes_quota_back():
    core = without_a_place()
    core.put(*(queued(f"other-{number}", cpu=f"{2001 + number}m") for number in range(150)), queued("owner", cpu="4"))
    assert bound(core.settle()) == {}
    core.put(queued("b2", "other", cpu="1"))
    actions = core.settle()
    assert sorted(victims(actions)) == ["b1", "b2"]
    assert bound(actions)["owner"] == "n"


def test_a_gang_that_finds_no_place_takes_quota_back_once_others_borrow_it():
    core = without_a_place()
    core.put(gang("g", 2), *(in_queue(member(f"g-{number}", cpu="2")) for number in range(2)))
    assert bound(core.settle()) == {}
    core.put(queued("b2", "other", cpu="1"))
    actions = core.settle()
    assert sorted(victims(actions)) == ["b1", "b2"]
    assert bound(actions).keys() >= {"g-0", "g-1"}


def test_pods_of_a_namespace_that_a_queue_selects_from_now_on_are_let_in():
    core = world(number=2)
    selects = {"matchLabels": {"team": "yes"}}
    core.put(objects.namespace("default"), cluster_queue("team", ("any", {GPU: nominal(4)}), namespaceSelector=selects))
    training(core, "a")
    assert "does not select namespace default" in refused(core.settle())["a"]
    core.put(objects.namespace("default", labels={"team": "yes"}))
    assert bound(core.settle()) == {"a": "n"}


def test_a_gang_that_lost_a_pod_holds_up_nobody():
    core = world()
    core.put(cluster_queue("team", ("any", {"cpu": nominal(2)}), queueingStrategy="StrictFIFO"))
    core.put(
        gang("g", 2),
        *[{**member(f"g-{n}", cpu="3"), "metadata": {"name": f"g-{n}", "labels": {QUEUE: "team"}}} for n in range(2)],
    )
    core.put(queued("behind", cpu="1"))
    assert bound(core.settle()) == {}
    core.remove("Pod", "g-0")
    assert bound(core.settle()) == {"behind": "n"}


def two_borrowers():
    """One of two has to go for quota, and both for a place."""
    core = Core(objects.node("n", cpu="4"), flavor(), cohort("org", ("any", {"cpu": nominal(2)})))
    core.put(local_queue("team", "team"), local_queue("other", "other"))
    reclaiming = {"reclaimWithinCohort": "Any"}
    core.put(cluster_queue("team", ("any", {"cpu": nominal(3)}), cohort="org", preemption=reclaiming))
    core.put(cluster_queue("other", ("any", {"cpu": nominal(0)}), cohort="org"))
    core.put(queued("b1", "other", cpu="2"), queued("b2", "other", cpu="2"))
    assert len(bound(core.settle())) == 2
    return core


def test_those_go_that_leave_quota_and_a_place():
    core = two_borrowers()
    core.put(queued("owner", cpu="3"))
    actions = core.settle()
    assert victims(actions) == ["b1", "b2"]
    assert bound(actions) == {"owner": "n"}


def test_those_go_that_leave_quota_and_places_for_a_gang():
    core = two_borrowers()
    core.put(gang("g", 2))
    for number in range(2):
        made = member(f"g-{number}", cpu="1500m")
        core.put({**made, "metadata": {**made["metadata"], "labels": {QUEUE: "team"}}})
    actions = core.actions()
    assert victims(actions) == ["b1", "b2"]
    assert len(actions[0].preemption.places) == 2


def odd(labels=(), **more):
    made = queued("odd", "other", value=5, cpu="1", **more)
    made["metadata"]["labels"].update(labels)
    return made


def memory():
    return odd(containers=[{"name": "main", "image": "i", "resources": {"requests": {"memory": "1Gi"}}}])


@pytest.mark.parametrize(
    ("document", "queue", "selector"),
    [
        (odd(), {"stopPolicy": "Hold"}, {}),
        (odd(), {}, {"matchLabels": {"team": "a"}}),
        (memory(), {}, {}),
        (odd({"kueue.x-k8s.io/priority-class": "unknown"}), {}, {}),
        (odd({"kai.scheduler/queue": "unknown"}), {}, {}),
    ],
    ids=["stopped", "namespace", "uncovered", "priority", "two systems"],
)
def test_who_cannot_be_let_in_whatever_is_free_holds_up_nobody(document, queue, selector):
    core = world()
    core.put(cluster_queue("team", ("any", {"cpu": nominal(2)}), queueingStrategy="StrictFIFO"))
    core.put(local_queue("other", "team"), {"kind": "Queue", "metadata": {"name": "q"}, "spec": {}})
    core.put(queued("running", cpu="2"))
    core.settle()
    core.change("LocalQueue", "other", spec=queue)
    if selector:
        core.change("ClusterQueue", "team", spec={"namespaceSelector": selector})
        core.put({"kind": "Namespace", "metadata": {"name": "default", "labels": {"team": "a"}}})
        document = {**document, "metadata": {**document["metadata"], "namespace": "elsewhere"}}
        core.put({**local_queue("other", "team"), "metadata": {"name": "other", "namespace": "elsewhere"}})
    core.put(document, queued("behind", cpu="1"))
    core.settle()
    core.remove("Pod", "running")
    assert bound(core.settle()) == {"behind": "n"}
    if queue:
        core.put(queued("behind it", cpu="1"), queued("last", cpu="1"))
        core.remove("Pod", "behind")
        core.put(local_queue("other", "team"))
        assert sorted(bound(core.settle())) == ["behind it", "odd"]


def test_those_that_are_held_up_are_not_tried_without_end(monkeypatch):
    core = strict(world(), "StrictFIFO")
    core.put(queued("third", cpu="2"), queued("fourth", cpu="2"))
    assert bound(core.settle()) == {}
    attempts = []
    attempt = core.scheduler.attempts.attempt
    monkeypatch.setattr(core.scheduler.attempts, "attempt", lambda *args: attempts.append(args[0]) or attempt(*args))
    core.change("Pod", "third", metadata={"labels": {QUEUE: "team", "more": "of it"}})
    core.remove("Pod", "second")
    core.settle()
    assert len(attempts) < 20


def test_what_one_queue_does_not_use_another_borrows():
    core = world(number=2, cohort="org")
    other = cluster_queue("other", ("any", {GPU: nominal(3, lendingLimit=1)}), cohort="org")
    core.put(other, local_queue("other", "other"))
    training(core, "a", "b", "c", "d")
    assert sorted(bound(core.settle())) == ["a", "b", "c"]


def test_a_gang_is_admitted_as_a_whole():
    core = world(number=3)
    core.put(gang("g", 4))
    for n in range(4):
        made = member(f"g-{n}", claims=[f"c{n}"])
        made["metadata"]["labels"] = {QUEUE: "team"}
        core.put(objects.claim(f"c{n}"), made)
    actions = core.settle()
    assert bound(actions) == {}
    assert "ClusterQueue team has 3 gpu at most, borrowing included, and 4 are needed" in refused_groups(actions)["g"]
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
    assert core.state.queues.system(KueueQueues).tree.used("team", Asset("any", GPU)) == 2


def test_what_is_known_after_a_restart_is_the_same():
    core = world(number=2)
    training(core, "a", "b")
    core.settle()
    later = Core()
    for kind in ("Pod", "Node", "ResourceSlice", "ResourceClaim", "LocalQueue", "ClusterQueue", "ResourceFlavor"):
        later.put(*[each for (known, _), each in core.objects.items() if known == kind])
    training(later, "c")
    assert bound(later.settle()) == {}
    assert later.state.queues.system(KueueQueues).tree.used("team", Asset("any", GPU)) == 2


def test_a_pod_says_what_is_wrong_with_its_queue():
    core = world()
    core.put(queued("lost", queue="none"), queued("cpu", cpu="1"))
    messages = refused(core.settle())
    assert "LocalQueue default/none not found; there are: team" in messages["lost"]
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
    assert core.state.queues.system(KueueQueues).tree.used("b", Asset("any", GPU)) == 4


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


def test_reserved_quota_is_free_once_in_views_of_the_same_pod():
    core = two_teams(reclaimWithinCohort="Any")
    training(core, *(f"b{n}" for n in range(8)), queue="b")
    core.settle()
    training(core, "a0", queue="a")
    assert len(victims(core.later())) == 1
    tree, asset = core.state.queues.system(KueueQueues).tree, Asset("any", GPU)
    (waiting,) = (queued.pod for queued in core.scheduler.queue.all())
    assert tree.used("a", asset) == 1
    with core.scheduler.nominations.seen_by(waiting):
        assert tree.used("a", asset) == 0
        with core.scheduler.nominations.seen_by(waiting):
            assert tree.used("a", asset) == 0
        assert tree.used("a", asset) == 0
    assert tree.used("a", asset) == 1


def test_while_those_go_from_whom_quota_is_reclaimed_nobody_tries_without_end(monkeypatch):
    core = two_teams(reclaimWithinCohort="Any")
    training(core, *(f"b{n}" for n in range(9)), queue="b")
    core.settle()
    training(core, "a0", queue="a")
    assert victims(core.later())
    attempts = []
    attempt = core.scheduler.attempts.attempt
    monkeypatch.setattr(core.scheduler.attempts, "attempt", lambda *args: attempts.append(args[0]) or attempt(*args))
    core.change("Node", "n", metadata={"labels": {"a": "b"}})
    core.later(20)
    assert len(attempts) < 20


def test_pods_that_quota_is_kept_for_are_tried_when_all_are_gone_that_have_it():
    core = two_teams(reclaimWithinCohort="Any")
    training(core, *(f"b{n}" for n in range(8)), queue="b")
    core.settle()
    waiting = [f"a{n}" for n in range(3)]
    training(core, *waiting, queue="a")
    leaving = victims(core.later())
    assert len(leaving) == 3
    tried = [core.scheduler.queue.get(core.get("Pod", name)["metadata"]["uid"]) for name in waiting]
    before = [each.attempts for each in tried]
    for name in leaving[:-1]:
        core.remove_with_claims(name)
        assert bound(core.later()) == {}
    assert [each.attempts for each in tried] == before
    core.remove_with_claims(leaving[-1])
    assert sorted(bound(core.later())) == waiting
    assert [each.attempts - 1 for each in tried] == before


def test_a_pod_that_quota_is_kept_for_has_what_others_give_back_of_themselves():
    core = two_teams(reclaimWithinCohort="Any")
    training(core, *(f"b{n}" for n in range(8)), queue="b")
    core.settle()
    training(core, "a0", queue="a")
    (leaving,) = victims(core.later())
    core.remove_with_claims(next(f"b{n}" for n in range(8) if f"b{n}" != leaving))
    assert list(bound(core.later())) == ["a0"]


def test_who_counts_on_others_to_go_does_so_no_longer_when_they_could_not_be_asked():
    core = two_teams(withinClusterQueue="LowerPriority")
    training(core, *(f"a{n}" for n in range(8)), queue="a")
    core.settle()
    training(core, "urgent", queue="a", value=5)
    (asked,) = [each for each in core.later() if each.preemption is not None]
    core.put(objects.claim("c"), pod("higher", claims=["c"], value=10))
    # The one that goes for the sake of the other makes room for it as well.
    assert victims(core.later()) == []
    core.remove("Pod", "urgent")
    assert victims(core.later()) == []
    core.scheduler.refusal_failed(asked, core.now)
    assert "higher" in bound(core.settle())


def pair(name):
    return objects.claim(name, objects.request(count=2))


def full_node():
    """Two GPUs that somebody without a queue has; two of the three that the queues may have are a's."""
    core = Core(objects.node("n", cpu="64"), gpus.slice_of("n", 2), flavor(), pair("taken"))
    for name, number in (("a", 2), ("b", 1)):
        preemption = {"reclaimWithinCohort": "Any"}
        core.put(cluster_queue(name, ("any", {GPU: nominal(number)}), cohort="org", preemption=preemption))
        core.put(local_queue(name, name), pair(f"of-{name}"))
    core.put(pod("first", claims=["taken"], value=3))
    core.settle()
    return core


def test_quota_is_kept_for_those_that_others_make_room_for():
    core = full_node()
    core.put(queued("urgent", "b", claims=["of-b"], value=5))
    (asked,) = core.later()
    assert victims([asked]) == ["first"]
    core.put(queued("mine", "a", claims=["of-a"]))
    assert "1 left" in refused(core.later())["mine"]
    core.do(asked)
    # Once it has its place, that is taken back.
    actions = core.settle()
    assert list(bound(actions)) == ["urgent", "mine"]
    assert victims(actions) == ["urgent"]


@pytest.mark.parametrize("together", [False, True])
def test_who_is_being_bound_is_asked_to_go_once_it_is_bound(together):
    core = two_teams(withinClusterQueue="LowerPriority")
    training(core, *(f"a{n}" for n in range(8)), queue="a")
    binds = core.later()
    for each in binds:
        core.write(each)
    if together:
        put_gang(core, "urgent", 2, "a", value=5)
    else:
        training(core, "urgent", queue="a", value=5)
    assert victims(core.later()) == []
    for each in binds:
        core.bind(each)
    assert len(victims(core.settle())) == (2 if together else 1)


def put_gang(core, name, number, queue, minimum=None, **more):
    core.put(gang(name, minimum or number))
    for n in range(number):
        made = member(f"{name}-{n}", of=name, claims=[f"{name}-c{n}"], **more)
        made["metadata"]["labels"] = {QUEUE: queue}
        core.put(objects.claim(f"{name}-c{n}"), made)


def test_a_gang_goes_as_a_whole():
    core = two_teams(reclaimWithinCohort="Any")
    training(core, *(f"b{n}" for n in range(4)), queue="b", value=5)
    core.settle()
    put_gang(core, "g", 4, "b")
    assert len(bound(core.settle())) == 4
    training(core, "a0", queue="a")
    assert len(victims(core.later())) == 4


def test_use_beyond_all_bounds_that_was_written_down_is_read_as_much():
    core = Core(objects.node("n", cpu="8"), flavor())
    mode = {"admissionMode": "UsageBasedAdmissionFairSharing"}
    core.put(cluster_queue("team", ("any", {"cpu": nominal(5)}), admissionScope=mode))
    past = {"consumedResources": {"cpu": "1e400", "memory": "-7"}, "lastUpdate": "9999-01-01T00:00:00Z"}
    core.put({**local_queue("team", "team"), "status": {"fairSharing": {"admissionFairSharingStatus": past}}})
    core.put(queued("a", cpu="1"))
    assert bound(core.settle()) == {"a": "n"}
    queues = core.state.queues.system(KueueQueues)
    queues.order.sample(core.now)
    queues.order.sample(core.now + 3600)
    found = QueueStatuses(queues, core.now).of_local_queue(("default", "team"), core.get("LocalQueue", "team"))
    written = found["fairSharing"]["admissionFairSharingStatus"]
    assert written["lastUpdate"] < "2000"
    assert int(written["consumedResources"]["cpu"].rstrip("mk")) > 0


ODD_TAINTS = [{"key": ["x"], "effect": "NoSchedule"}, {"key": {}, "value": [1], "effect": "NoSchedule"}, {}]
ODD_SELECTOR = {"matchLabels": [], "matchExpressions": [7, {"key": "x", "operator": "NotIn", "values": 7}]}


def test_odd_taints_of_a_flavor_and_an_odd_selector_keep_nobody_from_being_tried():
    core = Core(objects.node("n", cpu="64"), flavor(), local_queue("team", "team"), local_queue("other", "other"))
    core.put({**flavor("odd"), "spec": {"nodeTaints": ODD_TAINTS, "tolerations": [{"key": []}]}})
    core.put(cluster_queue("team", ("odd", {"cpu": nominal(9)}), cohort="org", namespaceSelector=ODD_SELECTOR))
    core.put(cluster_queue("other", ("any", {"cpu": nominal(9)}), cohort="org"))
    core.put(queued("x", cpu="1"), queued("y", "other", cpu="1"), pod("z", cpu="1"))
    actions = core.settle()
    assert sorted(bound(actions)) == ["y", "z"]
    assert "no flavor" in refused(actions)["x"] or "taint" in refused(actions)["x"]


def test_a_queue_that_says_odd_things_lets_nobody_in_and_harms_no_other():
    core = world(number=1)
    core.put({"kind": "ClusterQueue", "metadata": {"name": "odd"}, "spec": {"resourceGroups": "all", "cohortName": 7}})
    core.put({"kind": "Cohort", "metadata": {"name": "odd"}, "spec": {"resourceGroups": {}, "parentName": []}})
    core.put(local_queue("odd", "odd"), queued("p", queue="odd"))
    training(core, "a")
    assert list(bound(core.settle())) == ["a"]


def test_a_gang_takes_back_for_all_its_pods_at_once():
    core = two_teams(reclaimWithinCohort="Any")
    training(core, *(f"b{n}" for n in range(8)), queue="b")
    core.settle()
    put_gang(core, "g", 3, "a")
    actions = core.settle()
    assert sorted(bound(actions)) == ["g-0", "g-1", "g-2"]
    assert len(victims(actions)) == 3


def test_a_gang_that_is_entitled_to_less_takes_nothing():
    core = two_teams(reclaimWithinCohort="Any")
    training(core, *(f"b{n}" for n in range(8)), queue="b")
    core.settle()
    put_gang(core, "g", 5, "a")
    actions = core.settle()
    assert bound(actions) == {}
    assert victims(actions) == []
    assert "needs 5 gpu, 0 left" in refused_groups(actions)["g"]


def test_a_gang_is_reclaimed_from_as_a_whole_for_another():
    core = two_teams(reclaimWithinCohort="Any")
    put_gang(core, "long", 8, "b")
    assert len(bound(core.settle())) == 8
    put_gang(core, "g", 2, "a")
    actions = core.settle()
    assert len(victims(actions)) == 8
    assert sorted(bound(actions)) == ["g-0", "g-1"]


def test_as_many_of_a_gang_as_must_start_take_back():
    core = two_teams(reclaimWithinCohort="Any")
    training(core, *(f"b{n}" for n in range(8)), queue="b")
    core.settle()
    put_gang(core, "g", 6, "a", minimum=2)
    actions = core.settle()
    assert len(victims(actions)) == 4
    assert len(bound(actions)) == 4


def test_nobody_goes_for_a_pod_that_finds_no_place_even_then():
    core = two_teams(reclaimWithinCohort="Any")
    training(core, *(f"b{n}" for n in range(8)), queue="b")
    core.settle()
    core.put(objects.claim("c-a"), queued("a", queue="a", claims=["c-a"], nodeSelector={"kind": "other"}))
    assert victims(core.settle()) == []


def test_the_pod_goes_that_has_what_the_other_can_use():
    core = two_teams(reclaimWithinCohort="Any")
    core.put(objects.node("m", cpu="64", labels={"kind": "other"}), gpus.slice_of("m", 1))
    core.put(cluster_queue("b", ("any", {GPU: nominal(5)}), cohort="org"))
    core.put(objects.claim("c-first"), queued("first", queue="b", claims=["c-first"], nodeSelector={"kind": "other"}))
    core.settle()
    training(core, *(f"b{n}" for n in range(8)), queue="b")
    core.settle()
    core.put(objects.claim("c-a"), queued("a", queue="a", claims=["c-a"], nodeSelector={"kind": "other"}))
    actions = core.settle()
    assert victims(actions) == ["first"]
    assert list(bound(actions)) == ["a"]


def test_a_tree_of_groups_goes_and_comes_as_a_whole():
    core = two_teams(reclaimWithinCohort="Any")
    core.put(composite("root", 2))
    for name in ("left", "right"):
        core.put(objects.pod_group(name, minCount=3, uid=f"uid-{name}", parentCompositePodGroupName="root"))
        for n in range(3):
            made = member(f"{name}-{n}", of=name, claims=[f"{name}-c{n}"])
            made["metadata"]["labels"] = {QUEUE: "b"}
            core.put(objects.claim(f"{name}-c{n}"), made)
    assert len(bound(core.settle())) == 6
    training(core, *(f"a{n}" for n in range(4)), queue="a")
    actions = core.settle()
    assert len(victims(actions)) == 6
    assert len(bound(actions)) == 4


def test_of_pods_that_differ_the_cheapest_take_back_as_many_as_must_start():
    core = two_teams(reclaimWithinCohort="Any")
    training(core, *(f"b{n}" for n in range(8)), queue="b")
    core.settle()
    core.put(gang("g", 2))
    for n, count in enumerate((4, 1, 2)):
        made = member(f"g-{n}", of="g", claims=[f"g-c{n}"])
        made["metadata"]["labels"] = {QUEUE: "a"}
        core.put(objects.claim(f"g-c{n}", objects.request(count=count)), made)
    actions = core.settle()
    assert sorted(bound(actions)) == ["g-1", "g-2"]
    assert len(victims(actions)) == 3


@pytest.mark.parametrize("group", ["", "gang"])
def test_a_pod_whose_labels_change_while_it_is_evicted_is_the_only_one_to_go(group):
    core = Core(objects.node("n1", cpu="1"), objects.node("n2", cpu="1"), flavor(), local_queue("team", "team"))
    core.put(cluster_queue("team", ("any", {"cpu": nominal(2)}), preemption={"withinClusterQueue": "LowerPriority"}))
    for name in ("a", "b"):
        core.put(gang(name, 1), in_queue(member(name, of=name, cpu="1")) if group else queued(name, cpu="1"))
    assert len(bound(core.settle())) == 2
    core.put(queued("urgent", cpu="1", value=10))
    actions = core.later()
    (victim,) = victims(actions)
    (other,) = {"a", "b"} - {victim}
    for name in (victim, other, victim):
        known = core.get("Pod", name)["metadata"]
        core.change("Pod", name, metadata={"labels": {**known["labels"], "changed": str(core.now)}})
        assert victims(core.later()) == []
    for action in actions:
        core.do(action)
    assert list(bound(core.settle())) == ["urgent"]
