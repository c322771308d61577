"""Pods whose processes were all ended while no agent ran: by `dray down --pods`, by a reboot, or by hand."""

import asyncio
import contextlib
import json
import os
import signal

import pytest

from dray.node.runtimes.podman.runtime import PodmanRuntime
from dray.testing.cluster import LocalCluster
from tests.node.machines import NODE, Machine, pod, restarts, shell, states
from tests.node.runtimes import busybox


@pytest.fixture(params=["process", pytest.param("podman", marks=busybox.needs_podman)])
async def machine(request, tmp_path):
    """A node with a runtime, on a cluster of its own."""
    make = None
    if request.param == "podman":
        busybox.image()

        def make(root, cdi):
            return PodmanRuntime(root, cdi_directories=[cdi])

    async with LocalCluster(controllers=["serviceaccount"]) as cluster:
        machine = Machine(cluster, tmp_path, runtime=make)
        await machine.start()
        yield machine
        await machine.stop()
        await machine.clean()


async def end_pods(machine):
    """Ends all pods as `dray down --pods` does."""
    runtime = machine._make_runtime(machine.root / "run", machine.root / "cdi")
    for uid in await runtime.pods():
        assert await runtime.end_pod(uid)
        assert not await runtime.end_pod(uid)


async def kill_everything(machine):
    """Kills all processes of pods as a power failure does: no supervisor records how they ended."""
    root = str(machine.root).encode()
    pids = set()
    for path in machine.root.glob("run/containers/*/state.json"):
        pids |= {json.loads(path.read_text())[name] for name in ("pid", "shim")}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{entry}/cmdline", "rb") as file:
            if root in file.read():
                pids.add(int(entry))
    # A stopped supervisor writes nothing down about the containers that are killed after it.
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for pid in pids - {os.getpid()}:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
    runtime = machine._make_runtime(machine.root / "run", machine.root / "cdi")
    async with asyncio.timeout(20):
        while any(container.running for container in await runtime.containers()):
            await asyncio.sleep(0.05)


async def remove_everything(machine):
    """Removes all containers as `podman rm` does, or a user who deletes files."""
    runtime = machine._make_runtime(machine.root / "run", machine.root / "cdi")
    for uid in await runtime.pods():
        await runtime.remove_sandbox(uid)


@pytest.mark.parametrize("end", [end_pods, kill_everything, remove_everything])
async def test_a_pod_that_is_never_restarted_has_failed_and_others_are_restarted(machine, end):
    image = {"image": busybox.IMAGE, "imagePullPolicy": "Never"}
    await machine.cluster.create(pod("job", shell("echo once; exec sleep 1000", **image), restartPolicy="Never"))
    await machine.cluster.create(pod("service", shell("echo again; exec sleep 1000", **image)))
    for name in ("job", "service"):
        found = await machine.until(name, lambda found_pod: "running" in str(states(found_pod)), within=60)
        async with asyncio.timeout(20):
            while not machine.log(found):
                await asyncio.sleep(0.05)
    await machine.stop()
    await end(machine)
    await machine.start()
    job = await machine.until("job", lambda found_pod: found_pod["status"].get("phase") == "Failed", within=60)
    assert states(job)["c0"]["terminated"]["exitCode"] in (137, 255)
    assert restarts(job) == 0
    assert machine.log(job) == ["once"]
    service = await machine.until(
        "service", lambda found_pod: restarts(found_pod) == 1 and "running" in str(states(found_pod)), within=60
    )
    assert machine.log(service) == ["again"]
    assert service["status"]["containerStatuses"][0]["lastState"]["terminated"]["exitCode"] in (137, 255)


async def test_a_job_that_succeeded_while_no_agent_ran_has_succeeded_after_its_pods_were_ended(machine, tmp_path):
    script = "while [ ! -e /go/now ]; do sleep 0.05; done"
    script = script.replace("/go", str(tmp_path)) if machine.agent.runtime.name == "process" else script
    container = shell(script, image=busybox.IMAGE, imagePullPolicy="Never")
    volumes = [{"name": "go", "hostPath": {"path": str(tmp_path)}}]
    if machine.agent.runtime.name == "podman":
        container["volumeMounts"] = [{"name": "go", "mountPath": "/go"}]
    await machine.cluster.create(pod("job", container, restartPolicy="Never", volumes=volumes))
    await machine.until("job", lambda found_pod: "running" in str(states(found_pod)), within=60)
    await machine.stop()
    (tmp_path / "now").touch()
    runtime = machine._make_runtime(machine.root / "run", machine.root / "cdi")
    (container,) = await runtime.containers()
    await runtime.wait(container.id)
    assert not await runtime.end_pod(container.pod_uid)
    await machine.start()
    found = await machine.until(
        "job", lambda found_pod: found_pod["status"].get("phase") in ("Succeeded", "Failed"), within=60
    )
    assert found["status"]["phase"] == "Succeeded"
    assert found["spec"]["nodeName"] == NODE
