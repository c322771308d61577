"""Claims and volumes: which fits, what becomes of them, and that neither goes while it is in use."""

import pytest

from dray.controllers.volumes import decisions, host_path, matching
from dray.controllers.volumes.decisions import Act
from dray.testing.cluster import LocalCluster
from dray.testing.objects import pod

BINDER = ["persistentvolume-binder", "persistentvolumeclaim-protection", "persistentvolume-protection"]
DONE = {"pv.kubernetes.io/bind-completed": "yes"}


def claim(name="c", size="1Gi", *, annotations=None, **spec):
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}", "annotations": annotations or {}}
    wanted = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}, "storageClassName": ""}
    made = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata}
    return {**made, "spec": {**wanted, **spec}, "status": {}}


def volume(name="v", size="1Gi", *, owner=None, labels=None, **spec):
    given = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": size}, "hostPath": {"path": "/srv"}}
    if owner is not None:
        namespaced = {"kind": "PersistentVolumeClaim", "namespace": "default", "name": owner}
        given["claimRef"] = {**namespaced, "uid": f"uid-{owner}"}
    metadata = {"name": name, "labels": labels or {}}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": metadata,
        "spec": {**given, **spec},
        "status": {},
    }


def storage_class(mode="Immediate", provisioner="example.com/disk"):
    metadata = {"name": "fast"}
    return {"metadata": metadata, "provisioner": provisioner, "volumeBindingMode": mode}


@pytest.mark.parametrize(
    ("wanted", "volumes", "found"),
    [
        (claim(), [volume("small", "1Mi"), volume("large", "9Gi"), volume("fits", "2Gi")], "fits"),
        (claim(), [volume("free", "1Gi"), volume("mine", "9Gi", owner="c")], "mine"),
        (claim(), [volume(owner="other")], None),
        (claim(accessModes=["ReadWriteMany"]), [volume()], None),
        (claim(volumeMode="Block"), [volume()], None),
        (claim(), [volume(storageClassName="fast")], None),
        (claim(storageClassName="fast"), [volume(storageClassName="fast")], "v"),
        (claim(volumeAttributesClassName="gold"), [volume("w"), volume(volumeAttributesClassName="gold")], "v"),
        (claim(selector={"matchLabels": {"a": "b"}}), [volume(), volume("w", labels={"a": "b"})], "w"),
    ],
)
def test_the_smallest_volume_that_fits(wanted, volumes, found):
    best = matching.best(wanted, volumes)
    assert (best and best["metadata"]["name"]) == found


@pytest.mark.parametrize(
    ("wanted", "volumes", "chosen_class", "act", "reason"),
    [
        (claim(), [volume()], None, Act.BIND, ""),
        (claim(), [], None, Act.WAIT, "FailedBinding"),
        (claim(storageClassName="fast"), [], storage_class(), Act.PROVISION, ""),
        (claim(storageClassName="gone"), [], None, Act.WAIT, "ProvisioningFailed"),
        (claim(storageClassName="fast"), [], storage_class("WaitForFirstConsumer"), Act.WAIT, "WaitForFirstConsumer"),
        (
            claim(storageClassName="fast", annotations={"volume.kubernetes.io/selected-node": "n"}),
            [],
            storage_class("WaitForFirstConsumer"),
            Act.PROVISION,
            "",
        ),
        (claim(volumeName="v"), [volume()], None, Act.BIND, ""),
        (claim(volumeName="v"), [], None, Act.WAIT, "FailedBinding"),
        (claim(volumeName="v"), [volume(owner="other")], None, Act.WAIT, "FailedBinding"),
        (claim(size="9Gi", volumeName="v"), [volume()], None, Act.WAIT, "VolumeMismatch"),
        (claim(volumeName="v", annotations=DONE), [], None, Act.LOSE, "ClaimLost"),
        (claim(volumeName="v", annotations=DONE), [volume(owner="other")], None, Act.LOSE, "ClaimMisbound"),
        (claim(volumeName="v", annotations=DONE), [volume(owner="c")], None, Act.BIND, ""),
    ],
)
def test_what_becomes_of_a_claim(wanted, volumes, chosen_class, act, reason):
    found = decisions.for_claim(wanted, {each["metadata"]["name"]: each for each in volumes}, chosen_class, None)
    assert (found.act, found.reason) == (act, reason)


