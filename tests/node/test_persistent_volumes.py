"""A pod with a claim for a volume runs on a node: the directory is made, kept for the next pod, and removed."""

from dray.scheduling.scheduler import Options
from dray.testing.cluster import LocalCluster
from tests.node.machines import Machine, pod, shell

CONTROLLERS = [
    "serviceaccount",
    "persistentvolume-binder",
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


async def test_a_claim_gets_a_directory_of_the_node(tmp_path):
    async with LocalCluster(controllers=CONTROLLERS, scheduler=Options()) as cluster:
        machine = Machine(cluster, tmp_path)
        await machine.start()
        try:
            await cluster.eventually(lambda: cluster.get("StorageClass", "standard"))
            made = await cluster.create(CLAIM)
            assert made["spec"]["storageClassName"] == "standard"
            await cluster.create(using("first", "echo kept > /tmp/data/file"))
            await machine.phase("first", "Succeeded")
            await cluster.create(using("second", "cat /tmp/data/file"))
            assert machine.log(await machine.phase("second", "Succeeded")) == ["kept"]
            (directory,) = (tmp_path / "persistent-volumes").iterdir()
            for name in ("first", "second"):
                await cluster.delete("Pod", name)
            await cluster.delete("PersistentVolumeClaim", "data")

            async def is_asked():
                node = await cluster.get("Node", "here")
                return directory.name in node["metadata"]["annotations"].get("dray.dev/volumes-to-remove", "")

            await cluster.eventually(is_asked)
            machine.agent._registration.changed()

            async def is_gone():
                return not directory.exists() and not await cluster.list("PersistentVolume")

            await cluster.eventually(is_gone)
        finally:
            await machine.stop()
            await machine.clean()
