"""The manifests of drivers in examples/deploy: their rights are enough and not more, their policy holds."""

import json
from contextlib import asynccontextmanager, suppress
from importlib.metadata import version

import msgspec
import pytest

from dray.api.objects import walk
from dray.cel import types as t
from dray.cel.environment import DEVICE, Environment
from dray.cel.selector import compile_device_expression
from dray.cli.driver import driver
from dray.client.api import ApiClient
from dray.driver import RunnerOptions
from dray.driver.runner import DriverRunner
from dray.drivers.cpu.driver import CpuDriver
from dray.drivers.cpu.options import CpuOptions
from dray.drivers.devices.classes import device_classes
from dray.drivers.devices.gpu import DRIVER as GPU
from dray.drivers.devices.names import NIC, TPU
from dray.drivers.gpu.options import GpuOptions
from dray.drivers.nic.options import NicOptions
from dray.drivers.registry import setting_names
from dray.drivers.tpu.options import TpuOptions
from dray.drivers.tpu.slices import TpuSlices
from dray.node.errors import NodeError
from dray.scheduling.scheduler import Options
from dray.server.authorization import User
from dray.server.inprocess import InProcessTransport
from dray.testing.cluster import LocalCluster, kind_of
from dray.testing.kubelet.double import KubeletDouble
from dray.testing.objects import claim, node, pod, request, resource_slice
from tests.control_plane.test_roles import DEPLOY, Listening, manifests, without
from tests.drivers.cpu.machines import machine, write_sysfs
from tests.drivers.tpu.test_slices import host

NODE_NAME = "authentication.kubernetes.io/node-name"
ACCOUNT = "system:serviceaccount:kube-system:dray-driver-cpu"
SERVED = ("ServiceAccount", "ClusterRole", "ClusterRoleBinding", "DeviceClass")


def document(kind, driver="cpu"):
    return next(each for each in manifests(f"driver-{driver}") if each["kind"] == kind)


@asynccontextmanager
async def deployed(settings, forbidden, missing=()):
    """A cluster in which the driver has the rights of the manifest, apart from one that is missing."""
    async with LocalCluster(scheduler=Options(), objects=[node("worker")]) as cluster:
        for each in manifests("driver-cpu"):
            if each["kind"] == "ClusterRole" and missing:
                each["rules"] = without(each["rules"], *missing)
            if each["kind"] in SERVED:
                await cluster.client.create(kind_of(each["kind"], each["apiVersion"]), each)
        groups = ("system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated")
        user = User(ACCOUNT, groups, extra={NODE_NAME: ("worker",)})
        client = ApiClient(Listening(InProcessTransport(cluster.application, user), forbidden))
        async with KubeletDouble(cluster.client, "worker") as kubelet:
            place = RunnerOptions(
                node_name="worker", kubelet_root=kubelet.root, cdi_directory=kubelet.cdi, repair_delay=0.1
            )
            async with DriverRunner(CpuDriver(settings), client, place):
                yield cluster, kubelet


@pytest.fixture
def settings(tmp_path):
    root = write_sysfs(tmp_path, machine(nodes=2, cores=2))
    return msgspec.convert({"sysfsRoot": str(root), "cgroupRoot": "/nonexistent", "reservedCPUs": "0"}, CpuOptions)


# Of a pool that the driver does not have.
STALE = resource_slice("stale", "old", driver="dra.cpu", pool="gone", nodeName="worker")


async def slices(cluster):
    return {each["metadata"]["name"]: each for each in await cluster.list("ResourceSlice")}


async def placed(cluster):
    """A pod with a claim is bound."""
    await cluster.create(claim("c", request("cpus", deviceClassName="dra.cpu")))
    await cluster.create(pod("p", claims=["c"]))

    async def bound():
        return (await cluster.get("Pod", "p"))["spec"].get("nodeName")

    await cluster.eventually(bound)


