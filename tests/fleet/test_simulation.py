"""A simulated fleet as its users see it: nodes, slices, and pods that live by rule."""

import asyncio

import pytest

from dray.testing import objects
from tests.fleet.rehearsal import Rehearsal

ANNOTATION = "simulated.dray.dev"


def pod(name, *templates, **members):
    given = {f"{ANNOTATION}/{key.replace('_', '-')}": str(value) for key, value in members.pop("life", {}).items()}
    return objects.pod(name, templates=templates, annotations=given or None, **members)


def gpu_template(name="one", **wanted):
    return objects.claim_template(name, objects.request(deviceClassName="gpu.nvidia.com", **wanted))


async def test_a_pod_runs_with_its_gpu_and_ends_as_a_kubelet_would_tell(virtual_time):
    async with Rehearsal("a3-highgpu-8g=1").going() as cluster:
        life = {"start_seconds": 2, "run_seconds": 30}
        await cluster.create(gpu_template(), pod("p", "one", restartPolicy="Never", life=life))
        running = await cluster.phase("p", "Running")
        status = running["status"]
        (container,) = status["containerStatuses"]
        assert container["ready"]
        assert container["state"]["running"]["startedAt"] > status["startTime"]
        assert {each["type"]: each["status"] for each in status["conditions"]} == {
            "PodScheduled": "True",
            "PodReadyToStartContainers": "True",
            "Initialized": "True",
            "ContainersReady": "True",
            "Ready": "True",
        }
        assert len(cluster.simulation.kubelets.claims) == 1
        done = await cluster.phase("p", "Succeeded")
        (container,) = done["status"]["containerStatuses"]
        ended = container["state"]["terminated"]
        assert (ended["exitCode"], ended["reason"]) == (0, "Completed")
        ready = next(each for each in done["status"]["conditions"] if each["type"] == "Ready")
        assert (ready["status"], ready["reason"]) == ("False", "PodCompleted")
        assert len(cluster.simulation.kubelets.claims) == 0

        async def released():
            (claim,) = await cluster.list("ResourceClaim") or [{"status": {}}]
            return not (claim.get("status") or {}).get("allocation")

        await cluster.until(released)


async def test_restarts_follow_the_policy_and_back_off(virtual_time):
    async with Rehearsal("cpu-64=1").going() as cluster:
        life = {"run_seconds": 5, "exit_code": "1,1,0"}
        await cluster.create(pod("p", restartPolicy="OnFailure", life=life))
        began = virtual_time.now()

        async def waits():
            found = await cluster.get("Pod", "p")
            statuses = (found.get("status") or {}).get("containerStatuses") or [{"state": {}}]
            return statuses[0] if (statuses[0]["state"].get("waiting") or {}).get("reason") == "CrashLoopBackOff" else 0

        waiting = await cluster.until(waits)
        assert waiting["restartCount"] == 1
        assert waiting["lastState"]["terminated"]["exitCode"] == 1
        done = await cluster.phase("p", "Succeeded")
        assert done["status"]["containerStatuses"][0]["restartCount"] == 2
        # Three runs of five seconds, and ten seconds before the third.
        assert 25 <= (virtual_time.now() - began).total_seconds() <= 32


async def test_a_container_with_another_image_starts_again_and_the_generation_is_observed(virtual_time):
    async with Rehearsal("cpu-64=1").going() as cluster:
        await cluster.create(pod("p"))
        running = await cluster.phase("p", "Running")
        assert running["status"]["observedGeneration"] == 1
        containers = [{**each, "image": "other"} for each in running["spec"]["containers"]]
        await cluster.patch("Pod", "p", {"spec": {"containers": containers}})

        async def observed():
            found = await cluster.get("Pod", "p")
            return found if found["status"]["observedGeneration"] == 2 else None

        (container,) = (await cluster.until(observed))["status"]["containerStatuses"]
        assert (container["image"], container["restartCount"]) == ("other", 1)
        assert container["lastState"]["terminated"]["exitCode"] == 143


