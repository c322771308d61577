"""Nodes that fall silent, nodes that are not well, and the pods on them."""

from datetime import UTC, datetime, timedelta

import pytest

from dray.client.clock import micro_timestamp, timestamp
from dray.controllers.node_lifecycle.controller import NodeLifecycle
from dray.controllers.node_lifecycle.evictions import Expulsion, deadline
from dray.controllers.node_lifecycle.health import silenced, taints
from dray.testing import objects
from dray.testing.cluster import LocalCluster, kind_of
from tests.set_clock import SetTime

NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"
START = datetime(2030, 1, 1, tzinfo=UTC)


class FakeTime:
    def __init__(self):
        self.moment = START

    def now(self):
        return self.moment

    def pass_(self, seconds):
        self.moment += timedelta(seconds=seconds)


def condition(kind, status, heartbeat=None):
    beat = {"lastHeartbeatTime": timestamp(heartbeat)} if heartbeat else {}
    return {"type": kind, "status": status, "reason": "KubeletSaysSo", "message": "hello", **beat}


def node(name, *conditions, **spec):
    return objects.node(name, status={"conditions": list(conditions)} if conditions else None, **spec)


def lease(name, renewed=START):
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "namespace": "kube-node-lease"},
        "spec": {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": micro_timestamp(renewed)},
    }


def pod(name, node, *tolerations):
    return objects.pod(name, nodeName=node, tolerations=list(tolerations))


def _version(document):
    return document["metadata"]["uid"], document["metadata"]["resourceVersion"]


class Cluster(LocalCluster):
    """With a controller that a test can tell to look, since the time of day is the test's."""

    def __init__(self, time=None):
        super().__init__(time=time or FakeTime())
        self.server.context.clock = self.time.now
        self.controller = None

    async def __aenter__(self):
        await super().__aenter__()
        self.controller = NodeLifecycle(self.environment)
        await self.environment.informers.synced()
        self.start(self.controller.run())
        return self

    async def seen(self):
        """Everything that was written has come to the controller, and it has done what it does about that."""
        queues = self.controller._workers.queue, self.controller._evictions._workers.queue

        async def is_quiet():
            for kind in ("Node", "Lease", "Pod"):
                stored = {_version(each) for each in await self.list(kind)}
                if stored != {_version(each) for each in self.environment.informers.of(kind_of(kind)).cache}:
                    return False
            return not any(queue._failures or queue._dirty or queue._working for queue in queues)

        await self.eventually(is_quiet)

    async def pass_(self, seconds, *names):
        await self.seen()
        self.time.pass_(seconds)
        for name in names:
            self.controller.look(name)
        for each in list(self.controller._evictions._workers.queue._delayed):
            self.controller._evictions._workers.queue.add(each)
        await self.seen()

    async def taints(self, name):
        found = (await self.get("Node", name))["spec"].get("taints") or ()
        return {(each["key"], each["effect"]) for each in found}

    async def conditions(self, name):
        return {each["type"]: each for each in (await self.get("Node", name))["status"]["conditions"]}


async def told(cluster):
    await cluster.environment.events.written()
    found = await cluster.list("Event")
    return [(each["type"], each["reason"], each["message"], each["involvedObject"]["name"]) for each in found]


async def test_a_ready_node_loses_the_taint_it_was_made_with():
    async with Cluster() as cluster:
        await cluster.create(node("a", condition("Ready", "True")))
        await cluster.seen()
        assert await cluster.taints("a") == set()


async def test_a_node_of_which_nobody_says_anything_is_left_alone():
    async with Cluster() as cluster:
        await cluster.create(node("a"))
        await cluster.create(node("b", condition("Ready", "True")))
        before = await cluster.get("Node", "a")
        await cluster.pass_(100_000, "a", "b")
        assert await cluster.get("Node", "a") == before
        assert (NOT_READY, "NoSchedule") in await cluster.taints("a")
        assert await cluster.taints("b") == set()
        assert (await cluster.conditions("b"))["Ready"]["status"] == "True"


