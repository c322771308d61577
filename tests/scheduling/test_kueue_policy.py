"""What Kueue's queues say beyond quota: shares, borrowing, priorities, flavors, use over time, capacity."""

from dray.scheduling.quota.kueue.policy import KueueQueues
from dray.scheduling.quota.quota_tree import Asset
from dray.testing import objects
from tests import gpus
from tests.scheduling.core import Core, bound, refused, victims
from tests.scheduling.test_queues import (
    GPU,
    cluster_queue,
    cohort,
    flavor,
    local_queue,
    nominal,
    queued,
    training,
    world,
)

PRIORITY = "kueue.x-k8s.io/priority-class"
ANY = {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"}


def teams(gpu_count=8, **quotas):
    """Queues of one cohort with their quota and what else their spec has."""
    core = Core(objects.node("n", cpu="64"), gpus.slice_of("n", gpu_count), flavor())
    for name, (number, spec) in quotas.items():
        core.put(cluster_queue(name, ("any", {GPU: nominal(number)}), cohort="org", **spec), local_queue(name, name))
    return core


def used(core, queue, resource=GPU, kind="any"):
    return core.state.queues.system(KueueQueues).tree.used(queue, Asset(kind, resource))


def names(letter, number):
    return [f"{letter}{n}" for n in range(number)]


# Shares


def test_those_with_the_smaller_share_go_first():
    fair = {"fairSharing": {"weight": "1"}}
    core = teams(6, a=(0, fair), b=(0, fair), spare=(6, fair))
    # All of a came before the first of b, and yet each gets half.
    training(core, *names("a", 6), queue="a")
    training(core, *names("b", 6), queue="b")
    assert len(bound(core.settle())) == 6
    assert (used(core, "a"), used(core, "b")) == (3, 3)


def test_shares_go_by_weight():
    core = teams(6, a=(0, {"fairSharing": {"weight": "2"}}), b=(0, {"fairSharing": {"weight": "1"}}), spare=(6, {}))
    training(core, *names("b", 6), queue="b")
    training(core, *names("a", 6), queue="a")
    core.settle()
    assert (used(core, "a"), used(core, "b")) == (4, 2)


def test_a_tournament_goes_down_the_cohorts():
    core = Core(objects.node("n", cpu="64"), gpus.slice_of("n", 8), flavor())
    core.put(cohort("org", ("any", {GPU: nominal(8)}), fairSharing={}))
    core.put(cohort("left", parentName="org"), cohort("right", parentName="org"))
    for name, above in (("a", "left"), ("b", "left"), ("c", "right")):
        core.put(cluster_queue(name, ("any", {GPU: nominal(0)}), cohort=above), local_queue(name, name))
    for name in "abc":
        training(core, *names(name, 8), queue=name)
    core.settle()
    assert (used(core, "a"), used(core, "b"), used(core, "c")) == (2, 2, 4)


def test_a_queue_within_its_own_loses_nothing_to_shares():
    fair = {"fairSharing": {}, "preemption": ANY}
    core = teams(8, a=(4, fair), b=(4, fair))
    training(core, *names("a", 4), queue="a")
    training(core, *names("b", 4), queue="b")
    core.settle()
    training(core, "more", queue="b")
    assert victims(core.settle()) == []


def test_without_shares_those_go_first_that_need_not_borrow():
    core = teams(4, a=(0, {}), b=(4, {}))
    training(core, *names("a", 4), queue="a")
    training(core, *names("b", 4), queue="b")
    assert sorted(bound(core.settle())) == names("b", 4)


# Whom it takes from


def test_while_it_borrows_only_the_less_important_of_other_borrowers_go():
    borrowing = {"reclaimWithinCohort": "LowerPriority", "borrowWithinCohort": {"policy": "LowerPriority"}}
    core = teams(4, a=(0, {"preemption": borrowing}), b=(0, {}), spare=(4, {}))
    training(core, *names("b", 4), queue="b")
    core.settle()
    training(core, "urgent", queue="a", value=5)
    actions = core.settle()
    assert len(victims(actions)) == 1
    assert list(bound(actions)) == ["urgent"]


def test_a_threshold_says_who_is_less_important():
    borrowing = {"policy": "LowerPriority", "maxPriorityThreshold": 2}
    policy = {"reclaimWithinCohort": "LowerPriority", "borrowWithinCohort": borrowing}
    core = teams(4, a=(0, {"preemption": policy}), b=(0, {}), spare=(4, {}))
    training(core, *names("b", 3), queue="b", value=3)
    training(core, "low", queue="b", value=2)
    core.settle()
    training(core, "one", "two", queue="a", value=5)
    actions = core.settle()
    assert victims(actions) == ["low"]
    assert len(bound(actions)) == 1


def test_below_its_own_it_takes_from_others_and_from_itself_rather_than_borrow():
    core = teams(8, a=(4, {"preemption": ANY}), b=(4, {}))
    training(core, *names("a", 3), queue="a")
    training(core, *names("b", 5), queue="b")
    core.settle()
    core.put(objects.claim("c-two", objects.request(count=2)), queued("two", queue="a", claims=["c-two"], value=5))
    actions = core.settle()
    assert sorted(name[0] for name in victims(actions)) == ["a", "b"]
    assert list(bound(actions)) == ["two"]
    assert (used(core, "a"), used(core, "b")) == (4, 4)


def test_below_its_own_it_takes_from_others_though_all_of_itself_has_to_go_too():
    core = teams(8, a=(4, {"preemption": ANY}), b=(4, {}))
    training(core, *names("a", 3), queue="a")
    training(core, *names("b", 5), queue="b")
    core.settle()
    core.put(objects.claim("c-four", objects.request(count=4)), queued("four", queue="a", claims=["c-four"], value=5))
    actions = core.settle()
    assert sorted(name[0] for name in victims(actions)) == ["a", "a", "a", "b"]
    assert list(bound(actions)) == ["four"]


def test_where_that_is_not_enough_its_own_go_and_it_borrows():
    # Nobody else borrows: what is beyond its own it can have only by what its own give up.
    core = teams(8, a=(2, {"preemption": {**ANY, "borrowWithinCohort": {"policy": "LowerPriority"}}}), b=(6, {}))
    training(core, *names("a", 4), queue="a")
    training(core, *names("b", 4), queue="b")
    core.settle()
    core.put(objects.claim("c-four", objects.request(count=4)), queued("four", queue="a", claims=["c-four"], value=5))
    actions = core.settle()
    assert victims(actions) == names("a", 4)
    assert list(bound(actions)) == ["four"]
    assert (used(core, "a"), used(core, "b")) == (4, 4)


def test_without_it_a_borrower_takes_from_nobody():
    core = teams(4, a=(0, {"preemption": {"reclaimWithinCohort": "Any"}}), b=(0, {}), spare=(4, {}))
    training(core, *names("b", 4), queue="b")
    core.settle()
    training(core, "urgent", queue="a", value=5)
    assert victims(core.settle()) == []


# Priorities of queues


def priority(name, value):
    return {"kind": "WorkloadPriorityClass", "metadata": {"name": name}, "value": value}


def labelled(core, name, chosen, queue="team"):
    made = queued(name, queue=queue, claims=[f"c-{name}"])
    made["metadata"]["labels"][PRIORITY] = chosen
    core.put(objects.claim(f"c-{name}"), made)


def test_a_priority_of_queues_decides_who_goes_first_and_who_has_to_go():
    core = world(
        priority("high", 100), priority("low", 1), number=1, preemption={"withinClusterQueue": "LowerPriority"}
    )
    labelled(core, "slow", "low")
    labelled(core, "fast", "high")
    actions = core.settle()
    assert list(bound(actions)) == ["fast"]
    assert victims(actions) == []
    core.put(priority("highest", 200))
    labelled(core, "urgent", "highest")
    actions = core.settle()
    assert victims(actions) == ["fast"]
    assert list(bound(actions)) == ["urgent"]


def test_a_priority_that_nobody_described_is_told():
    core = world()
    labelled(core, "p", "none")
    assert "WorkloadPriorityClass none not found" in refused(core.settle())["p"]


# Flavors


def two_flavors(spot=None, **spec):
    """A node of each: reserved first, then spot."""
    core = world(objects.node("m", labels={"kind": "spot"}, **(spot or {})), gpus.slice_of("m", 8))
    core.put(objects.node("n", cpu="64", labels={"kind": "reserved"}))
    core.put(flavor("reserved", kind="reserved"), flavor("spot", kind="spot"))
    core.put(cluster_queue("team", ("reserved", {GPU: nominal(2)}), ("spot", {GPU: nominal(4)}), **spec))
    return core


def test_the_first_flavor_is_used_up_first():
    core = two_flavors()
    training(core, *names("p", 3))
    assert bound(core.settle()) == {"p0": "n", "p1": "n", "p2": "m"}


def test_a_later_flavor_is_better_where_nothing_has_to_be_borrowed():
    lender = cluster_queue("other", ("reserved", {GPU: nominal(4)}), cohort="org")
    for fungibility, place in (({}, "n"), ({"whenCanBorrow": "TryNextFlavor"}, "m")):
        core = two_flavors(cohort="org", flavorFungibility=fungibility)
        core.put(lender)
        training(core, *names("p", 3))
        assert bound(core.settle())["p2"] == place


def test_pods_tolerate_what_their_flavor_says():
    taint = {"key": "spot", "effect": "NoSchedule"}
    core = two_flavors(spot={"taints": [taint]})
    training(core, *names("p", 3))
    assert sorted(bound(core.settle())) == ["p0", "p1"]
    tolerating = flavor("spot", kind="spot")
    tolerating["spec"]["tolerations"] = [{"key": "spot", "operator": "Exists"}]
    core.put(tolerating)
    assert bound(core.settle()) == {"p2": "m"}
    core.put(objects.claim("free"), gpus.pod("free", claims=["free"], nodeSelector={"kind": "spot"}))
    assert bound(core.settle()) == {}


def test_taints_of_a_flavor_keep_those_out_who_do_not_tolerate_them():
    core = two_flavors()
    tainted = flavor("spot", kind="spot")
    tainted["spec"]["nodeTaints"] = [{"key": "spot", "effect": "NoSchedule"}]
    core.put(tainted)
    training(core, *names("p", 3))
    assert sorted(bound(core.settle())) == ["p0", "p1"]
    training(core, "q", tolerations=[{"key": "spot", "operator": "Exists"}])
    assert bound(core.settle()) == {"q": "m"}


# Other


def test_quota_by_capacity_that_shares_consume():
    memory = f"memory.{GPU}"
    device = gpus.gpu("g", capacity={"memory": {"value": "80Gi"}}, allowMultipleAllocations=True)
    core = world(objects.resource_slice("n", device, nodeName="n"))
    core.put(cluster_queue("team", ("any", {memory: nominal("40Gi")})))
    for n in range(3):
        asked = objects.request(capacity={"requests": {"memory": "16Gi"}})
        core.put(objects.claim(f"c{n}", asked), queued(f"p{n}", claims=[f"c{n}"]))
    actions = core.settle()
    assert len(bound(actions)) == 2
    assert f"needs 16Gi {memory}, 8Gi left" in "".join(refused(actions).values())
    assert used(core, "team", memory) == 32 << 30


def shared_device(core, name="g", pool="n", **memory):
    device = gpus.gpu(name, capacity={"memory": memory}, allowMultipleAllocations=True)
    core.put(objects.resource_slice(pool, device, nodeName="n"))


def asking(core, *pods, **more):
    for name in pods:
        core.put(objects.claim(f"c-{name}", objects.request(**more)), queued(name, claims=[f"c-{name}"]))


def test_a_request_without_capacity_is_counted_as_the_default_of_the_device():
    core = world(objects.node("n"))
    shared_device(core, value="80Gi", requestPolicy={"default": "16Gi", "validRange": {"min": "1Gi"}})
    core.put(cluster_queue("team", ("any", {f"memory.{GPU}": nominal("40Gi")})))
    asking(core, *names("p", 3))
    actions = core.settle()
    assert len(bound(actions)) == 2
    assert "needs 16Gi" in "".join(refused(actions).values())


def test_a_request_without_capacity_is_counted_as_all_of_the_largest_device():
    core = world(objects.node("n"))
    shared_device(core, value="80Gi")
    shared_device(core, "small", "small", value="10Gi")
    core.put(cluster_queue("team", ("any", {f"memory.{GPU}": nominal("40Gi")})))
    asking(core, "p")
    assert "80Gi are needed" in refused(core.settle())["p"]
    core.remove("ResourceSlice", "n")
    assert list(bound(core.settle())) == ["p"]


def test_a_request_is_counted_as_the_device_rounds_it_up():
    core = world(objects.node("n"))
    policy = {"default": "8Gi", "validRange": {"min": "8Gi", "step": "8Gi"}}
    shared_device(core, value="80Gi", requestPolicy=policy)
    core.put(cluster_queue("team", ("any", {f"memory.{GPU}": nominal("15Gi")})))
    asking(core, "p", capacity={"requests": {"memory": "9Gi"}})
    assert "16Gi are needed" in refused(core.settle())["p"]


def test_devices_that_the_request_does_not_select_do_not_count():
    core = world(objects.node("n"))
    shared_device(core, value="80Gi")
    shared_device(core, "small", "small", value="10Gi")
    core.put(cluster_queue("team", ("any", {f"memory.{GPU}": nominal("40Gi")})))
    small = "device.capacity['gpu.example.com'].memory.compareTo(quantity('20Gi')) < 0"
    asking(core, "p", selectors=[{"cel": {"expression": small}}])
    assert list(bound(core.settle())) == ["p"]


def test_a_queue_that_is_deleted_and_made_anew_knows_what_its_pods_have():
    core = world(number=2)
    training(core, *names("p", 2))
    core.settle()
    core.remove("ClusterQueue", "team")
    core.put(cluster_queue("team", ("any", {GPU: nominal(2)})))
    training(core, "late")
    assert bound(core.settle()) == {}
    assert used(core, "team") == 2


def test_admission_checks_that_nobody_answers_hold_pods_up():
    core = world()
    strategy = {"admissionChecks": [{"name": "budget"}]}
    core.put(cluster_queue("team", ("any", {GPU: nominal(4)}), admissionChecksStrategy=strategy))
    training(core, "a")
    actions = core.settle()
    assert bound(actions) == {}
    assert "has admission checks, which this scheduler does not support: budget" in refused(actions)["a"]


def test_local_queues_that_used_less_go_first():
    core = Core(objects.node("n", cpu="64"), gpus.slice_of("n", 8), flavor(), local_queue("greedy", "team"))
    scope = {"admissionMode": "UsageBasedAdmissionFairSharing"}
    core.put(local_queue("modest", "team"), cluster_queue("team", ("any", {GPU: nominal(2)}), admissionScope=scope))
    training(core, "old", "older", queue="greedy")
    core.settle()
    core.now += 3600.0
    training(core, "again", "and-again", queue="greedy")
    training(core, "at-last", queue="modest")
    core.later()
    for name in ("old", "older"):
        core.remove_with_claims(name)
    assert next(iter(bound(core.settle()))) == "at-last"


def test_what_local_queues_used_is_known_after_a_restart():
    past = {"consumedResources": {GPU: "7500m", "cpu": "2"}, "lastUpdate": "1970-01-01T00:10:00Z"}
    greedy = local_queue("greedy", "team")
    greedy["status"] = {"fairSharing": {"admissionFairSharingStatus": past}}
    scope = {"admissionMode": "UsageBasedAdmissionFairSharing"}
    core = Core(objects.node("n", cpu="64"), gpus.slice_of("n", 8), flavor(), greedy, local_queue("modest", "team"))
    usage = core.state.queues.system(KueueQueues).order.usage
    assert usage.consumed(("default", "greedy")) == {GPU: 7.5, "cpu": 2000.0}
    assert usage.sampled(("default", "greedy")) == 600.0
    core.now = 700.0
    core.put(cluster_queue("team", ("any", {GPU: nominal(1)}), admissionScope=scope))
    training(core, "first", queue="greedy")
    training(core, "second", queue="modest")
    assert list(bound(core.settle())) == ["second"]
