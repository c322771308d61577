"""DaemonSets: on which nodes they run, how they are updated, and what their users see."""

from datetime import UTC, datetime, timedelta

import pytest

from dray.client.clock import timestamp
from dray.controllers.daemon_sets import rollout, template
from dray.controllers.daemon_sets.daemons import Daemons
from dray.controllers.daemon_sets.failures import Failures
from dray.controllers.daemon_sets.placement import Requirements
from dray.controllers.daemon_sets.plan import plan
from dray.controllers.daemon_sets.status import status
from dray.scheduling.scheduler import Options
from dray.testing import objects
from dray.testing.cluster import LocalCluster
from tests.controllers.jobs import reasons

NOW = datetime(2026, 11, 17, 4, 0, tzinfo=UTC)


def daemon_set(template=None, **spec):
    spec.setdefault("updateStrategy", {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}})
    return objects.daemon_set("d", template, namespace="default", uid="u", generation=2, **spec)


def rolling(**bounds):
    return {"type": "RollingUpdate", "rollingUpdate": bounds}


def pod(node, name="", *, revision="new", ready=True, phase="Running", bound=True, seconds=30, **members):
    condition = {
        "type": "Ready",
        "status": "True" if ready else "False",
        "lastTransitionTime": timestamp(NOW - timedelta(seconds=seconds)),
    }
    made = template.pod(daemon_set(), node, revision)
    metadata = {**made["metadata"], "name": name or f"d-{node}-{revision}", "uid": name or f"{node}-{revision}"}
    spec = {**made["spec"], **({"nodeName": node} if bound else {})}
    return {
        **made,
        "metadata": {**metadata, **members},
        "spec": spec,
        "status": {"phase": phase, "conditions": [condition]},
    }


def daemons(pods, nodes="abc", made=None):
    return Daemons.of(made or daemon_set(), "new", [objects.node(name) for name in nodes], pods, NOW)


def names(pods):
    return sorted(each["metadata"]["name"] for each in pods)


class TestPlacement:
    @pytest.mark.parametrize(
        ("spec", "node", "expected"),
        [
            ({}, {}, (True, True)),
            ({"nodeSelector": {"gpu": "yes"}}, {}, (False, False)),
            ({"nodeSelector": {"gpu": "yes"}}, {"labels": {"gpu": "yes"}}, (True, True)),
            ({"nodeName": "other"}, {}, (False, False)),
            ({}, {"taints": [objects.taint("k")]}, (False, True)),
            ({}, {"taints": [objects.taint("k", "NoExecute")]}, (False, False)),
            ({}, {"taints": [objects.taint("k", "PreferNoSchedule")]}, (True, True)),
            ({"tolerations": [{"operator": "Exists"}]}, {"taints": [objects.taint("k", "NoExecute")]}, (True, True)),
            ({}, {"taints": [objects.taint("node.kubernetes.io/unschedulable")]}, (True, True)),
            ({}, {"taints": [objects.taint("node.kubernetes.io/not-ready", "NoExecute")]}, (True, True)),
            ({}, {"taints": [objects.taint("node.kubernetes.io/network-unavailable")]}, (False, True)),
            (
                {"hostNetwork": True},
                {"taints": [objects.taint("node.kubernetes.io/network-unavailable")]},
                (True, True),
            ),
        ],
    )
    def test_nodes(self, spec, node, expected):
        assert Requirements(daemon_set(objects.pod("p", **spec))).place(objects.node("a", **node)) == expected

    def test_affinity(self):
        term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["x"]}]}
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
        requirements = Requirements(daemon_set(objects.pod("p", affinity={"nodeAffinity": required})))
        assert requirements.place(objects.node("a", labels={"zone": "x"})).runs
        assert not requirements.place(objects.node("a")).runs
        made = template.pod(daemon_set(objects.pod("p", affinity={"nodeAffinity": required})), "a", "r")
        assert template.target(made) == "a"


