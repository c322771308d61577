"""What Kubernetes' end-to-end tests ask of a node beside running pods: names, ends, deadlines, probes, groups."""

from __future__ import annotations

import asyncio
import os

import pytest

from dray.client.interface import PatchType
from dray.node import handlers
from dray.testing.cluster import kind_of
from tests.node.machines import pod, ready, restarts, shell, states

root_only = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


@root_only
async def test_a_pod_has_a_name_of_its_own(machine):
    names = {"hostname": "web", "subdomain": "sub", "setHostnameAsFQDN": True}
    aliases = [{"ip": "192.0.2.9", "hostnames": ["other"]}]
    script = "uname -n; cat /etc/hosts"
    made = pod("p", shell(script), hostAliases=aliases, restartPolicy="Never", **names)
    await machine.cluster.create(made)
    said = machine.log(await machine.phase("p", "Succeeded"))
    assert said[:2] == ["web.sub.default.svc.cluster.local", "# Kubernetes-managed hosts file."]
    assert "127.0.0.1\tweb.sub.default.svc.cluster.local web.sub web" in said
    assert said[-2:] == ["# Entries added by HostAliases.", "192.0.2.9\tother"]


async def test_the_log_stands_for_a_message_of_a_run_that_failed_alone(machine):
    policy = {"terminationMessagePolicy": "FallbackToLogsOnError"}
    containers = [shell("echo fine", **policy), shell("echo broken; exit 1", **policy)]
    await machine.cluster.create(pod("p", *containers, restartPolicy="Never"))
    found = states(await machine.phase("p", "Failed"))
    assert "message" not in found["c0"]["terminated"]
    assert found["c1"]["terminated"]["message"] == "broken"


async def test_a_deadline_may_come_while_the_pod_runs(machine):
    await machine.cluster.create(pod("p", shell("sleep 1000")))
    await machine.until("p", ready)
    await machine.cluster.client.patch(
        kind_of("Pod"), "p", {"spec": {"activeDeadlineSeconds": 1}}, namespace="default", patch_type=PatchType.MERGE
    )
    found = await machine.phase("p", "Failed")
    assert found["status"]["reason"] == "DeadlineExceeded"


async def test_a_deadline_that_comes_before_the_volumes_leaves_no_container_waiting(machine):
    volumes = [{"name": "v", "configMap": {"name": "none"}}]
    await machine.cluster.create(pod("p", shell("true"), volumes=volumes, activeDeadlineSeconds=1))
    found = await machine.phase("p", "Failed")
    assert found["status"]["reason"] == "DeadlineExceeded"
    assert states(found)["c0"]["terminated"]["reason"] == "ContainerStatusUnknown"


async def test_a_pod_that_is_deleted_before_it_is_set_up_fails_and_its_containers_never_ran(machine):
    env = [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "none", "key": "a"}}}]
    made = pod("p", shell("true", env=env))
    made["metadata"]["finalizers"] = ["example.com/keep"]
    await machine.cluster.create(made)
    await machine.until("p", lambda each: "CreateContainerConfigError" in str(states(each)))
    await machine.cluster.delete("Pod", "p", grace=1)
    found = await machine.phase("p", "Failed")
    assert states(found)["c0"]["terminated"]["reason"] == "ContainerStatusUnknown"
    await machine.cluster.client.patch(
        kind_of("Pod"), "p", {"metadata": {"finalizers": None}}, namespace="default", patch_type=PatchType.MERGE
    )
    await machine.until("p", None)


async def test_init_containers_stay_ready_over_a_restart_of_the_agent(machine):
    inits = [{"image": "busybox", "name": "first", **shell("true")}]
    await machine.cluster.create(pod("p", shell("sleep 1000"), initContainers=inits))
    await machine.until("p", ready)
    await machine.stop()
    await machine.start()
    found = await machine.until("p", ready)
    assert found["status"]["initContainerStatuses"][0]["ready"] is True


async def test_readiness_is_asked_for_until_the_end(machine, tmp_path):
    probe = {"exec": {"command": ["test", "-e", f"{tmp_path}/ready"]}, "periodSeconds": 1, "failureThreshold": 1}
    script = f"trap 'rm {tmp_path}/ready; sleep 1000' TERM; touch {tmp_path}/ready; while :; do sleep 0.05; done"
    await machine.cluster.create(pod("p", shell(script, readinessProbe=probe)))
    await machine.until("p", ready)
    await machine.cluster.delete("Pod", "p", grace=30)
    await machine.until("p", lambda each: not ready(each))
    await machine.cluster.delete("Pod", "p", grace=0)