async def test_a_deleted_pod_takes_its_time_up_to_the_grace_period(virtual_time):
    async with Rehearsal("cpu-64=1").going() as cluster:
        await cluster.create(pod("slow", terminationGracePeriodSeconds=20, life={"stop_seconds": 8}))
        await cluster.create(pod("stubborn", terminationGracePeriodSeconds=20, life={"stop_seconds": 500}))
        for name, least, most in (("slow", 7, 11), ("stubborn", 19, 23)):
            await cluster.phase(name, "Running")
            began = virtual_time.now()
            await cluster.delete("Pod", name)
            await cluster.until(lambda name=name: gone(cluster, "Pod", name))
            assert least <= (virtual_time.now() - began).total_seconds() <= most


async def test_a_hook_that_sleeps_delays_the_stop(virtual_time):
    async with Rehearsal("cpu-64=1").going() as cluster:
        hook = {"lifecycle": {"preStop": {"sleep": {"seconds": 10}}}}
        container = {**objects.container(), **hook}
        await cluster.create(pod("p", containers=[container], terminationGracePeriodSeconds=20))
        await cluster.phase("p", "Running")
        began = virtual_time.now()
        await cluster.delete("Pod", "p")
        await cluster.until(lambda: gone(cluster, "Pod", "p"))
        assert 9 <= (virtual_time.now() - began).total_seconds() <= 13


async def test_a_container_is_ready_when_its_probes_may_be_made(virtual_time):
    async with Rehearsal("cpu-64=1").going() as cluster:
        probes = {
            "startupProbe": {"initialDelaySeconds": 10, "tcpSocket": {"port": 80}},
            "readinessProbe": {"initialDelaySeconds": 30, "tcpSocket": {"port": 80}},
        }
        await cluster.create(pod("p", containers=[{**objects.container(), **probes}]))
        running = await cluster.phase("p", "Running")
        began = virtual_time.now()
        (container,) = running["status"]["containerStatuses"]
        assert (container["started"], container["ready"]) == (False, False)
        assert {each["type"]: each["status"] for each in running["status"]["conditions"]}["Ready"] == "False"
        for member, least, most in (("started", 8, 12), ("ready", 28, 32)):
            await cluster.until(lambda member=member: found(cluster, member))
            assert least <= (virtual_time.now() - began).total_seconds() <= most
        ready = await cluster.get("Pod", "p")
        assert {each["type"]: each["status"] for each in ready["status"]["conditions"]}["Ready"] == "True"


async def found(cluster, member):
    return (await cluster.get("Pod", "p"))["status"]["containerStatuses"][0][member]


async def gone(cluster, kind, name):
    return await cluster.get(kind, name) is None


async def test_a_device_that_fails_is_tainted_and_recovers(virtual_time):
    async with Rehearsal("a3-highgpu-8g=1").going() as cluster:
        await cluster.create(gpu_template(), pod("p", "one"))
        await cluster.phase("p", "Running")
        (claim,) = await cluster.list("ResourceClaim")
        (held,) = claim["status"]["allocation"]["devices"]["results"]
        key = f"{ANNOTATION}/failed-devices"
        await cluster.annotate("Node", held["pool"], {key: f"gpu.nvidia.com/{held['device']}"})
        # A NoExecute taint drives the pod out.
        await cluster.until(lambda: gone(cluster, "Pod", "p"))
        assert await tainted(cluster) == {held["device"]}
        await cluster.annotate("Node", held["pool"], {key: None})
        await cluster.until(lambda: none_tainted(cluster))


async def tainted(cluster):
    slices = await cluster.list("ResourceSlice")
    return {each["name"] for found in slices for each in found["spec"].get("devices") or () if each.get("taints")}


async def none_tainted(cluster):
    return not await tainted(cluster)


async def test_devices_fail_and_recover_on_schedule(virtual_time, tmp_path):
    stages = tmp_path / "stages.yaml"
    stages.write_text(
        "apiVersion: fleet.dray.dev/v1alpha1\nkind: Stages\ndevices:\n"
        "- {driver: gpu.nvidia.com, device: gpu-3, atSeconds: [60], downSeconds: 30,"
        ' taint: {key: gpu.nvidia.com/xid, value: "79", effect: NoSchedule}}\n'
    )
    async with Rehearsal("a3-highgpu-8g=2", str(stages)).going() as cluster:
        await asyncio.sleep(50)
        assert not await tainted(cluster)
        await asyncio.sleep(15)
        assert await tainted(cluster) == {"gpu-3"}
        await asyncio.sleep(30)
        assert not await tainted(cluster)