async def test_a_silent_node_is_unknown_and_unreachable():
    async with Cluster() as cluster:
        await cluster.apply(node("a", condition("Ready", "True", START), condition("DiskPressure", "False", START)))
        await cluster.create(lease("a"))
        await cluster.pass_(49, "a")
        assert (await cluster.conditions("a"))["Ready"]["status"] == "True"
        await cluster.pass_(2, "a")
        found = await cluster.conditions("a")
        ready = found["Ready"]
        assert (ready["status"], ready["reason"]) == ("Unknown", "NodeStatusUnknown")
        assert ready["message"] == "Kubelet stopped posting node status."
        assert ready["lastHeartbeatTime"] == timestamp(START)
        assert ready["lastTransitionTime"] == timestamp(START + timedelta(seconds=51))
        assert found["DiskPressure"]["reason"] == "NodeStatusUnknown"
        assert found["MemoryPressure"]["message"] == "Kubelet never posted node status."
        assert await cluster.taints("a") == {(UNREACHABLE, "NoSchedule"), (UNREACHABLE, "NoExecute")}
        await cluster.environment.events.written()
        assert "NodeNotReady" in {each["reason"] for each in await cluster.list("Event")}


async def test_a_node_that_speaks_again_is_well_again():
    async with Cluster() as cluster:
        await cluster.apply(node("a", condition("Ready", "True", START)), lease("a"))
        await cluster.pass_(60, "a")
        assert await cluster.taints("a") == {(UNREACHABLE, "NoSchedule"), (UNREACHABLE, "NoExecute")}
        now = cluster.time.now()
        status = {"conditions": [condition("Ready", "True", now)]}
        await cluster.patch("Node", "a", {"status": status}, subresource="status")
        await cluster.seen()
        assert await cluster.taints("a") == set()
        # And it is watched over as before.
        await cluster.pass_(51, "a")
        assert (await cluster.conditions("a"))["Ready"]["status"] == "Unknown"


async def test_either_heartbeat_keeps_a_node_alive():
    async with Cluster() as cluster:
        await cluster.apply(node("leased", condition("Ready", "True", START)), lease("leased"))
        await cluster.apply(node("posting", condition("Ready", "True", START)))
        for _ in range(3):
            await cluster.pass_(30, "leased", "posting")
            now = cluster.time.now()
            spec = {"spec": {"renewTime": micro_timestamp(now)}}
            await cluster.patch("Lease", "leased", spec, namespace="kube-node-lease")
            status = {"conditions": [condition("Ready", "True", now)]}
            await cluster.patch("Node", "posting", {"status": status}, subresource="status")
        await cluster.pass_(30, "leased", "posting")
        for name in ("leased", "posting"):
            assert (await cluster.conditions(name))["Ready"]["status"] == "True"
            assert await cluster.taints(name) == set()


async def test_a_lease_that_only_this_process_missed_counts():
    async with Cluster() as cluster:
        await cluster.apply(node("a", condition("Ready", "True", START)), lease("a"))
        await cluster.seen()
        old = cluster.controller._heartbeats.lease("a")
        cluster.controller._heartbeats.lease = lambda name: {**old, "spec": {"renewTime": "before"}}
        await cluster.pass_(60, "a")
        assert (await cluster.conditions("a"))["Ready"]["status"] == "True"


async def test_a_node_that_has_a_lease_and_never_said_more_gets_time_to_start():
    async with Cluster() as cluster:
        await cluster.apply(node("a"), lease("a"))
        await cluster.pass_(55, "a")
        assert "conditions" not in (await cluster.get("Node", "a"))["status"]
        await cluster.pass_(6, "a")
        ready = (await cluster.conditions("a"))["Ready"]
        assert (ready["status"], ready["reason"]) == ("Unknown", "NodeStatusNeverUpdated")
        assert (UNREACHABLE, "NoExecute") in await cluster.taints("a")
        assert (NOT_READY, "NoSchedule") not in await cluster.taints("a")


async def test_silence_is_noticed_by_itself():
    async with LocalCluster() as cluster:
        await cluster.apply(node("a", condition("Ready", "True", START)), lease("a"))
        controller = NodeLifecycle(cluster.environment, grace_period=0.1)
        cluster.start(controller.run())

        async def unknown():
            found = (await cluster.get("Node", "a"))["status"]["conditions"]
            return {each["status"] for each in found} == {"Unknown"}

        await cluster.eventually(unknown)


