"""A place that is kept for a pod while those it displaces are going."""

from __future__ import annotations

from dray.api.objects import Object
from dray.scheduling.actions import Bind, Refuse
from dray.scheduling.scheduler import Scheduler

GPU = {"name": "gpu", "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 2}}


def claim(name: str, version: str, user: str = "") -> Object:
    status: Object = {}
    if user:
        results = [{"request": "gpu", "driver": "d", "pool": "n", "device": device} for device in ("gpu-0", "gpu-1")]
        reserved = [{"resource": "pods", "name": user, "uid": user}]
        status = {"allocation": {"devices": {"results": results}}, "reservedFor": reserved}
    metadata = {"name": name, "namespace": "default", "uid": f"claim {name}", "resourceVersion": version}
    return {"metadata": metadata, "spec": {"devices": {"requests": [GPU]}}, "status": status}


def pod(name: str, priority: int, node: str = "") -> Object:
    spec: Object = {
        "containers": [{"name": "c", "image": "i"}],
        "priority": priority,
        "resourceClaims": [{"name": "gpu", "resourceClaimName": name}],
    }
    if node:
        spec["nodeName"] = node
    return {"metadata": {"name": name, "namespace": "default", "uid": name}, "spec": spec, "status": {}}


def world() -> Scheduler:
    scheduler = Scheduler()
    amounts = {"cpu": "8", "memory": "8Gi", "pods": "10"}
    scheduler.put_node({"metadata": {"name": "n"}, "spec": {}, "status": {"allocatable": amounts}})
    scheduler.put_class({"metadata": {"name": "gpu"}, "spec": {}})
    scheduler.put_slice(
        {
            "metadata": {"name": "s"},
            "spec": {
                "driver": "d",
                "nodeName": "n",
                "pool": {"name": "n", "generation": 1, "resourceSliceCount": 1},
                "devices": [{"name": "gpu-0"}, {"name": "gpu-1"}],
            },
        }
    )
    return scheduler


def test_who_displaced_others_is_tried_as_soon_as_they_are_gone() -> None:
    """The place that is kept is taken for others, but not for the one it is kept for."""
    scheduler = world()
    scheduler.put_claim(claim("low", "1", user="low"), 0)
    scheduler.put_pod(pod("low", 0, node="n"), 0)
    scheduler.put_claim(claim("high", "2"), 0)
    scheduler.put_pod(pod("high", 10), 0)
    refused = scheduler.next(1)
    assert isinstance(refused, Refuse)
    assert refused.preemption is not None
    assert [victim.key[1] for victim in refused.preemption.victims] == ["low"]
    assert scheduler.next(2) is None
    scheduler.remove_pod(pod("low", 0, node="n"), 3)
    scheduler.put_claim(claim("low", "3"), 3)
    bound = scheduler.next(3)
    assert isinstance(bound, Bind)
    assert (bound.pod.key[1], bound.node) == ("high", "n")


def test_keeping_a_place_wakes_nobody_again_and_again() -> None:
    scheduler = world()
    scheduler.put_claim(claim("low", "1", user="low"), 0)
    scheduler.put_pod(pod("low", 0, node="n"), 0)
    scheduler.put_claim(claim("high", "2"), 0)
    scheduler.put_pod(pod("high", 10), 0)
    actions = [scheduler.next(now) for now in range(1, 20)]
    assert len([action for action in actions if action is not None]) == 1