async def live(cluster, kubelet):
    """Devices published and repaired, a claim prepared with its status."""

    await cluster.create(STALE)

    async def published():
        found = await slices(cluster)
        return found if found and "stale" not in found else None

    (name, stored) = next(iter((await cluster.eventually(published)).items()))
    edited = {**stored, "spec": {**stored["spec"], "devices": stored["spec"]["devices"][:1]}}
    await cluster.client.update(kind_of("ResourceSlice"), edited)

    async def repaired():
        return len((await slices(cluster))[name]["spec"]["devices"]) == 2

    await cluster.eventually(repaired)
    await placed(cluster)
    await kubelet.start_pod("p")

    async def told():
        return (await cluster.get("ResourceClaim", "c"))["status"].get("devices")

    await cluster.eventually(told)


async def test_the_rights_suffice_from_publishing_to_the_status_of_claims(settings):
    forbidden = []
    async with deployed(settings, forbidden) as (cluster, kubelet):
        await live(cluster, kubelet)
    assert forbidden == []


@pytest.mark.parametrize(
    ("missing", "refused"),
    [
        (("nodes", "get"), "GET /api/v1/nodes/worker"),
        (("resourceslices", "list"), "GET /apis/resource.k8s.io/v1/resourceslices"),
        (("resourceslices", "create"), "POST /apis/resource.k8s.io/v1/resourceslices"),
        (("resourceslices", "delete"), "DELETE /apis/resource.k8s.io/v1/resourceslices/stale"),
    ],
)
async def test_none_of_the_rights_is_too_much(settings, missing, refused):
    forbidden = []
    async with deployed(settings, forbidden, missing) as (cluster, _):
        await cluster.create(STALE)

        async def heard():
            return refused in forbidden

        await cluster.eventually(heard)


@pytest.mark.parametrize(
    ("missing", "refused"),
    [
        (("resourceclaims", "get"), 'cannot get resource "resourceclaims"'),
        (("resourceclaims/status", "patch"), 'cannot patch resource "resourceclaims/status"'),
        (("resourceclaims/driver", "associated-node:patch"), 'requires resource="resourceclaims/driver"'),
    ],
)
async def test_without_rights_on_claims_nothing_is_prepared_or_told(settings, missing, refused, caplog):
    async with deployed(settings, [], missing) as (cluster, kubelet):
        await placed(cluster)
        await kubelet.registered("dra.cpu")
        with suppress(NodeError):
            await kubelet.try_pod("p")

        async def heard():
            return refused in caplog.text

        await cluster.eventually(heard)
        assert "devices" not in (await cluster.get("ResourceClaim", "c"))["status"]


POLICY = Environment(
    "policy",
    dict.fromkeys(("request", "object", "oldObject", "variables"), t.DYN),
    DEVICE.functions,
    DEVICE.constants,
    object_fields={},
)


def judged(operation, slice_node, *, username=ACCOUNT, token_node="worker"):
    """What the policy says: None where it is not asked, else the messages of what fails."""
    spec = document("ValidatingAdmissionPolicy")["spec"]
    extra = {NODE_NAME: [token_node]} if token_node else {}
    asking = {"operation": operation, "userInfo": {"username": username, "extra": extra}}
    stored = {"spec": {"nodeName": slice_node} if slice_node else {"allNodes": True}}
    new, old = (None, stored) if operation == "DELETE" else (stored, None)
    variables = {}

    def answer(expression):
        return compile_device_expression(expression, env=POLICY).run(asking, new, old, variables).value

    if not all(answer(each["expression"]) for each in spec["matchConditions"]):
        return None
    for each in spec["variables"]:
        variables[each["name"]] = answer(each["expression"])
    failed = [each for each in spec["validations"] if not answer(each["expression"])]
    return [each.get("message") or answer(each["messageExpression"]) for each in failed]


@pytest.mark.parametrize("operation", ["CREATE", "UPDATE", "DELETE"])
def test_the_policy_keeps_the_driver_to_slices_of_its_own_node(operation):
    start = "the driver on node worker may not write ResourceSlices of "
    assert judged(operation, "worker") == []
    assert judged(operation, "other") == [f"{start}node other"]
    assert judged(operation, "") == [f"{start}all nodes"]
    assert judged(operation, "other", username="system:kube-scheduler") is None
    assert judged(operation, "worker", token_node="")[0].startswith("the token of the driver names no node")


