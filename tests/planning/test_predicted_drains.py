"""A drain moves pods as the plan said: to the same nodes, with the same devices."""

from random import Random

import pytest

from dray.answers.manifests.given import read_given
from dray.answers.plan import Question, cluster_base, plan_reading
from dray.testing import objects
from tests.fleet.rehearsal import Rehearsal
from tests.planning.test_predicted_worlds import COUNT, FIRST, found_in, said_by
from tests.planning.test_prediction import at_rest, gpu_template
from tests.planning.test_workloads import Live


def deployment(name, count, replicas):
    pod = objects.pod(name, templates={"gpu": f"t{count}"}, requests={"cpu": "1"}, labels={"name": name})
    made = objects.deployment(name, pod, replicas=replicas)
    made["spec"]["selector"] = {"matchLabels": {"name": name}}
    return made


@pytest.mark.parametrize("seed", range(FIRST, FIRST + COUNT))
async def test_a_drain_does_what_the_plan_said(seed, virtual_time):
    random = Random(seed)
    async with Rehearsal("a2-highgpu-2g=4", seed=seed).going() as cluster:
        await cluster.create(gpu_template("t1", 1), gpu_template("t2", 2))
        for name in ("old0", "old1", "old2"):
            await cluster.create(deployment(name, random.choice((1, 1, 2)), random.randint(1, 2)))
            await at_rest(cluster)
        before = await cluster.list("Pod")
        node = random.choice([each["spec"]["nodeName"] for each in before if each["spec"].get("nodeName")])
        base = await cluster_base(Live(cluster.client, "default", lambda: virtual_time.now().timestamp()))
        answer = plan_reading(read_given([]), base, Question(drain=[node], seconds=0))
        stayed = [each for each in await found_in(cluster) if each[1] != node]
        await cluster.patch("Node", node, {"spec": {"unschedulable": True}})
        for each in before:
            if each["spec"].get("nodeName") == node:
                await cluster.delete("Pod", each["metadata"]["name"])
        await at_rest(cluster)
        after = await found_in(cluster)
    assert answer.evicted
    predicted = [*stayed, *(said_by(each.again) for each in answer.evicted)]
    # Pods of several workloads come back in any order, and may swap their places.
    assert sorted(each[1:] for each in predicted) == sorted(each[1:] for each in after), answer.text
