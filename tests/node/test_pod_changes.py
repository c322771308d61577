"""Changes of a pod that runs: ephemeral containers, resources, images."""

from __future__ import annotations

import os

import pytest

from dray.client.errors import ApiError
from dray.client.interface import PatchType
from dray.node import container_control
from dray.node.cgroups import Cgroups
from dray.testing.cluster import kind_of
from tests.node.machines import pod, ready, shell, states


async def change(machine, subresource, spec):
    await machine.cluster.client.patch(
        kind_of("Pod"),
        "p",
        {"spec": spec},
        namespace="default",
        patch_type=PatchType.STRATEGIC,
        subresource=subresource,
    )


def debugger(name="debugger", script="echo hello", **more):
    return {"name": name, "image": "busybox", **shell(script), **more}


async def test_an_ephemeral_container_runs_once_beside_the_others(machine):
    await machine.cluster.create(pod("p", shell("sleep 1000")))
    await machine.until("p", ready)
    await change(machine, "ephemeralcontainers", {"ephemeralContainers": [debugger(targetContainerName="c0")]})
    found = await machine.until(
        "p", lambda each: "terminated" in states(each, "ephemeralContainerStatuses").get("debugger", {})
    )
    assert states(found, "ephemeralContainerStatuses")["debugger"]["terminated"]["exitCode"] == 0
    assert machine.log(found, "debugger") == ["hello"]
    assert ready(found)
    # Another one still runs when the next agent takes over, and ends with the pod.
    lasting = [debugger(targetContainerName="c0"), debugger("second", "sleep 1000")]
    await change(machine, "ephemeralcontainers", {"ephemeralContainers": lasting})
    found = await machine.until(
        "p", lambda each: "running" in states(each, "ephemeralContainerStatuses").get("second", {})
    )
    run = states(found, "ephemeralContainerStatuses")["second"]
    await machine.stop()
    await machine.start()
    assert states(await machine.until("p", ready), "ephemeralContainerStatuses")["second"] == run
    await machine.cluster.delete("Pod", "p", grace=1)
    await machine.until("p", None)
    assert await machine.agent.runtime.containers() == []


async def test_an_ephemeral_container_for_no_container_is_refused(machine):
    await machine.cluster.create(pod("p", shell("sleep 1000")))
    with pytest.raises(ApiError, match="targetContainerName"):
        await change(machine, "ephemeralcontainers", {"ephemeralContainers": [debugger(targetContainerName="none")]})


@pytest.mark.skipif(os.geteuid() != 0 or not Cgroups().usable, reason="needs control groups")
async def test_resources_change_while_a_container_runs(machine):
    machine.agent.runtime._cgroups = Cgroups()
    resources = {"requests": {"cpu": "100m", "memory": "32Mi"}, "limits": {"cpu": "200m", "memory": "64Mi"}}
    await machine.cluster.create(pod("p", shell("sleep 1000", resources=resources)))
    found = await machine.until("p", ready)
    (status,) = found["status"]["containerStatuses"]
    assert (status["resources"], status["allocatedResources"]) == (resources, resources["requests"])
    larger = {"requests": {"cpu": "100m", "memory": "32Mi"}, "limits": {"cpu": "500m", "memory": "128Mi"}}
    await change(machine, "resize", {"containers": [{"name": "c0", "resources": larger}]})
    found = await machine.until("p", lambda each: each["status"]["containerStatuses"][0]["resources"] == larger)
    assert found["status"]["containerStatuses"][0]["restartCount"] == 0
    (group, *_) = [
        each
        for each in machine.agent.runtime._cgroups.find(found["metadata"]["uid"], "c0-0").directories
        if (each / "memory.limit_in_bytes").exists() or (each / "memory.max").exists()
    ]
    name = "memory.max" if (group / "memory.max").exists() else "memory.limit_in_bytes"
    assert int((group / name).read_text()) == 128 << 20


async def test_a_container_is_started_anew_where_its_image_or_its_policy_says_so(machine):
    policy = [{"resourceName": "memory", "restartPolicy": "RestartContainer"}]
    resources = {"limits": {"memory": "64Mi"}}
    await machine.cluster.create(pod("p", shell("sleep 1000", resources=resources, resizePolicy=policy)))
    await machine.until("p", ready)
    await change(machine, "resize", {"containers": [{"name": "c0", "resources": {"limits": {"memory": "128Mi"}}}]})

    def restarted(times):
        return lambda each: ready(each) and each["status"]["containerStatuses"][0]["restartCount"] == times

    await machine.until("p", restarted(1))
    await change(machine, "", {"containers": [{"name": "c0", "image": "alpine"}]})
    found = await machine.until("p", lambda each: each["status"]["containerStatuses"][0]["restartCount"] >= 2, 30)
    assert found["status"]["containerStatuses"][0]["image"] == "alpine"


async def test_a_new_image_cuts_a_back_off_short(machine, monkeypatch):
    monkeypatch.setattr(container_control, "FIRST_BACKOFF", 1000.0)
    monkeypatch.setattr(container_control, "LONGEST_BACKOFF", 1000.0)
    await machine.cluster.create(pod("p", {"image": "example.com/unknown"}))
    await machine.until("p", lambda each: "ErrImagePull" in str(states(each)))
    await change(machine, "", {"containers": [{"name": "c0", "image": "pause"}]})
    await machine.until("p", ready)