def test_the_phase_of_a_volume():
    bound = claim(volumeName="v")
    assert decisions.volume_phase(volume(), None) == "Available"
    assert decisions.volume_phase(volume(owner="c"), bound) == "Bound"
    assert decisions.volume_phase(volume(owner="c"), None) == "Released"
    assert not decisions.is_to_be_reclaimed(volume(owner="c", persistentVolumeReclaimPolicy="Retain"), None)
    assert decisions.is_to_be_reclaimed(volume(owner="c", persistentVolumeReclaimPolicy="Delete"), None)


def test_a_volume_with_an_affinity_of_its_own_belongs_to_no_node():
    assert host_path.node_name_of(volume()) == ""
    assert host_path.node_name_of(volume(nodeAffinity={"required": {"nodeSelectorTerms": [{}]}})) == ""


async def test_a_claim_is_bound_protected_while_used_and_its_volume_released():
    async with LocalCluster(controllers=BINDER) as cluster:
        csi = {"driver": "example.com", "volumeHandle": "h"}
        await cluster.create(volume(volumeAttributesClassName="gold", hostPath=None, csi=csi))
        wanted = claim(volumeAttributesClassName="gold")
        del wanted["metadata"]["uid"]
        await cluster.create(wanted)

        async def phase_is(kind, name, phase):
            found = await cluster.get(kind, name)
            return found is not None and found["status"].get("phase") == phase and found

        bound = await cluster.eventually(lambda: phase_is("PersistentVolumeClaim", "c", "Bound"))
        assert bound["spec"]["volumeName"] == "v"
        assert bound["status"]["capacity"] == {"storage": "1Gi"}
        assert bound["status"]["currentVolumeAttributesClassName"] == "gold"
        taken = await cluster.get("PersistentVolume", "v")
        assert taken["spec"]["claimRef"]["uid"] == bound["metadata"]["uid"]
        volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "c"}}]
        await cluster.create(pod("p", volumes=volumes, nodeName="n"))
        await cluster.delete("PersistentVolumeClaim", "c")
        await cluster.delete("PersistentVolume", "v")
        assert (await cluster.get("PersistentVolumeClaim", "c"))["metadata"]["deletionTimestamp"]
        await cluster.delete("Pod", "p")

        async def are_gone():
            left = [await cluster.get("PersistentVolumeClaim", "c"), await cluster.get("PersistentVolume", "v")]
            return left == [None, None]

        await cluster.eventually(are_gone)


async def test_a_claim_that_a_pod_without_a_node_names_is_not_kept_for_it():
    async with LocalCluster(controllers=BINDER) as cluster:
        wanted = claim()
        del wanted["metadata"]["uid"]
        await cluster.create(wanted)
        volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "c"}}]
        await cluster.create(pod("p", volumes=volumes, schedulerName="nobody"))

        async def is_protected():
            return (await cluster.get("PersistentVolumeClaim", "c"))["metadata"].get("finalizers")

        await cluster.eventually(is_protected)
        await cluster.delete("PersistentVolumeClaim", "c")

        async def is_gone():
            return await cluster.get("PersistentVolumeClaim", "c") is None

        await cluster.eventually(is_gone)


async def test_two_claims_never_share_a_volume_and_the_second_is_served_when_one_comes():
    async with LocalCluster(controllers=BINDER) as cluster:
        await cluster.create(volume())
        for name in ("a", "b"):
            wanted = claim(name)
            del wanted["metadata"]["uid"]
            await cluster.create(wanted)

        async def bound():
            found = await cluster.list("PersistentVolumeClaim")
            return sorted(each["spec"]["volumeName"] for each in found if each["status"]["phase"] == "Bound")

        async def bound_to(*names):
            return await bound() == list(names)

        await cluster.eventually(lambda: bound_to("v"))
        await cluster.create(volume("w"))
        await cluster.eventually(lambda: bound_to("v", "w"))
