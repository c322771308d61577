"""A pod waits for the claims of its volumes, and says for which."""

import pytest

from tests.scheduler import objects
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
    core.scheduler.put_volume_claim(volume_claim("other"), core.now)
    assert core.actions() == []
    core.scheduler.put_volume_claim(volume_claim(), core.now)
    assert bound(core.actions()) == {"p": "n"}


def test_a_claim_that_went_is_missed():
    core = world()
    core.scheduler.put_volume_claim(volume_claim(), core.now)
    core.scheduler.remove_volume_claim(volume_claim(), core.now)
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
    core.scheduler.put_volume_claim(claim, core.now)
    core.put(pod("p", volumes=[volume]))
    assert said in refused(core.actions())["p"]


def test_the_claim_that_was_made_for_the_pod_is_used():
    core = world(pod("p", volumes=[OWN]))
    assert list(refused(core.actions())) == ["p"]
    uid = core.get("Pod", "p")["metadata"]["uid"]
    core.scheduler.put_volume_claim(volume_claim("p-v", uid), core.now)
    assert bound(core.actions()) == {"p": "n"}


def test_while_nobody_knows_which_there_are_nobody_waits():
    assert bound(world(pod("p", volumes=[NAMED]), known=False).actions()) == {"p": "n"}
