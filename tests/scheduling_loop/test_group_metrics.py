"""Metrics of groups and queues are what is there when somebody asks."""

from dray.client.foreign_kinds import definitions
from dray.scheduling.scheduler import Options
from dray.testing import objects
from dray.testing.cluster import LocalCluster
from tests import gpus
from tests.scheduling.test_queues import GPU, QUEUE, cluster_queue, flavor, local_queue, nominal
from tests.scheduling_loop.test_queue_feed import make

API = "kueue.x-k8s.io"


def queued(name, **more):
    return gpus.pod(name, labels={QUEUE: "team"}, **more)


async def test_groups_and_queues():
    there = [objects.node("n"), gpus.slice_of("n", 4), gpus.device_class("gpu"), objects.claim_template("one")]
    async with LocalCluster(
        scheduler=Options(), controllers=["resourceclaim", "podgroup-protection"], objects=[*there, *definitions()]
    ) as local:

        def pods(state):
            return local.sample("dray_queue_pods", {"api": API, "queue": "team", "state": state})

        async def counted():
            return (pods("admitted"), pods("waiting")) == (2, 1)

        await make(local, flavor())
        await make(local, cluster_queue("team", ("any", {GPU: nominal(2)})))
        await make(local, local_queue("team", "team"))
        assert local.sample("dray_scheduler_waiting_groups") == 0
        for n in range(3):
            await local.create(queued(f"p{n}", templates=["one"]))
        await local.eventually(counted)
        labels = {"api": API, "queue": "team", "flavor": "any", "resource": GPU}
        assert local.sample("dray_queue_used", labels) == 2
        await local.create(objects.pod_group("g", minCount=3))
        for n in range(3):
            await local.create(gpus.pod(f"g{n}", templates=["one"], schedulingGroup={"podGroupName": "g"}))

        async def refused():
            return local.sample("dray_scheduler_group_attempts_total", {"result": "unschedulable"})

        assert await local.eventually(refused) == 1
        assert local.sample("dray_scheduler_waiting_groups") == 1
        assert local.sample("dray_scheduler_groups_without_room") == 1
        assert local.sample("dray_scheduler_groups_with_reservation") == 0
        assert local.sample("dray_scheduler_reservations_total", {"result": "begun"}) == 0
        await local.delete("Pod", "p0")
        await local.delete("Pod", "p1")
        await local.delete("Pod", "p2")

        async def scheduled():
            return local.sample("dray_scheduler_group_attempts_total", {"result": "scheduled"})

        assert await local.eventually(scheduled) == 1
        assert local.sample("dray_scheduler_waiting_groups") == 0
