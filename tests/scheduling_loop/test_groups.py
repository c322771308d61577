"""Claims of a PodGroup, from the first pod of the group to its end."""

import pytest

from dray.scheduling.scheduler import Options
from dray.testing import objects
from dray.testing.cluster import LocalCluster
from tests import gpus

CONTROLLERS = ["resourceclaim", "podgroup-protection", "garbage-collector"]


def group(entry=None):
    return objects.pod_group("g", resourceClaims=[entry] if entry else None)


def member(name, entry=None):
    made = gpus.pod(name, schedulingGroup={"podGroupName": "g"})
    if entry:
        made["spec"]["resourceClaims"] = [entry]
        made["spec"]["containers"][0]["resources"] = {"claims": [{"name": entry["name"]}]}
    return made


def cluster():
    there = [objects.node("n"), gpus.slice_of("n", 2), gpus.device_class("gpu")]
    return LocalCluster(scheduler=Options(), controllers=CONTROLLERS, objects=there)


async def bound(cluster, *names):
    async def are():
        found = [await cluster.get("Pod", name) for name in names]
        return all(each["spec"].get("nodeName") for each in found)

    await cluster.eventually(are)


async def users(cluster):
    (claim,) = await cluster.list("ResourceClaim")
    return [(each["resource"], each["name"]) for each in (claim.get("status") or {}).get("reservedFor") or ()]


@pytest.mark.parametrize("kind", ["resourceClaimName", "resourceClaimTemplateName"])
async def test_a_claim_of_the_group_is_reserved_once_and_until_the_group_ends(kind):
    async with cluster() as world:
        entry = {"name": "gpu", kind: "c"}
        await world.apply(
            objects.claim("c") if kind == "resourceClaimName" else objects.claim_template("c"), group(entry)
        )
        await world.apply(member("p", entry), member("q", entry))
        await bound(world, "p", "q")
        assert await users(world) == [("podgroups", "g")]
        for name in ("p", "q"):
            await world.delete("Pod", name)
        assert await users(world) == [("podgroups", "g")]
        await world.delete("PodGroup", "g")

        async def free():
            return all(not gpus.held(each) for each in await world.list("ResourceClaim"))

        await world.eventually(free)


async def test_a_pod_is_not_placed_before_its_group_is_there():
    async with cluster() as world:
        await world.apply(member("early"), gpus.pod("other"))
        await bound(world, "other")
        assert not (await world.get("Pod", "early"))["spec"].get("nodeName")
        await world.create(group())
        await bound(world, "early")


def gang(size):
    made = group()
    return {**made, "spec": {**made["spec"], "schedulingPolicy": {"gang": {"minCount": size}}}}


def said(found):
    conditions = (found.get("status") or {}).get("conditions") or ()
    return {each["type"]: (each["status"], each["reason"]) for each in conditions}


async def test_a_gang_says_why_it_waits_and_then_that_it_is_scheduled():
    async with cluster() as local:
        await local.patch("Node", "n", {"spec": {"taints": None}})
        await local.create(gang(3))
        entry = {"name": "gpu", "resourceClaimTemplateName": "one"}
        await local.create(objects.claim_template("one"))
        for name in ("a", "b", "c"):
            await local.create(member(name, entry))

        async def is_refused():
            return said(await local.get("PodGroup", "g")) or None

        expected = {"PodGroupInitiallyScheduled": ("False", "Unschedulable")}
        assert await local.eventually(is_refused) == expected
        (condition,) = (await local.get("PodGroup", "g"))["status"]["conditions"]
        assert "3 pods have to be placed together, but only 2 fit" in condition["message"]

        async def is_told():
            events = [each for each in await local.list("Event") if each["reason"] == "FailedScheduling"]
            found = {(each["involvedObject"]["kind"], each["involvedObject"]["name"]) for each in events}
            return found == {("PodGroup", "g"), ("Pod", "a"), ("Pod", "b"), ("Pod", "c")}

        await local.eventually(is_told)
        assert not any(gpus.held(each) for each in await local.list("ResourceClaim"))
        assert said(await local.get("Pod", "a"))["PodScheduled"] == ("False", "Unschedulable")
        await local.create(objects.node("m"))
        await local.create(gpus.slice_of("m", 1))
        await local.patch("Node", "m", {"spec": {"taints": None}})
        await bound(local, "a", "b", "c")

        async def is_scheduled():
            return said(await local.get("PodGroup", "g")) == {"PodGroupInitiallyScheduled": ("True", "Scheduled")}

        await local.eventually(is_scheduled)