@pytest.mark.parametrize(
    ("name", "options"), [("cpu", CpuOptions), ("gpu", GpuOptions), ("nic", NicOptions), ("tpu", TpuOptions)]
)
def test_the_daemon_set_runs_what_the_manifest_grants(name, options):
    pod_spec = document("DaemonSet", name)["spec"]["template"]["spec"]
    (container,) = pod_spec["containers"]
    assert pod_spec["serviceAccountName"] == document("ServiceAccount", name)["metadata"]["name"]
    assert {each["name"] for each in container["volumeMounts"]} == {each["name"] for each in pod_spec["volumes"]}
    made = driver.make_context("driver", [*container["command"][2:], "--inspect"])
    assert made.params["name"] == name
    assert made.params["metrics_port"] == container["ports"][0]["containerPort"]
    assert {each.partition("=")[0] for each in made.params["settings"]} <= set(setting_names(options))


@pytest.mark.parametrize(("name", "driver_name"), [("gpu", GPU), ("nic", NIC)])
def test_others_have_the_rights_of_the_cpu_driver_and_their_own_classes(name, driver_name):
    def written(kind, name):
        return json.dumps(document(kind, name)).replace(f"dray-driver-{name}", "NAME")

    for kind in ("ClusterRoleBinding", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"):
        assert written(kind, name) == written(kind, "cpu")
    rules = document("ClusterRole", name)["rules"]
    if name == "gpu":
        assert rules.pop() == {"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch"]}
    assert json.dumps(rules).replace(driver_name, "dra.cpu") == json.dumps(document("ClusterRole")["rules"])
    classes = [each for each in manifests(f"driver-{name}") if each["kind"] == "DeviceClass"]
    assert classes == device_classes([driver_name])


def test_the_tpu_driver_needs_no_more_than_to_publish_and_to_read_claims():
    names = ("nodes", "resourceslices", "resourceclaims")
    granted = [each for each in document("ClusterRole")["rules"] if each["resources"][0] in names]
    assert document("ClusterRole", "tpu")["rules"] == granted
    for kind in ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"):
        assert json.dumps(document(kind, "tpu")).replace("-tpu", "-cpu") == json.dumps(document(kind))
    assert [each for each in manifests("driver-tpu") if each["kind"] == "DeviceClass"] == device_classes([TPU])


async def test_slices_over_several_nodes_are_published_and_withdrawn_with_the_rights_of_their_manifest():
    forbidden = []
    async with LocalCluster(objects=[host(f"a-{number}", "a") for number in range(4)]) as cluster:
        for each in manifests("driver-tpu-slices"):
            if each["kind"] in SERVED:
                await cluster.client.create(kind_of(each["kind"], each["apiVersion"]), each)
        groups = ("system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated")
        user = User("system:serviceaccount:kube-system:dray-driver-tpu-slices", groups)
        client = ApiClient(Listening(InProcessTransport(cluster.application, user), forbidden))
        async with DriverRunner(TpuSlices(), client, RunnerOptions()):
            await cluster.eventually(lambda: slices(cluster))
            await cluster.delete("Node", "a-0")

            async def withdrawn():
                return not await slices(cluster)

            await cluster.eventually(withdrawn)
    assert forbidden == []


def test_images_have_a_tag_that_nodes_need_not_pull_each_time():
    containers = [
        container
        for path in sorted(DEPLOY.glob("*.yaml"))
        for document in manifests(path.stem)
        for container in walk(document, "spec", "template", "spec").get("containers", ())
    ]
    assert len(containers) >= 7
    built = f"dray:{version('dray')}"
    assert {container["image"] for container in containers} == {built}
    assert f"--tag {built} " in (DEPLOY / "Containerfile").read_text()