class TestPlan:
    def test_one_for_each_node(self):
        found = plan(daemons([pod("a"), pod("gone", bound=False), pod("left")]))
        assert found.create == ["b", "c"]
        assert names(found.delete) == ["d-gone-new"], "what is bound to a node that is gone is left to others"

    def test_the_oldest_stays(self):
        pods = [pod("a", f"p{age}", creationTimestamp=f"2026-11-17T0{age}:00:00Z") for age in (3, 1, 2)]
        assert names(plan(daemons(pods, "a")).delete) == ["p2", "p3"]

    def test_a_pod_on_its_way_out_holds_the_place(self):
        assert plan(daemons([pod("a", deletionTimestamp="x")], "a")).create == []

    def test_ended_pods_go(self):
        found = plan(daemons([pod("a", phase="Failed"), pod("b", phase="Succeeded")], "ab"))
        assert names(each for each, _ in found.ended) == ["d-a-new", "d-b-new"]

    def test_with_surge_the_old_one_goes_when_the_new_is_available(self):
        made = daemon_set(updateStrategy=rolling(maxUnavailable=0, maxSurge=1))
        both = [pod("a", revision="old"), pod("a", ready=False)]
        assert plan(daemons(both, "a", made)).delete == []
        assert names(plan(daemons([pod("a", revision="old"), pod("a")], "a", made)).delete) == ["d-a-old"]


class TestRollout:
    def old(self, nodes="abc"):
        return [pod(node, revision="old") for node in nodes]

    def test_not_more_than_may_be_unavailable(self):
        assert len(rollout.step(daemons(self.old())).delete) == 1
        waiting = [pod("a", ready=False), *self.old("bc")]
        assert rollout.step(daemons(waiting)).delete == []
        half = daemon_set(updateStrategy=rolling(maxUnavailable="50%", maxSurge=0))
        assert len(rollout.step(daemons(self.old(), made=half)).delete) == 2

    def test_what_is_unavailable_anyway_is_replaced_at_once(self):
        pods = [pod("a", revision="old", ready=False), pod("b", revision="old", ready=False), *self.old("c")]
        assert names(rollout.step(daemons(pods)).delete) == ["d-a-old", "d-b-old"]

    def test_min_ready_seconds(self):
        slow = daemon_set(minReadySeconds=60)
        old = pod("b", revision="old", seconds=90)
        assert rollout.step(daemons([pod("a"), old], "ab", slow)).delete == []
        assert rollout.step(daemons([pod("a", seconds=60), old], "ab", slow)).delete == [old]

    def test_surge(self):
        made = daemon_set(updateStrategy=rolling(maxUnavailable=0, maxSurge=1))
        assert rollout.step(daemons(self.old(), made=made)).create == ["a"]
        both = [*self.old(), pod("a", ready=False)]
        assert rollout.step(daemons(both, made=made)).create == []
        done = rollout.step(daemons([*self.old(), pod("a")], made=made))
        assert (names(done.delete), done.create) == (["d-a-old"], ["b"])

    def test_on_delete(self):
        made = daemon_set(updateStrategy={"type": "OnDelete"})
        assert rollout.step(daemons(self.old(), made=made)).delete == []


def test_status():
    node = objects.node("c", taints=[objects.taint("k")])
    nodes = [objects.node("a"), objects.node("b"), node, objects.node("e")]
    pods = [pod("a"), pod("b", revision="old", ready=False), pod("c")]
    assert status(Daemons.of(daemon_set(status={"collisionCount": 1}), "new", nodes, pods, NOW)) == {
        "collisionCount": 1,
        "observedGeneration": 2,
        "desiredNumberScheduled": 3,
        "currentNumberScheduled": 2,
        "numberMisscheduled": 1,
        "numberReady": 1,
        "numberAvailable": 1,
        "numberUnavailable": 2,
        "updatedNumberScheduled": 1,
    }


def test_nodes_where_pods_fail_wait_longer_each_time():
    failures, now = Failures(), NOW
    waits = []
    for _ in range(4):
        assert failures.wait("u", "a", now) == 0.0
        waits.append(failures.wait("u", "a", now))
        now += timedelta(seconds=waits[-1])
    assert waits == [1.0, 2.0, 4.0, 8.0]
    assert failures.wait("u", "b", now) == 0.0


# In a cluster


async def pods(local):
    """By node, those that stay."""
    found = [each for each in await local.list("Pod") if "deletionTimestamp" not in each["metadata"]]
    return {each["spec"]["nodeName"]: each for each in found if each["spec"].get("nodeName")}


async def on(local, *nodes):
    async def there():
        found = await pods(local)
        return found if found.keys() == set(nodes) and len(await local.list("Pod")) == len(nodes) else None

    return await local.eventually(there)


async def make_ready(local):
    for each in (await pods(local)).values():
        condition = {"type": "Ready", "status": "True", "lastTransitionTime": timestamp(local.time.now())}
        change = {"status": {"phase": "Running", "conditions": [condition]}}
        await local.patch("Pod", each["metadata"]["name"], change, subresource="status")


