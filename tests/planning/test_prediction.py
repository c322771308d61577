"""What a plan predicts is what the scheduler of a cluster then does, with the same nodes and devices."""

from random import Random

import pytest

from dray.planning.playing import play
from dray.planning.scene import Scene
from dray.scheduling.scheduler import Options
from dray.snapshot.listing import listed
from dray.testing import objects
from tests.fleet.rehearsal import Rehearsal
from tests.planning.scenes import by_kind


def gpu_template(name, count):
    return objects.claim_template(name, objects.request(deviceClassName="gpu.nvidia.com", count=count))


def random_pods(random, prefix, number, counts=(1, 1, 2, 4)):
    """Pods of one priority: then it does not matter that a cluster gets them one after the other."""
    made, named = [], random.choice(({}, {"priorityClassName": "high"}))
    for index in range(number):
        members = {**named, "requests": {"cpu": str(random.choice((1, 2, 8)))}}
        made.append(objects.pod(f"{prefix}{index}", templates={"gpu": f"t{random.choice(counts)}"}, **members))
    return made


def _priority(pod):
    return 5 if pod["spec"].get("priorityClassName") else 0


async def at_rest(cluster):
    """Waits until nothing has changed for longer than a pod takes to stop."""
    seen, since = None, 0

    async def done():
        nonlocal seen, since
        now = [(each["metadata"]["uid"], each["spec"].get("nodeName")) for each in await cluster.list("Pod")]
        seen, since = now, since + 1 if now == seen else 0
        return since > 40

    await cluster.until(done)


async def actual(cluster, names):
    pods = {each["metadata"]["name"]: each for each in await cluster.list("Pod")}
    claims = {each["metadata"]["name"]: each for each in await cluster.list("ResourceClaim")}
    found = {}
    for name in names:
        pod = pods[name]
        used = [each["resourceClaimName"] for each in pod["status"].get("resourceClaimStatuses") or ()]
        results = [
            result["device"]
            for claim in used
            for result in (claims[claim].get("status") or {}).get("allocation", {"devices": {"results": []}})[
                "devices"
            ]["results"]
        ]
        found[name] = (pod["spec"].get("nodeName", ""), results)
    return found


def predicted(outcome):
    return {each.key[1]: (each.node, [result["device"] for _, result in each.devices]) for each in outcome.pods}


@pytest.mark.parametrize("seed", range(6))
async def test_pods_go_where_the_plan_said(seed, virtual_time):
    random = Random(seed)
    async with Rehearsal("a3-highgpu-1g=2,a2-highgpu-2g=2", seed=seed).going() as cluster:
        templates = [gpu_template(f"t{count}", count) for count in (1, 2, 4)]
        await cluster.create(objects.priority_class("high", 5), *templates, *random_pods(random, "old", 2))
        await at_rest(cluster)
        objects_ = (await listed(cluster.client)).objects
        new = random_pods(random, "new", 4)
        numbered = [{**each, "spec": {**each["spec"], "priority": _priority(each)}} for each in new]
        scene = Scene(objects_, by_kind(numbered), virtual_time.now().timestamp())
        outcome = play(scene, Options())
        await cluster.create(*new)
        await at_rest(cluster)
        assert predicted(outcome) == await actual(cluster, predicted(outcome))


@pytest.mark.parametrize("seed", range(3))
async def test_gangs_go_where_the_plan_said(seed, virtual_time):
    random = Random(seed)
    async with Rehearsal("a3-highgpu-1g=2,a2-highgpu-2g=2", seed=seed).going() as cluster:
        await cluster.create(objects.priority_class("high", 5), gpu_template("t1", 1), gpu_template("t2", 2))
        await cluster.create(*random_pods(random, "old", 1, counts=(1, 2)))
        await at_rest(cluster)
        objects_ = (await listed(cluster.client)).objects
        number = random.randint(2, 4)
        group = objects.pod_group("g", minCount=number)
        members = {"schedulingGroup": {"podGroupName": "g"}}
        pods = [
            objects.pod(f"new{index}", templates={"gpu": random.choice(("t1", "t2"))}, **members)
            for index in range(number)
        ]
        outcome = play(Scene(objects_, by_kind([group, *pods]), virtual_time.now().timestamp()), Options())
        await cluster.create(group, *pods)
        await at_rest(cluster)
        assert predicted(outcome) == await actual(cluster, predicted(outcome))
