"""A pod waits for the claims of its volumes, and says for which."""

import pytest

from dray.testing import objects
from tests.scheduling.core import Core, bound, pod, refused

NAMED = {"name": "v", "persistentVolumeClaim": {"claimName": "data"}}
OWN = {"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}


def volume_claim(name="data", owner="", status=None, **metadata):
    owners = [{"kind": "Pod", "uid": owner, "controller": True}] if owner else []
    return {
        "metadata": {"namespace": "default", "name": name, "ownerReferences": owners, **metadata},
        "spec": {"volumeName": "pv-1"},
        "status": status or {},
    }


def world(*documents, known=True):
    core = Core(objects.node("n"))
    core.state.volumes.known = known
    core.put(*documents)
    return core


def test_a_pod_waits_for_the_claim_of_its_volume():
    core = world(pod("p", volumes=[{"name": "e", "emptyDir": {}}, NAMED]), pod("q", volumes=[{"name": "e"}]))
    actions = core.settle()
    assert bound(actions) == {"q": "n"}
    assert refused(actions) == {"p": '0/1 nodes are available: persistentvolumeclaim "data" not found.'}
    core.scheduler.put("PersistentVolumeClaim", volume_claim("other"), core.now)
    assert core.actions() == []
    core.scheduler.put("PersistentVolumeClaim", volume_claim(), core.now)
    assert bound(core.actions()) == {"p": "n"}


def test_a_claim_that_went_is_missed():
    core = world()
    core.scheduler.put("PersistentVolumeClaim", volume_claim(), core.now)
    core.scheduler.remove("PersistentVolumeClaim", volume_claim(), core.now)
    core.put(pod("p", volumes=[NAMED]))
    assert "not found" in refused(core.actions())["p"]


@pytest.mark.parametrize(
    ("volume", "claim", "said"),
    [
        (NAMED, volume_claim(status={"phase": "Lost"}), 'bound to non-existent persistentvolume "pv-1"'),
        (
            NAMED,
            volume_claim(deletionTimestamp="2030-01-01T00:00:00Z"),
            'persistentvolumeclaim "data" is being deleted',
        ),
        (OWN, volume_claim("p"), 'waiting for ephemeral volume controller to create the persistentvolumeclaim "p-v"'),
        (OWN, volume_claim("p-v", "somebody"), "PVC default/p-v was not created for pod default/p (pod is not owner)"),
    ],
    ids=["lost", "leaving", "not made yet", "of another pod"],
)
def test_a_claim_that_cannot_be_used(volume, claim, said):
    core = world()
    core.scheduler.put("PersistentVolumeClaim", claim, core.now)
    core.put(pod("p", volumes=[volume]))
    assert said in refused(core.actions())["p"]


def test_the_claim_that_was_made_for_the_pod_is_used():
    core = world(pod("p", volumes=[OWN]))
    assert list(refused(core.actions())) == ["p"]
    uid = core.get("Pod", "p")["metadata"]["uid"]
    core.scheduler.put("PersistentVolumeClaim", volume_claim("p-v", uid), core.now)
    assert bound(core.actions()) == {"p": "n"}


def test_while_nobody_knows_which_there_are_nobody_waits():
    assert bound(world(pod("p", volumes=[NAMED]), known=False).actions()) == {"p": "n"}


# Where volumes can be reached

DONE = {"pv.kubernetes.io/bind-completed": "yes"}


def volume(name="pv-1", *, node=None, **labels):
    affinity = {}
    if node:
        field = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
        affinity = {"nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [field]}]}}}
    return {"metadata": {"name": name, "labels": labels}, "spec": affinity}


def storage_class(name="fast", mode="WaitForFirstConsumer", provisioner="disk.example.com", **more):
    return {"metadata": {"name": name}, "volumeBindingMode": mode, "provisioner": provisioner, **more}


def waiting_claim(name="data", **spec):
    return {**volume_claim(name), "spec": {"storageClassName": "fast", **spec}}


def three_nodes(*there):
    """With volumes and classes that can be read; the larger the node, the better."""
    core = Core(
        objects.node("big", cpu="64", labels={"topology.kubernetes.io/zone": "a"}),
        objects.node("small", labels={"topology.kubernetes.io/zone": "b"}),
        objects.node("bare", cpu="2"),
    )
    core.state.volumes.known = core.state.volumes.volumes_known = True
    for each in there:
        if "volumeBindingMode" in each:
            core.scheduler.put("StorageClass", each, core.now)
        elif "namespace" in each["metadata"]:
            core.scheduler.put("PersistentVolumeClaim", each, core.now)
        else:
            core.scheduler.put("PersistentVolume", each, core.now)
    return core


def test_a_pod_goes_where_its_volume_is():
    core = three_nodes(volume_claim(annotations=DONE), volume(node="small"))
    core.put(pod("p", volumes=[NAMED]))
    assert bound(core.actions()) == {"p": "small"}


def test_a_pod_whose_volume_is_on_another_node_waits_with_the_reason():
    core = three_nodes(volume_claim(annotations=DONE), volume(node="gone"))
    core.put(pod("p", volumes=[NAMED]))
    reason = "0/3 nodes are available: 3 node(s) didn't match PersistentVolume's node affinity."
    assert refused(core.actions()) == {"p": reason}
    core.put(objects.node("gone"))
    assert bound(core.later()) == {"p": "gone"}


def test_a_volume_of_a_zone_is_used_there_or_where_there_are_no_zones():
    core = three_nodes(volume_claim(annotations=DONE), volume(**{"topology.kubernetes.io/zone": "b__c"}))
    core.put(pod("p", cpu="4", volumes=[NAMED]), pod("q", cpu="60", volumes=[NAMED]))
    actions = core.actions()
    assert bound(actions) == {"p": "small"}
    assert "1 node(s) had no available volume zone" in refused(actions)["q"]


@pytest.mark.parametrize(
    "claim",
    [
        volume_claim(),
        waiting_claim(volumeName="pv-1"),
        waiting_claim(storageClassName="at-once"),
    ],
    ids=["without class", "bound beforehand", "immediate"],
)
def test_a_pod_waits_until_its_claim_is_bound(claim):
    core = three_nodes(claim, volume(), storage_class("at-once", "Immediate"))
    core.put(pod("p", volumes=[NAMED]))
    said = "0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims (data)."
    assert refused(core.actions()) == {"p": said}
    core.scheduler.put("PersistentVolumeClaim", volume_claim(annotations=DONE), core.now)
    assert bound(core.actions()) == {"p": "big"}


def test_a_storage_class_that_does_not_exist_is_named():
    core = three_nodes(waiting_claim(storageClassName="fast-sdd"), storage_class("fast-ssd"))
    core.put(pod("p", volumes=[NAMED]))
    said = 'persistentvolumeclaim "data" is not bound: StorageClass "fast-sdd" not found; did you mean fast-ssd?'
    assert refused(core.actions()) == {"p": said}
    core.scheduler.put("StorageClass", storage_class("fast-sdd"), core.now)
    assert bound(core.actions()) == {"p": "big"}


def test_a_claim_that_waits_for_its_first_consumer_comes_with_the_decision():
    core = three_nodes(waiting_claim(), storage_class())
    core.put(pod("p", volumes=[NAMED]))
    (action,) = core.actions()
    assert (action.node, [each["metadata"]["name"] for each in action.volumes]) == ("big", ["data"])


def test_a_class_that_provisions_only_in_one_zone_decides_about_the_node():
    terms = [{"matchLabelExpressions": [{"key": "topology.kubernetes.io/zone", "values": ["b"]}]}]
    core = three_nodes(waiting_claim(), storage_class(allowedTopologies=terms))
    core.put(pod("p", volumes=[NAMED]), pod("q", cpu="60", volumes=[NAMED]))
    actions = core.actions()
    assert bound(actions) == {"p": "small"}
    assert "node(s) didn't find available persistent volumes to bind" in refused(actions)["q"]


def test_a_claim_that_has_a_node_selected_is_provisioned_there():
    selected = {"volume.kubernetes.io/selected-node": "small"}
    claim = waiting_claim()
    claim["metadata"]["annotations"] = selected
    core = three_nodes(claim, storage_class())
    core.put(pod("p", volumes=[NAMED]))
    assert bound(core.actions()) == {"p": "small"}


def test_a_class_that_provisions_nothing_leaves_the_pod_waiting_with_the_reason():
    core = three_nodes(waiting_claim(), storage_class(provisioner="kubernetes.io/no-provisioner"), volume(node="big"))
    core.put(pod("p", volumes=[NAMED]))
    assert 'StorageClass "fast" has no provisioner' in refused(core.actions())["p"]


def test_a_claim_bound_to_a_volume_that_is_not_there_is_waited_for():
    core = three_nodes(volume_claim(annotations=DONE))
    core.put(pod("p", volumes=[NAMED]))
    assert 'bound to non-existent persistentvolume "pv-1"' in refused(core.actions())["p"]
    core.scheduler.put("PersistentVolume", volume(), core.now)
    assert bound(core.actions()) == {"p": "big"}