async def counted(local, **wanted):
    async def holds():
        found = (await local.get("DaemonSet", "d")).get("status") or {}
        return all(found.get(name) == value for name, value in wanted.items())

    await local.eventually(holds)


async def test_a_daemon_set_in_a_cluster():
    nodes = [objects.node("a"), objects.node("b"), objects.node("cpu", labels={"kind": "cpu"})]
    nodes.append(objects.node("c", taints=[objects.taint("k")]))
    term = {"matchExpressions": [{"key": "kind", "operator": "DoesNotExist"}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    controllers = ["daemonset", "garbage-collector", "bare-node"]
    async with LocalCluster(controllers=controllers, scheduler=Options(), objects=nodes) as local:
        await local.create(objects.daemon_set("d", objects.pod("d", affinity={"nodeAffinity": required})))
        first = await on(local, "a", "b")
        (revision,) = await local.list("ControllerRevision")
        assert revision["revision"] == 1
        digest = revision["metadata"]["labels"]["controller-revision-hash"]
        assert {each["metadata"]["labels"]["controller-revision-hash"] for each in first.values()} == {digest}
        await make_ready(local)
        await counted(local, desiredNumberScheduled=2, numberReady=2, numberAvailable=2, updatedNumberScheduled=2)
        # Somebody else's copy of the revision, without its label, changes nothing that runs.
        copy = {**revision, "metadata": {"name": "mine", "labels": {"app": "d"}}, "revision": 0}
        await local.create({"apiVersion": "apps/v1", "kind": "ControllerRevision", **copy})
        # A node opens, and one is tainted so that nothing may stay.
        await local.patch("Node", "c", {"spec": {"taints": None}})
        await on(local, "a", "b", "c")
        await local.patch("Node", "b", {"spec": {"taints": [objects.taint("k", "NoExecute")]}})
        await on(local, "a", "c")
        await make_ready(local)
        await counted(local, desiredNumberScheduled=2, numberAvailable=2, numberMisscheduled=0)
        # One after the other is replaced.
        container = {"name": "main", "image": "busybox:2"}
        await local.patch("DaemonSet", "d", {"spec": {"template": {"spec": {"containers": [container]}}}})

        async def updated():
            await make_ready(local)
            made = await local.get("DaemonSet", "d")
            found = made["status"]
            assert found.get("numberUnavailable", 0) <= 1
            if found["observedGeneration"] != made["metadata"]["generation"]:
                return False
            return found.get("updatedNumberScheduled") == 2 and found.get("numberAvailable") == 2

        await local.eventually(updated)
        assert {each["spec"]["containers"][0]["image"] for each in (await on(local, "a", "c")).values()} == {
            "busybox:2"
        }
        revisions = sorted(await local.list("ControllerRevision"), key=lambda each: each["revision"])
        assert [each["revision"] for each in revisions] == [0, 1, 2]
        # Back again, as kubectl rollout undo does: the first revision is in force with the next number.
        await local.patch("DaemonSet", "d", {"spec": {**revisions[1]["data"]["spec"], "revisionHistoryLimit": 0}})
        await local.eventually(updated)

        async def pruned():
            found = await local.list("ControllerRevision")
            return [each["revision"] for each in found] == [3]

        await local.eventually(pruned)
        assert {"SuccessfulCreate", "SuccessfulDelete"} <= set(await reasons(local))
        await local.delete("DaemonSet", "d")
        await local.eventually(lambda: _gone(local))


async def _gone(local):
    return not await local.list("Pod") and not await local.list("ControllerRevision")


async def test_pods_that_match_are_taken_in_and_failed_ones_replaced():
    async with LocalCluster(controllers=["daemonset", "bare-node"], objects=[objects.node("a")]) as local:
        lonely = objects.pod("lonely", labels={"app": "d"}, nodeName="a")
        await local.create(lonely)
        await local.create(objects.daemon_set("d", updateStrategy={"type": "OnDelete"}))
        await counted(local, currentNumberScheduled=1, updatedNumberScheduled=None)
        (taken,) = await local.list("Pod")
        assert taken["metadata"]["ownerReferences"][0]["name"] == "d"
        await local.patch("Pod", "lonely", {"status": {"phase": "Failed"}}, subresource="status")
        await counted(local, currentNumberScheduled=1, updatedNumberScheduled=1)
        assert "FailedDaemonPod" in await reasons(local)
