"""Reasons that name a claim which holds nothing any more are refreshed."""

from dray.testing import objects
from tests import gpus
from tests.scheduling.core import Core, bound, holding, pod, refused, user


def waiting_behind(*holders):
    """One node whose GPUs are held, and pods that want two of them."""
    core = Core(objects.node("n"), gpus.slice_of("n", len(holders)), reservation_seconds=0)
    for number, name in enumerate(holders):
        core.put(user(f"{name}-pod"), holding(name, f"gpu-{number}", users=[f"{name}-pod"]))
    return core


def wants(core, name, gpu_count=2):
    core.put(objects.claim(f"{name}-gpus", objects.request(count=gpu_count)), pod(name, claims=[f"{name}-gpus"]))


def test_a_deleted_claim_is_not_named_for_long():
    core = waiting_behind("old", "other")
    wants(core, "big")
    assert "in use by default/old" in refused(core.later())["big"]
    core.remove("ResourceClaim", "old")
    wants(core, "small", 1)
    assert bound(core.actions()) == {"small": "n"}
    message = refused(core.later(10))["big"]
    assert "default/old" not in message
    assert "default/small-gpus" in message


def test_pods_of_one_kind_are_all_refreshed():
    core = waiting_behind("old", "other")
    for number in range(50):
        wants(core, f"big-{number}")
    assert len(refused(core.later())) == 50
    core.put({**core.get("ResourceClaim", "old"), "status": {}})
    messages = refused(core.later(60))
    assert len(messages) == 50
    assert not any("default/old" in message for message in messages.values())


def test_a_reason_that_does_not_name_the_released_claim_stays():
    core = waiting_behind("old", "other")
    core.put(holding("elsewhere", "gpu-9", users=["old-pod"]))
    wants(core, "big")
    assert list(refused(core.later())) == ["big"]
    core.decisions = 0
    core.remove("ResourceClaim", "elsewhere")
    assert core.later(60) == []
    assert core.decisions == 0