async def test_taints_follow_conditions_and_leave_others_alone():
    async with Cluster() as cluster:
        own = {"key": "example.com/mine", "value": "x", "effect": "NoSchedule"}
        await cluster.create(node("a", condition("Ready", "False"), condition("MemoryPressure", "True"), taints=[own]))
        await cluster.seen()
        assert await cluster.taints("a") == {
            ("example.com/mine", "NoSchedule"),
            (NOT_READY, "NoSchedule"),
            (NOT_READY, "NoExecute"),
            ("node.kubernetes.io/memory-pressure", "NoSchedule"),
        }
        await cluster.patch("Node", "a", {"spec": {"unschedulable": True}})
        status = {"conditions": [condition("Ready", "True")]}
        await cluster.patch("Node", "a", {"status": status}, subresource="status")
        await cluster.seen()
        assert await cluster.taints("a") == {
            ("example.com/mine", "NoSchedule"),
            ("node.kubernetes.io/unschedulable", "NoSchedule"),
        }
        await cluster.patch("Node", "a", {"spec": {"unschedulable": None}})
        await cluster.seen()
        assert (await cluster.get("Node", "a"))["spec"]["taints"] == [own]


async def test_pods_leave_a_node_that_stays_silent_after_five_minutes():
    async with Cluster() as cluster:
        await cluster.apply(node("a", condition("Ready", "True", START)), lease("a"), pod("p", "a"))
        forever = {"operator": "Exists"}
        await cluster.create(pod("daemon", "a", forever))
        await cluster.pass_(60, "a")
        await cluster.pass_(299, "a")
        assert not (await cluster.get("Pod", "p"))["metadata"].get("deletionTimestamp")
        await cluster.pass_(2, "a")
        left = await cluster.get("Pod", "p")
        assert left["metadata"]["deletionTimestamp"]
        (why,) = [each for each in left["status"]["conditions"] if each["type"] == "DisruptionTarget"]
        assert why["reason"] == "DeletionByTaintManager"
        assert not (await cluster.get("Pod", "daemon"))["metadata"].get("deletionTimestamp")
        counted = cluster.environment.metrics.get_sample_value("taint_eviction_controller_pod_deletions_total")
        assert counted == 1


async def test_pods_of_a_silent_node_are_not_ready():
    async with Cluster() as cluster:
        await cluster.apply(node("a", condition("Ready", "True", START)), lease("a"), pod("p", "a"), pod("q", "b"))
        for name in ("p", "q"):
            status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
            await cluster.patch("Pod", name, {"status": status}, subresource="status")
        await cluster.pass_(60, "a")

        async def ready(name):
            conditions = (await cluster.get("Pod", name))["status"]["conditions"]
            return next(each["status"] for each in conditions if each["type"] == "Ready")

        assert await ready("p") == "False"
        assert await ready("q") == "True"
        assert ("Warning", "NodeNotReady", "Node is not ready", "p") in await told(cluster)


async def test_pods_stay_if_the_node_is_back_in_time():
    async with Cluster() as cluster:
        await cluster.apply(node("a", condition("Ready", "False")), pod("p", "a"))
        await cluster.pass_(200, "a")
        await cluster.patch("Node", "a", {"status": {"conditions": [condition("Ready", "True")]}}, subresource="status")
        await cluster.pass_(200, "a")
        assert not (await cluster.get("Pod", "p"))["metadata"].get("deletionTimestamp")
        assert await told(cluster) == [("Normal", "TaintManagerEviction", "Cancelling deletion of Pod default/p", "p")]


async def test_a_pod_that_goes_by_itself_needs_no_eviction():
    async with Cluster() as cluster:
        await cluster.apply(node("a", condition("Ready", "False")), pod("p", "a"))
        await cluster.seen()
        await cluster.delete("Pod", "p")
        await cluster.seen()
        assert await told(cluster) == [("Normal", "TaintManagerEviction", "Cancelling deletion of Pod default/p", "p")]
        assert cluster.controller._evictions._scheduled == set()


async def test_a_taint_of_ones_own_drives_out_at_once_or_when_tolerated_for_long_enough():
    async with Cluster() as cluster:
        await cluster.create(node("a", condition("Ready", "True")))
        await cluster.seen()
        some_time = {"key": "maintenance", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 10}
        await cluster.apply(pod("at-once", "a"), pod("later", "a", some_time))
        await cluster.patch("Node", "a", {"spec": {"taints": [{"key": "maintenance", "effect": "NoExecute"}]}})
        await cluster.seen()

        async def is_leaving(name):
            return bool((await cluster.get("Pod", name))["metadata"].get("deletionTimestamp"))

        assert await is_leaving("at-once")
        assert not await is_leaving("later")
        # One that is bound while the taint is there is looked at as well.
        await cluster.create(pod("newcomer", "a"))
        await cluster.seen()
        assert await is_leaving("newcomer")
        await cluster.pass_(11)
        assert await is_leaving("later")