async def test_root_is_refused_where_the_pod_says_so(machine):
    await machine.cluster.create(pod("p", shell("true"), securityContext={"runAsNonRoot": True, "runAsUser": 0}))
    found = await machine.until("p", lambda each: "CreateContainerConfigError" in str(states(each)))
    assert "container's runAsUser breaks non-root policy" in str(states(found))


@root_only
async def test_volumes_belong_to_the_group_of_the_pod(machine):
    mounts = [{"name": "scratch", "mountPath": "/scratch"}]
    volumes = [{"name": "scratch", "emptyDir": {}}]
    security = {"fsGroup": 4711, "runAsUser": 1234}
    script = "touch /scratch/file && stat -c %g /scratch /scratch/file"
    await machine.cluster.create(
        pod("p", shell(script, volumeMounts=mounts), volumes=volumes, securityContext=security, restartPolicy="Never")
    )
    assert machine.log(await machine.phase("p", "Succeeded")) == ["4711", "4711"]


async def test_a_host_path_without_a_type_is_made_and_one_with_a_type_is_checked(machine, tmp_path):
    def volumes(place, **kind):
        return [{"name": "place", "hostPath": {"path": str(tmp_path / place), **kind}}]

    def container(place):
        mounts = [{"name": "place", "mountPath": str(tmp_path / place)}]
        return shell(f"test -d {tmp_path / place} && echo there", volumeMounts=mounts)

    await machine.cluster.create(pod("strict", container("c"), volumes=volumes("c", type="Directory")))
    await machine.cluster.create(pod("loose", container("a/b"), volumes=volumes("a/b"), restartPolicy="Never"))
    assert machine.log(await machine.phase("loose", "Succeeded")) == ["there"]
    await machine.cluster.eventually(lambda: told_of(machine, "strict"))


async def told_of(machine, name):
    events = await machine.cluster.list("Event")
    return [each for each in events if each["involvedObject"]["name"] == name and "is not Directory" in each["message"]]


async def answering(answers):
    """A server on this machine that answers each path as told, and its port."""

    async def serve(reader, writer):
        path = (await reader.readline()).split()[1].decode()
        writer.write(answers[path].encode())
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    return server, server.sockets[0].getsockname()[1]


async def test_a_probe_follows_redirects_on_its_own_host_alone():
    broken = "HTTP/1.1 500 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    here = "HTTP/1.1 302 Go\r\nLocation: /broken\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    away = "HTTP/1.1 302 Go\r\nLocation: http://192.0.2.1/\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    server, port = await answering({"/here": here, "/away": away, "/broken": broken})
    async with server:
        for path, problem in (("/away", None), ("/here", "HTTP probe failed with statuscode: 500")):
            handler = {"httpGet": {"path": path, "port": port}}
            assert await handlers.run(handler, {}, "", None, "127.0.0.1") == problem


async def test_a_container_that_a_probe_ends_runs_its_hook_first(machine, tmp_path):
    probe = {"exec": {"command": ["false"]}, "periodSeconds": 1, "failureThreshold": 1}
    hook = {"preStop": {"exec": {"command": ["touch", f"{tmp_path}/stopped"]}}}
    await machine.cluster.create(pod("p", shell("sleep 1000", livenessProbe=probe, lifecycle=hook)))
    found = await machine.until("p", lambda each: restarts(each) == 1)
    assert (tmp_path / "stopped").exists()
    assert found["status"]["containerStatuses"][0]["lastState"]["terminated"]["exitCode"] in (137, 143)


async def test_a_container_whose_first_hook_fails_is_started_again(machine, tmp_path):
    hook = {"postStart": {"exec": {"command": ["test", "-e", f"{tmp_path}/go"]}}}
    await machine.cluster.create(pod("p", shell(f"touch {tmp_path}/ran; sleep 1000", lifecycle=hook)))
    async with asyncio.timeout(20):
        while not (tmp_path / "ran").exists():
            await asyncio.sleep(0.05)
    (tmp_path / "go").touch()
    found = await machine.until("p", ready)
    assert restarts(found) <= 1


async def test_a_container_is_reported_with_its_signal_and_its_creation(machine):
    signalled = {"lifecycle": {"stopSignal": "SIGUSR1"}}
    made = pod("p", shell("trap 'exit 0' USR1; while :; do sleep 0.05; done", **signalled), os={"name": "linux"})
    await machine.cluster.create(made)
    found = await machine.until("p", ready)
    assert found["status"]["containerStatuses"][0]["stopSignal"] == "SIGUSR1"

    async def told():
        events = (await machine.cluster.client.request("GET", "/api/v1/namespaces/default/events"))["items"]
        return {"Created", "Started"} <= {each["reason"] for each in events}

    await machine.cluster.eventually(told)
