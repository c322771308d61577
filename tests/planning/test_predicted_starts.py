"""Pods of a cluster start when the plan said, as others come to their time limits."""

import asyncio
from random import Random

import pytest

from dray.answers.manifests.given import read_given
from dray.answers.plan import Question, cluster_base, plan_reading
from dray.api.times import seconds_of
from dray.testing import objects
from tests.fleet.rehearsal import Rehearsal
from tests.planning.test_prediction import at_rest, gpu_template
from tests.planning.test_workloads import Live

SLACK = 60
"""Seconds that pods take to start and to end, which a plan does not know."""


def limited(name, seconds=None):
    members = {"activeDeadlineSeconds": seconds} if seconds else {}
    return objects.pod(name, templates={"gpu": "t1"}, requests={"cpu": "1"}, restartPolicy="Never", **members)


@pytest.mark.parametrize("seed", range(2))
async def test_pods_start_when_the_plan_said(seed, virtual_time):
    random = Random(seed)
    async with Rehearsal("a2-highgpu-2g=2", seed=seed).going() as cluster:
        await cluster.create(gpu_template("t1", 1))
        limits = [random.choice((300, 500, 900, 1300, None)) for _ in range(4)]
        await cluster.create(*(limited(f"old{number}", limit) for number, limit in enumerate(limits)))
        await at_rest(cluster)
        new = [limited(f"new{number}", random.choice((400, None))) for number in range(3)]
        base = await cluster_base(Live(cluster.client, "default", lambda: virtual_time.now().timestamp()))
        answer = plan_reading(read_given(new), base, Question(seconds=30))
        for each in new:
            await cluster.create(each)
            await at_rest(cluster)
        await asyncio.sleep(3600)
        pods = {each["metadata"]["name"]: each for each in await cluster.list("Pod")}
    assert not any(each.node for each in answer.pods)
    assert answer.plan.starts
    for each in answer.pods:
        start, began = answer.plan.starts.get(each.key), pods[each.name]["status"].get("startTime")
        assert (start is None) == (began is None), answer.text
        assert start is None or abs(seconds_of(began) - start.latest) < SLACK, (each.name, began, answer.text)
