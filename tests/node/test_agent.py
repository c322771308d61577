"""The node agent: pods that are bound to its node run as processes, and their status tells how they fare."""

from __future__ import annotations

import asyncio
import os

import pytest

from tests.node.machines import NODE, pod, ready, shell, states


async def test_the_node_is_registered_and_ready(machine):
    node = await machine.cluster.get("Node", NODE, namespace="")
    ready = {each["type"]: each["status"] for each in node["status"]["conditions"]}
    assert ready["Ready"] == "True"
    assert int(node["status"]["capacity"]["cpu"]) == os.cpu_count()
    assert await machine.cluster.get("Lease", NODE, namespace="kube-node-lease")


async def test_a_pod_runs_and_succeeds(machine):
    await machine.cluster.create(pod("p", shell("echo hello; echo bye > /dev/termination-log"), restartPolicy="Never"))
    found = await machine.phase("p", "Succeeded")
    ended = states(found)["c0"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (0, "Completed")
    assert machine.log(found) == ["hello"]
    if os.geteuid() == 0:
        assert ended["message"] == "bye\n"


async def test_a_pod_fails_with_the_exit_code_of_its_container(machine):
    await machine.cluster.create(pod("p", shell("exit 7"), restartPolicy="Never"))
    found = await machine.phase("p", "Failed")
    assert states(found)["c0"]["terminated"]["exitCode"] == 7


async def test_a_running_pod_is_ready_and_ends_when_it_is_deleted(machine):
    await machine.cluster.create(pod("p", shell("trap 'exit 0' TERM; while :; do sleep 0.05; done")))
    found = await machine.until("p", lambda each: ready(each))
    assert found["status"]["phase"] == "Running"
    await machine.cluster.delete("Pod", "p", grace=5)
    await machine.until("p", None)
    assert await machine.agent.runtime.containers() == []


async def test_init_containers_run_in_order_and_sidecars_beside(machine, tmp_path):
    inits = [
        {"image": "busybox", "name": "first", **shell(f"echo first >> {tmp_path}/order")},
        {
            "image": "busybox",
            "name": "side",
            "restartPolicy": "Always",
            **shell(f"echo side >> {tmp_path}/order; sleep 1000"),
        },
        {"image": "busybox", "name": "second", **shell(f"echo second >> {tmp_path}/order")},
    ]
    main = shell(f"sleep 0.2; echo main >> {tmp_path}/order")
    await machine.cluster.create(pod("p", main, initContainers=inits, restartPolicy="Never"))
    found = await machine.phase("p", "Succeeded")
    order = (tmp_path / "order").read_text().split()
    assert [each for each in order if each != "side"] == ["first", "second", "main"]
    assert "side" in order
    assert states(found, "initContainerStatuses")["side"]["terminated"]["exitCode"] in (137, 143)


async def test_an_init_container_that_fails_ends_a_pod_that_is_never_restarted(machine):
    inits = [{"image": "busybox", "name": "first", **shell("exit 3")}]
    await machine.cluster.create(pod("p", shell("true"), initContainers=inits, restartPolicy="Never"))
    found = await machine.phase("p", "Failed")
    assert states(found, "initContainerStatuses")["first"]["terminated"]["exitCode"] == 3
    assert "waiting" in states(found)["c0"]


async def test_a_container_that_fails_is_started_again_and_then_backed_off(machine):
    await machine.cluster.create(pod("p", shell("exit 1")))
    found = await machine.until("p", lambda each: "CrashLoopBackOff" in str(states(each)))
    (status,) = found["status"]["containerStatuses"]
    assert status["restartCount"] == 1
    assert status["lastState"]["terminated"]["exitCode"] == 1
    assert found["status"]["phase"] == "Running"


async def test_liveness_restarts_and_readiness_holds_back(machine, tmp_path):
    probes = {
        "livenessProbe": {
            "exec": {"command": ["test", "!", "-e", f"{tmp_path}/sick"]},
            "periodSeconds": 1,
            "failureThreshold": 1,
        },
        "readinessProbe": {"exec": {"command": ["test", "-e", f"{tmp_path}/ready"]}, "periodSeconds": 1},
    }
    await machine.cluster.create(pod("p", shell(f"rm -f {tmp_path}/sick; sleep 1000", **probes)))
    found = await machine.phase("p", "Running")
    assert not ready(found)
    (tmp_path / "ready").touch()
    await machine.until("p", ready)
    (tmp_path / "sick").touch()
    found = await machine.until("p", lambda each: each["status"]["containerStatuses"][0]["restartCount"] == 1)
    assert found["status"]["containerStatuses"][0]["lastState"]["terminated"]["exitCode"] in (137, 143)


async def test_environment_and_volumes(machine):
    if os.geteuid() != 0:
        pytest.skip("mounts need root")
    await machine.cluster.create(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "default"}, "data": {"a": "1"}}
    )
    env = [
        {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "a"}}},
        {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        {"name": "BOTH", "value": "$(A)-$(NODE)"},
    ]
    mounts = [{"name": "config", "mountPath": "/config"}, {"name": "scratch", "mountPath": "/scratch"}]
    volumes = [{"name": "config", "configMap": {"name": "c"}}, {"name": "scratch", "emptyDir": {}}]
    script = "echo $BOTH; cat /config/a; echo; echo x > /scratch/x; cat /scratch/x"
    await machine.cluster.create(
        pod("p", shell(script, env=env, volumeMounts=mounts), volumes=volumes, restartPolicy="Never")
    )
    found = await machine.phase("p", "Succeeded")
    assert machine.log(found) == ["1-here", "1", "x"]


async def test_what_is_missing_is_waited_for_with_the_reason(machine):
    env = [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "none", "key": "a"}}}]
    await machine.cluster.create(pod("p", shell("true", env=env)))
    found = await machine.until("p", lambda each: "CreateContainerConfigError" in str(states(each)))
    assert 'secret "none" not found' in str(states(found))


async def test_pods_go_on_while_the_agent_restarts(machine, tmp_path):
    await machine.cluster.create(
        pod("p", shell(f"while [ ! -e {tmp_path}/go ]; do sleep 0.05; done; exit 4"), restartPolicy="Never")
    )
    before = await machine.until("p", ready)
    await machine.stop()
    (tmp_path / "go").touch()
    await machine.start()
    after = await machine.phase("p", "Failed")
    assert states(after)["c0"]["terminated"]["exitCode"] == 4
    identity = [each["status"]["containerStatuses"][0]["containerID"] for each in (before, after)]
    assert identity[0] == identity[1]


async def test_a_pod_that_was_deleted_while_no_agent_ran_is_ended(machine):
    await machine.cluster.create(pod("p", shell("sleep 1000")))
    await machine.until("p", ready)
    await machine.stop()
    await machine.cluster.delete("Pod", "p", grace=0)
    await machine.start()
    async with asyncio.timeout(20):
        while await machine.agent.runtime.containers():
            await asyncio.sleep(0.05)


async def test_a_pod_past_its_deadline_fails(machine):
    await machine.cluster.create(pod("p", shell("sleep 1000"), activeDeadlineSeconds=1, restartPolicy="Never"))
    found = await machine.phase("p", "Failed")
    assert found["status"]["reason"] == "DeadlineExceeded"
