"""A pod with a claim for a volume runs on a node: the directory is made, kept for the next pod, and removed."""

import pytest

from dray.node.node_registration import remove_volumes
from dray.scheduling.scheduler import Options
from dray.testing.cluster import LocalCluster
from tests.node.machines import Machine, pod, shell

CONTROLLERS = [
    "serviceaccount",
    "persistentvolume-binder",
    "ephemeral-volume",
    "garbage-collector",
    "persistentvolumeclaim-protection",
    "persistentvolume-protection",
    "node-lifecycle",
]
CLAIM = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "data"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}},
}


def using(name, script):
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    container = shell(script, volumeMounts=[{"name": "data", "mountPath": "/tmp/data"}])
    made = pod(name, container, restartPolicy="Never", volumes=volumes)
    del made["spec"]["nodeName"]
    return made


@pytest.fixture
async def machine(tmp_path):
    """A node with the controllers of volumes; the class of its volumes is there."""
    async with LocalCluster(controllers=CONTROLLERS, scheduler=Options()) as cluster:
        machine = Machine(cluster, tmp_path)
        await machine.start()
        await cluster.eventually(lambda: cluster.get("StorageClass", "standard"))
        yield machine
        await machine.stop()
        await machine.clean()


async def test_a_claim_gets_a_directory_of_the_node(machine):
    cluster = machine.cluster
    made = await cluster.create(CLAIM)
    assert made["spec"]["storageClassName"] == "standard"
    await cluster.create(using("first", "echo kept > /tmp/data/file"))
    await machine.phase("first", "Succeeded")
    await cluster.create(using("second", "cat /tmp/data/file"))
    assert machine.log(await machine.phase("second", "Succeeded")) == ["kept"]
    (directory,) = (machine.root / "persistent-volumes").iterdir()
    for name in ("first", "second"):
        await cluster.delete("Pod", name)
    await cluster.delete("PersistentVolumeClaim", "data")

    async def is_asked():
        node = await cluster.get("Node", "here")
        return directory.name in node["metadata"]["annotations"].get("dray.dev/volumes-to-remove", "")

    async def is_gone():
        return not directory.exists() and not await cluster.list("PersistentVolume")

    await cluster.eventually(is_asked)
    # It looks once a minute by itself.
    machine.agent._registration.changed()
    await cluster.eventually(is_gone)


async def test_an_ephemeral_volume_has_a_claim_of_the_pod_alone(machine):
    cluster = machine.cluster
    made = using("p", "echo here > /tmp/data/file && cat /tmp/data/file")
    made["spec"]["volumes"] = [{"name": "data", "ephemeral": {"volumeClaimTemplate": {"spec": CLAIM["spec"]}}}]
    await cluster.create(made)
    assert machine.log(await machine.phase("p", "Succeeded")) == ["here"]
    claim = await cluster.get("PersistentVolumeClaim", "p-data")
    assert claim["metadata"]["ownerReferences"][0]["kind"] == "Pod"
    await cluster.delete("Pod", "p")

    async def is_gone():
        return await cluster.get("PersistentVolumeClaim", "p-data") is None

    await cluster.eventually(is_gone)


def test_removing_a_volume_removes_nothing_that_its_links_lead_to(tmp_path):
    (tmp_path / "volumes/pvc-1/deep").mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/file").touch()
    for name in ("pvc-1/link", "pvc-2", "other"):
        (tmp_path / "volumes" / name).symlink_to(tmp_path / "outside")
    remove_volumes(tmp_path / "volumes", ["pvc-1", "pvc-2", "pvc-3", "other", "pvc-../../outside"])
    assert [each.name for each in (tmp_path / "volumes").iterdir()] == ["other"]
    assert [each.name for each in (tmp_path / "outside").iterdir()] == ["file"]
