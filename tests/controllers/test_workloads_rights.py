"""The built-in roles of the controllers of workloads are enough for what these do."""

import asyncio

from dray.control_plane.control_plane import ControlPlane, PlaneOptions
from dray.testing import objects
from dray.testing.cluster import LocalCluster
from tests.control_plane.test_roles import service_account
from tests.controllers.workloads import until

ACCOUNTS = {
    "deployment": "deployment-controller",
    "replicaset": "replicaset-controller",
    "replicationcontroller": "replication-controller",
    "disruption": "disruption-controller",
}


async def test_they_suffice_for_roll_outs_adoption_and_budgets():
    forbidden = []
    async with LocalCluster() as local:
        planes = [
            ControlPlane(service_account(local, account, forbidden), PlaneOptions(None, (name,)))
            for name, account in ACCOUNTS.items()
        ]
        tasks = [asyncio.create_task(plane.run()) for plane in planes]
        await local.create(objects.pod("stray", labels={"app": "rc"}))
        await local.create(objects.replication_controller("rc", replicas=2))
        await local.create(objects.deployment("web", replicas=2, revisionHistoryLimit=0))
        await local.create(objects.pod_disruption_budget("web", {"app": "web"}, minAvailable="50%"))

        async def running(revision):
            found = await local.get("Deployment", "web")
            sets = await local.list("ReplicaSet")
            is_all = found["status"].get("availableReplicas") == found["status"].get("replicas") == 2
            numbers = [each["metadata"]["annotations"]["deployment.kubernetes.io/revision"] for each in sets]
            return is_all and numbers == [revision]

        async def well():
            rc = (await local.get("ReplicationController", "rc"))["status"]
            budget = (await local.get("PodDisruptionBudget", "web")).get("status") or {}
            return rc.get("readyReplicas") == 2 and budget.get("disruptionsAllowed") == 1

        await until(local, lambda: running("1"))
        await until(local, well)
        restart = {"spec": {"template": {"metadata": {"annotations": {"restartedAt": "now"}}}}}
        await local.patch("Deployment", "web", restart)
        await until(local, lambda: running("2"))
        await local.patch("Pod", "stray", {"metadata": {"labels": {"app": "none"}}})
        await until(local, well)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    assert forbidden == []
