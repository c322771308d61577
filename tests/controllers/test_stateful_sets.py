"""StatefulSets: identities, the order of things, updates, volume claims, and what their users see."""

from datetime import UTC, datetime, timedelta

import pytest

from dray.api.objects import controller_of
from dray.client.clock import timestamp
from dray.controllers.stateful_sets import identity
from dray.controllers.stateful_sets.plan import plan
from dray.controllers.stateful_sets.replicas import Replicas
from dray.controllers.stateful_sets.status import status
from dray.testing import objects
from dray.testing.cluster import LocalCluster
from tests.controllers.jobs import place, reasons

NOW = datetime(2026, 11, 17, 4, 0, tzinfo=UTC)
ROLLING = {"type": "RollingUpdate", "rollingUpdate": {"partition": 0, "maxUnavailable": 1}}
RECREATE = {"type": "Recreate"}
CLAIM = {
    "metadata": {"name": "data"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}


def stateful_set(replicas=3, **spec):
    spec.setdefault("updateStrategy", ROLLING)
    return objects.stateful_set("s", namespace="default", uid="u", generation=2, replicas=replicas, **spec)


def rolling(**bounds):
    return {"type": "RollingUpdate", "rollingUpdate": {"partition": 0, **bounds}}


def pod(number, *, revision="new", ready=True, phase="Running", seconds=30, **members):
    made = identity.pod(stateful_set(), number, stateful_set()["spec"]["template"], revision)
    since = timestamp(NOW - timedelta(seconds=seconds))
    condition = {"type": "Ready", "status": "True" if ready else "False", "lastTransitionTime": since}
    metadata = {**made["metadata"], "uid": f"{number}", **members}
    return {**made, "metadata": metadata, "status": {"phase": phase, "conditions": [condition]}}


def replicas(*pods, made=None, current="old"):
    return Replicas.of(made or stateful_set(), current, "new", pods, NOW)


def decided(*pods, **options):
    """What is made, and what is deleted."""
    found = plan(replicas(*pods, **options))
    return found.create, [each["metadata"]["name"] for each in found.delete]


PARALLEL = stateful_set(podManagementPolicy="Parallel")


class TestIdentity:
    def test_names_labels_and_volumes(self):
        volume = {"name": "data", "emptyDir": {}}
        template = objects.pod("s", volumes=[volume, {"name": "more", "emptyDir": {}}])
        made = objects.stateful_set("s", template, namespace="default", uid="u", volumeClaimTemplates=[CLAIM])
        found = identity.pod(made, 3, made["spec"]["template"], "s-abc")
        assert found["metadata"]["name"] == found["spec"]["hostname"] == "s-3"
        assert found["spec"]["subdomain"] == "s"
        assert found["metadata"]["labels"] == {
            "app": "s",
            "statefulset.kubernetes.io/pod-name": "s-3",
            "apps.kubernetes.io/pod-index": "3",
            "controller-revision-hash": "s-abc",
        }
        assert found["spec"]["volumes"] == [
            {"name": "data", "persistentVolumeClaim": {"claimName": "data-s-3"}},
            {"name": "more", "emptyDir": {}},
        ]
        (claim,) = identity.claims(made, "s-3")
        assert (claim["metadata"]["name"], claim["metadata"]["labels"]) == ("data-s-3", {"app": "s"})

    @pytest.mark.parametrize(
        ("name", "expected"), [("s-0", 0), ("s-12", 12), ("s-01", None), ("s", None), ("t-1", None), ("s-x-1", None)]
    )
    def test_ordinals(self, name, expected):
        assert identity.ordinal(stateful_set(), {"metadata": {"name": name}}) == expected

    def test_a_template_of_a_claim_without_a_name_makes_what_the_server_refuses(self):
        nameless = stateful_set(volumeClaimTemplates=[{"metadata": {}, "spec": CLAIM["spec"]}])
        made = identity.pod(nameless, 0, nameless["spec"]["template"], "new")
        assert made["spec"]["volumes"][0] == {"name": "", "persistentVolumeClaim": {"claimName": "-s-0"}}
        assert [each["metadata"]["name"] for each in identity.claims(nameless, "s-0")] == ["-s-0"]


class TestOrder:
    def test_one_after_the_other(self):
        assert decided() == ([0], [])
        assert decided(pod(0, ready=False)) == ([], [])
        assert decided(pod(0)) == ([1], [])
        assert decided(pod(0), pod(2)) == ([1], [])
        assert decided(pod(0, deletionTimestamp="x")) == ([], [])

    def test_min_ready_seconds(self):
        slow = stateful_set(minReadySeconds=60)
        assert decided(pod(0), made=slow) == ([], [])
        assert decided(pod(0, seconds=60), made=slow) == ([1], [])

    def test_all_at_once(self):
        assert decided(pod(1, ready=False), made=PARALLEL) == ([0, 2], [])

    def test_two_billion_pods_are_made_a_few_at_a_time(self):
        huge = stateful_set(2**31 - 1, podManagementPolicy="Parallel")
        assert len(decided(made=huge)[0]) == 250

    def test_ordinals_may_start_later(self):
        assert decided(made=stateful_set(ordinals={"start": 5})) == ([5], [])
        assert decided(pod(4), pod(5), pod(6), pod(7), made=stateful_set(ordinals={"start": 5})) == ([], ["s-4"])

    def test_the_highest_goes_first_and_waits_for_those_before_it(self):
        one = stateful_set(1)
        assert decided(pod(0), pod(1), pod(2), made=one) == ([], ["s-2"])
        assert decided(pod(0), pod(1), pod(2, deletionTimestamp="x"), made=one) == ([], [])
        assert decided(pod(0), pod(1, ready=False), pod(2, ready=False), made=one) == ([], [])
        assert decided(pod(0), pod(1), pod(2, ready=False), made=one) == ([], ["s-2"])
        at_once = stateful_set(0, podManagementPolicy="Parallel")
        assert decided(pod(0), pod(1, ready=False), made=at_once) == ([], ["s-1", "s-0"])

    def test_ended_pods_are_made_anew(self):
        assert decided(pod(0, phase="Failed"), pod(1)) == ([], ["s-0"])

    def test_labels_are_put_right(self):
        bare = pod(0)
        bare["metadata"]["labels"] = {"app": "s", "controller-revision-hash": "new"}
        assert plan(replicas(bare)).label == [(bare, 0)]


class TestUpdate:
    def old(self, *numbers, **members):
        return [pod(number, revision="old", **members) for number in numbers]

    def test_from_the_highest_down(self):
        assert decided(*self.old(0, 1, 2)) == ([], ["s-2"])
        assert decided(*self.old(0, 1), pod(2)) == ([], ["s-1"])
        assert decided(*self.old(0, 1), pod(2, ready=False)) == ([], [])

    def test_not_below_the_partition(self):
        made = stateful_set(updateStrategy=rolling(partition=2))
        assert decided(*self.old(0, 1, 2), made=made) == ([], ["s-2"])
        assert decided(*self.old(0, 1), pod(2), made=made) == ([], [])
        assert replicas(made=made).revision_for(1) == "old"
        assert replicas(made=made).revision_for(2) == "new"

    def test_several_at_a_time(self):
        made = stateful_set(5, updateStrategy=rolling(maxUnavailable="40%"))
        assert decided(*self.old(0, 1, 2, 3, 4), made=made) == ([], ["s-4", "s-3"])

    def test_what_does_not_work_is_replaced_without_waiting(self):
        made = stateful_set(podManagementPolicy="Parallel")
        assert decided(*self.old(0, 1), *self.old(2, ready=False), made=made) == ([], ["s-2"])

    def test_on_delete(self):
        made = stateful_set(updateStrategy={"type": "OnDelete"})
        assert decided(*self.old(0, 1, 2), made=made) == ([], [])
        assert replicas(made=made).revision_for(0) == "new"

    @pytest.mark.parametrize("policy", ["OrderedReady", "Parallel"])
    def test_all_old_pods_go_before_the_first_new_one_comes(self, policy):
        made = stateful_set(updateStrategy=RECREATE, podManagementPolicy=policy)
        broken = pod(1, revision="old", ready=False, phase="Pending")
        assert decided(*self.old(0, 4), broken, made=made) == ([], ["s-0", "s-4", "s-1"])
        assert decided(pod(0, revision="old", deletionTimestamp="x"), pod(1), made=made) == ([], [])
        assert decided(pod(0), made=made) == ([1] if policy == "OrderedReady" else [1, 2], [])
        assert replicas(made=made).revision_for(0) == "new"


def test_the_condition_of_a_recreation():
    made = stateful_set(updateStrategy=RECREATE)

    def told(*pods, current="old"):
        found = status(replicas(*pods, made=made, current=current))
        made["status"] = found
        return [(each["status"], each["reason"]) for each in found.get("conditions", ())]

    assert told(pod(0), pod(1), pod(2), current="new") == []
    assert told(*(pod(number, revision="old") for number in range(3))) == [("True", "RecreateInProgress")]
    assert told(pod(0)) == [("True", "RecreateInProgress")]
    assert told(pod(0), pod(1), pod(2)) == [("False", "RecreateCompleted")]
    assert (made["status"]["currentRevision"], made["status"]["currentReplicas"]) == ("new", 3)
    assert told(pod(0, ready=False), pod(1), pod(2), current="new") == [("False", "RecreateCompleted")]


def test_status():
    found = status(replicas(pod(0, revision="old"), pod(1, ready=False), pod(2, deletionTimestamp="x")))
    assert found == {
        "observedGeneration": 2,
        "replicas": 3,
        "readyReplicas": 2,
        "availableReplicas": 2,
        "currentReplicas": 1,
        "updatedReplicas": 1,
        "currentRevision": "old",
        "updateRevision": "new",
        "collisionCount": 0,
    }
    done = status(replicas(pod(0), pod(1), pod(2)))
    assert (done["currentRevision"], done["currentReplicas"]) == ("new", 3)


# In a cluster


def names(found):
    return sorted(each["metadata"]["name"] for each in found)


async def settle(local, *wanted):
    """Makes pods ready as they come, until there are these and all are available."""

    async def settled():
        for each in await local.list("Pod"):
            if "deletionTimestamp" not in each["metadata"] and each["status"]["phase"] == "Pending":
                await place(local, each)
        made = await local.get("StatefulSet", "s")
        state = made.get("status") or {}
        if state.get("observedGeneration") != made["metadata"]["generation"] or names(await local.list("Pod")) != [
            *wanted
        ]:
            return None
        whole = all(state.get(name, 0) == len(wanted) for name in ("replicas", "availableReplicas", "updatedReplicas"))
        return made if whole and state["currentRevision"] == state["updateRevision"] else None

    return await local.eventually(settled)


async def test_a_stateful_set_in_a_cluster():
    policy = {"whenDeleted": "Delete", "whenScaled": "Delete"}
    made = objects.stateful_set(
        "s", replicas=2, volumeClaimTemplates=[CLAIM], persistentVolumeClaimRetentionPolicy=policy
    )
    controllers = ["statefulset", "garbage-collector", "bare-node"]
    async with LocalCluster(controllers=controllers, objects=[objects.node("a")]) as local:
        await local.create(made)
        await local.eventually(lambda: local.list("Pod"))
        assert names(await local.list("Pod")) == ["s-0"], "the second waits for the first"
        whole = await settle(local, "s-0", "s-1")
        claims = await local.list("PersistentVolumeClaim")
        assert names(claims) == ["data-s-0", "data-s-1"]
        assert {controller_of(each)["uid"] for each in claims} == {whole["metadata"]["uid"]}
        # What somebody made of its ownership is mended.
        (owner,) = claims[0]["metadata"]["ownerReferences"]
        changed = {"metadata": {"ownerReferences": [{**owner, "controller": False}]}}
        await local.patch("PersistentVolumeClaim", "data-s-0", changed)
        await local.patch("StatefulSet", "s", {"metadata": {"annotations": {"touched": "yes"}}})

        async def is_owned():
            return controller_of(await local.get("PersistentVolumeClaim", "data-s-0")) is not None

        await local.eventually(is_owned)
        first = whole["status"]["currentRevision"]
        (revision,) = await local.list("ControllerRevision")
        assert (revision["metadata"]["name"], revision["revision"]) == (first, 1)
        # An update, one after the other, and back to the revision before it.
        container = {"name": "main", "image": "busybox:2"}
        await local.patch("StatefulSet", "s", {"spec": {"template": {"spec": {"containers": [container]}}}})
        second = (await settle(local, "s-0", "s-1"))["status"]["currentRevision"]
        assert second != first
        assert {each["spec"]["containers"][0]["image"] for each in await local.list("Pod")} == {"busybox:2"}
        await local.patch("StatefulSet", "s", {"spec": revision["data"]["spec"]})
        assert (await settle(local, "s-0", "s-1"))["status"]["currentRevision"] == first
        assert sorted(each["revision"] for each in await local.list("ControllerRevision")) == [2, 3]
        # Scaled down by the subresource: the claim of the pod that goes, goes with it.
        scale = {"spec": {"replicas": 1}}
        await local.patch("StatefulSet", "s", scale, subresource="scale")
        await settle(local, "s-0")

        async def left(wanted):
            found = await local.list("PersistentVolumeClaim")
            # Those that are deleted stay for as long as their finalizer.
            return names(each for each in found if "deletionTimestamp" not in each["metadata"]) == wanted

        await local.eventually(lambda: left(["data-s-0"]))
        assert {"SuccessfulCreate", "SuccessfulDelete"} <= set(await reasons(local))
        await local.delete("StatefulSet", "s")
        await local.eventually(lambda: left([]))


async def test_pods_of_its_names_are_taken_in_and_others_left_alone():
    async with LocalCluster(controllers=["statefulset", "bare-node"], objects=[objects.node("a")]) as local:
        await local.create(objects.pod("s-0", labels={"app": "s"}))
        await local.create(objects.pod("other", labels={"app": "s"}))
        await local.create(
            objects.stateful_set("s", podManagementPolicy="Parallel", updateStrategy={"type": "OnDelete"})
        )

        async def taken():
            return controller_of(await local.get("Pod", "s-0"))

        await local.eventually(taken)

        async def labelled():
            return (await local.get("Pod", "s-0"))["metadata"]["labels"].get("apps.kubernetes.io/pod-index") == "0"

        await local.eventually(labelled)
        assert controller_of(await local.get("Pod", "other")) is None