async def test_a_deleted_node_is_forgotten():
    async with Cluster() as cluster:
        await cluster.apply(node("a", condition("Ready", "False")), lease("a"))
        await cluster.seen()
        await cluster.delete("Node", "a")
        await cluster.seen()
        assert cluster.controller._evictions._expulsions == {}
        assert cluster.controller._heartbeats._heard == {}


@pytest.mark.parametrize(
    ("toleration", "expected"),
    [
        ({"operator": "Exists"}, True),
        ({"key": "k", "operator": "Exists"}, True),
        ({"key": "k", "operator": "Exists", "effect": "NoSchedule"}, False),
        ({"key": "other", "operator": "Exists"}, False),
        ({"key": "k", "value": "5"}, True),
        ({"key": "k", "operator": "Equal", "value": "6", "effect": "NoExecute"}, False),
        ({"key": "k", "operator": "Lt", "value": "6"}, True),
        ({"key": "k", "operator": "Gt", "value": "6"}, False),
        ({"key": "k", "operator": "Gt", "value": "four"}, False),
        ({"key": "k", "operator": "Lt", "value": "9" * 4301}, False),
    ],
)
def test_a_pod_stays_for_what_it_tolerates(toleration, expected):
    taint = {"key": "k", "value": "5", "effect": "NoExecute"}
    pod = {"metadata": {}, "spec": {"tolerations": [toleration]}}
    assert (deadline(pod, [Expulsion(taint, START)], START) is None) is expected


@pytest.mark.parametrize("seconds", [2**63 - 1, 10**20])
def test_a_pod_may_tolerate_a_taint_for_any_number_of_seconds(seconds):
    taint = {"key": "k", "effect": "NoExecute"}
    pod = {"metadata": {}, "spec": {"tolerations": [{"operator": "Exists", "tolerationSeconds": seconds}]}}
    end = deadline(pod, [Expulsion(taint, START)], START)
    assert end is not None
    assert end.year == 9999


def test_deadline():
    now = START + timedelta(seconds=100)
    expulsion = Expulsion({"key": "k", "effect": "NoExecute"}, START)

    def tolerant(*seconds, bound=None):
        tolerations = [{"key": "k", "operator": "Exists", "tolerationSeconds": each} for each in seconds]
        status = {"conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": bound}]}
        return {"metadata": {}, "spec": {"tolerations": tolerations}, "status": status}

    assert deadline(tolerant(), [expulsion], now) == START
    assert deadline(tolerant(), [], now) is None
    assert deadline(tolerant(30), [expulsion], now) == START + timedelta(seconds=30)
    assert deadline(tolerant(-5), [expulsion], now) == START
    assert deadline(tolerant(None), [expulsion], now) is None
    # The first that matches counts.
    assert deadline(tolerant(None, 30), [expulsion], now) is None
    # A pod that came after the taint has its time from then on.
    late = START + timedelta(seconds=50)
    assert deadline(tolerant(30, bound=timestamp(late)), [expulsion], now) == late + timedelta(seconds=30)
    # A clock that is ahead keeps nobody on the node.
    ahead = Expulsion(expulsion.taint, now + timedelta(hours=1))
    assert deadline(tolerant(), [ahead], now) == now


def test_conditions_and_taints_are_said_once():
    found = node("a", condition("Ready", "True", START))
    found["status"]["conditions"] = silenced(found, "now")
    assert silenced(found, "later") == []
    found["spec"]["taints"] = taints(found, "now")
    assert taints(found, "later") is None
    assert {each["timeAdded"] for each in found["spec"]["taints"]} == {"now"}


@pytest.mark.parametrize("hours", [5, -5])
async def test_nodes_are_not_silent_and_pods_not_evicted_because_the_clock_was_set(hours):
    time = SetTime()
    async with Cluster(time) as cluster:
        now = time.now()
        toleration = {"key": "broken", "operator": "Exists", "effect": "NoExecute"}
        taint = {"key": "broken", "effect": "NoExecute", "timeAdded": timestamp(now)}
        await cluster.create(node("a", condition("Ready", "True", now), taints=[taint]))
        await cluster.create(lease("a", now))
        await cluster.create(pod("p", "a", {**toleration, "tolerationSeconds": 3600}))
        await cluster.seen()
        time.set(hours=hours)
        cluster.controller.look("a")
        cluster.controller._evictions._workers.queue.add(("default", "p"))
        await cluster.seen()
        assert (await cluster.conditions("a"))["Ready"]["status"] == "True"
        assert await cluster.taints("a") == {("broken", "NoExecute")}
        assert (await cluster.get("Pod", "p"))["metadata"].get("deletionTimestamp") is None