async def test_slices_are_repaired_and_go_with_their_node(virtual_time):
    async with Rehearsal("p4d.24xlarge=1").going() as cluster:
        before = {each["metadata"]["name"]: each["spec"] for each in await cluster.list("ResourceSlice")}
        for name in before:
            await cluster.delete("ResourceSlice", name)

        async def repaired():
            found = await cluster.list("ResourceSlice")
            return [each["spec"]["devices"] for each in found] == [each["devices"] for each in before.values()]

        await cluster.until(repaired)
        await cluster.delete("Node", "p4d-24xlarge-0")

        async def none_left():
            return not await cluster.list("ResourceSlice")

        await cluster.until(none_left)


async def test_a_restart_carries_on(virtual_time):
    async with Rehearsal("a3-highgpu-8g=1").going() as cluster:
        await cluster.create(gpu_template(), pod("p", "one", restartPolicy="Never", life={"run_seconds": 60}))
        await cluster.phase("p", "Running")
        began = virtual_time.now()
        versions = {each["metadata"]["resourceVersion"] for each in await cluster.list("Node")}
        await asyncio.sleep(20)
        await cluster.restart_simulation()
        # Nothing had to be written again.
        assert {each["metadata"]["resourceVersion"] for each in await cluster.list("Node")} == versions
        assert len(cluster.simulation.kubelets.claims) == 1
        await cluster.phase("p", "Succeeded")
        assert 55 <= (virtual_time.now() - began).total_seconds() <= 63


async def test_a_node_that_falls_silent_loses_its_pods_and_comes_back(virtual_time, tmp_path):
    stages = tmp_path / "stages.yaml"
    stages.write_text(
        "apiVersion: fleet.dray.dev/v1alpha1\nkind: Stages\nnodes:\n"
        "- {nodes: {name: cpu-64-0}, atSeconds: [100], downSeconds: 1000}\n"
    )
    async with Rehearsal("cpu-64=2", str(stages)).going() as cluster:
        await cluster.create(pod("p", nodeSelector={"kubernetes.io/hostname": "cpu-64-0"}))
        await cluster.phase("p", "Running")

        async def ready(wanted):
            node = await cluster.get("Node", "cpu-64-0")
            return any(each["type"] == "Ready" and each["status"] == wanted for each in node["status"]["conditions"])

        await cluster.until(lambda: ready("Unknown"))

        async def leaving():
            return (await cluster.get("Pod", "p"))["metadata"].get("deletionTimestamp")

        # After five minutes it is to go, but there is nobody who could end it.
        await cluster.until(leaving)
        await cluster.until(lambda: ready("True"))
        await cluster.until(lambda: gone(cluster, "Pod", "p"))


async def test_a_claim_that_cannot_be_prepared_keeps_its_pod_waiting(virtual_time):
    async with Rehearsal("a3-highgpu-8g=1").going() as cluster:
        broken = pod("p", "one", life={"prepare_error": "the driver is on fire"})
        await cluster.create(gpu_template(), broken)

        async def told():
            return [each for each in await cluster.list("Event") if each["reason"] == "FailedPrepareDynamicResources"]

        (event, *_) = await cluster.until(told)
        assert "the driver is on fire" in event["message"]
        assert (await cluster.get("Pod", "p"))["status"]["phase"] == "Pending"


@pytest.mark.parametrize("life", [{}, {"run_seconds": 500}])
@pytest.mark.parametrize("policy", ["Never", "Always"])
async def test_a_deadline_ends_a_pod(virtual_time, policy, life):
    async with Rehearsal("cpu-64=1").going() as cluster:
        began = virtual_time.now()
        await cluster.create(pod("p", restartPolicy=policy, activeDeadlineSeconds=30, life=life))
        failed = await cluster.phase("p", "Failed")
        assert failed["status"]["reason"] == "DeadlineExceeded"
        assert 29 <= (virtual_time.now() - began).total_seconds() <= 40


async def test_slices_are_written_once(virtual_time):
    async with Rehearsal("p5.48xlarge:mig=3").going() as cluster:
        await asyncio.sleep(60)
        slices = await cluster.list("ResourceSlice")
        assert len(slices) == 3 * 11
        assert {each["spec"]["pool"]["generation"] for each in slices} == {1}
        assert {each["metadata"]["generation"] for each in slices} == {1}