async def test_a_claim_that_three_pods_of_a_gang_share_is_reserved_for_each():
    async with cluster() as local:
        await local.patch("Node", "n", {"spec": {"taints": None}})
        entry = {"name": "gpu", "resourceClaimName": "c"}
        await local.apply(objects.claim("c"), gang(3))
        for name in ("a", "b", "c"):
            await local.create(member(name, entry))
        await bound(local, "a", "b", "c")
        assert sorted(await users(local)) == [("pods", "a"), ("pods", "b"), ("pods", "c")]


def part(name, size, parent="root"):
    reference = {"workloadName": "w", "templateName": name}
    return objects.pod_group(name, minCount=size, parentCompositePodGroupName=parent, workloadRef=reference)


def composite(name, least, **spec):
    reference = {"workloadName": "w", "templateName": name}
    return objects.composite_pod_group(name, minGroupCount=least, workloadRef=reference, **spec)


def of(group, name):
    return gpus.pod(name, schedulingGroup={"podGroupName": group}, cpu="1")


async def test_a_tree_of_groups_says_why_it_waits_and_then_that_it_is_scheduled():
    async with cluster() as local:
        await local.patch("Node", "n", {"spec": {"taints": None}})
        await local.patch("Node", "n", {"status": {"allocatable": {"cpu": "3"}}}, subresource="status")
        await local.apply(composite("root", 2), part("x", 2), part("y", 2))
        for name in ("x-0", "x-1", "y-0", "y-1"):
            await local.create(of(name[0], name))

        async def are(condition):
            found = [await local.get("PodGroup", name) for name in "xy"]
            expected = [{"PodGroupInitiallyScheduled": condition}] * 2
            root = said(await local.get("CompositePodGroup", "root"))
            return list(map(said, found)) == expected and root == {"CompositePodGroupInitiallyScheduled": condition}

        await local.eventually(lambda: are(("False", "Unschedulable")))
        assert not any(each["spec"].get("nodeName") for each in await local.list("Pod"))
        await local.patch("Node", "n", {"status": {"allocatable": {"cpu": "4"}}}, subresource="status")
        await bound(local, "x-0", "x-1", "y-0", "y-1")
        await local.eventually(lambda: are(("True", "Scheduled")))


async def test_a_cycle_of_groups_is_said_to_be_invalid():
    async with cluster() as local:
        await local.apply(composite("root", 1, parentCompositePodGroupName="other"), part("x", 1))
        await local.apply(composite("other", 1, parentCompositePodGroupName="root"), of("x", "p"))

        async def invalid():
            return said(await local.get("CompositePodGroup", "root"))

        assert await local.eventually(invalid) == {"CompositePodGroupInitiallyScheduled": ("False", "Invalid")}


async def test_a_gang_that_was_preempted_says_so_until_it_is_scheduled_again():
    async with cluster() as local:
        await local.create(objects.claim_template("one"))
        entry = {"name": "gpu", "resourceClaimTemplateName": "one"}
        await local.apply(gang(2), member("a", entry), member("b", entry))
        await bound(local, "a", "b")
        await local.create(objects.priority_class("high", 10))
        urgent = gpus.pod("urgent", priorityClassName="high")
        urgent["spec"] |= {"resourceClaims": [entry], "containers": member("x", entry)["spec"]["containers"]}
        await local.create(urgent)
        await bound(local, "urgent")

        async def disrupted():
            found = said(await local.get("PodGroup", "g")).get("DisruptionTarget")
            return found == ("True", "PreemptionByScheduler")

        await local.eventually(disrupted)
        assert said(await local.get("PodGroup", "g"))["PodGroupInitiallyScheduled"] == ("True", "Scheduled")
        await local.delete("Pod", "urgent")
        for name in ("a", "b"):
            if await local.get("Pod", name) is None:
                await local.create(member(name, entry))
        await bound(local, "a", "b")

        async def restored():
            found = said(await local.get("PodGroup", "g")).get("DisruptionTarget")
            return found == ("False", "Scheduled")

        await local.eventually(restored)


async def test_a_gang_that_lost_its_pods_otherwise_says_why_it_waits():
    async with cluster() as local:
        await local.create(objects.claim_template("one"))
        entry = {"name": "gpu", "resourceClaimTemplateName": "one"}
        await local.apply(gang(2), member("a", entry), member("b", entry))
        await bound(local, "a", "b")
        await local.patch("Node", "n", {"spec": {"unschedulable": True}})
        for name in ("a", "b"):
            await local.delete("Pod", name)
        await local.apply(member("c", entry), member("d", entry))

        async def disrupted():
            return said(await local.get("PodGroup", "g")).get("DisruptionTarget") == ("True", "Unschedulable")

        await local.eventually(disrupted)
