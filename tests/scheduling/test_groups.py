"""Pods wait for their group, and the claims it names are its own."""

from dray.testing import objects
from tests import gpus
from tests.scheduling.core import Core, bound, holding, pod, victims


def group(name="g", *entries):
    return objects.pod_group(name, uid=f"uid-{name}", resourceClaims=list(entries))


def entry(claim, name="claim-0"):
    return {"name": name, "resourceClaimName": claim}


def member(name, *claims, of="g", **more):
    return pod(name, claims=claims, schedulingGroup={"podGroupName": of}, **more)


def reserved_for(name="g"):
    return {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": name, "uid": f"uid-{name}"}


def world(*more):
    core = Core(objects.node("n"), gpus.slice_of("n", 2))
    core.scheduler.state.groups.served.add("scheduling.k8s.io")
    core.put(*more)
    return core


def test_a_pod_waits_for_its_group():
    core = world(member("p"), member("q", of="other"))
    assert core.actions() == []
    core.put(group())
    assert bound(core.settle()) == {"p": "n"}


def test_where_there_are_no_groups_nobody_waits():
    core = Core(objects.node("n"), member("p"))
    assert bound(core.actions()) == {"p": "n"}


def test_one_reservation_serves_all_pods_of_the_group():
    core = world(objects.claim("c"), group("g", entry("c")), member("p", "c"), member("q", "c"))
    assert bound(core.settle()) == {"p": "n", "q": "n"}
    assert core.get("ResourceClaim", "c")["status"]["reservedFor"] == [reserved_for()]


def test_an_entry_that_the_group_does_not_have_is_the_pods_own():
    core = world(objects.claim("c"), group("g", entry("c", "another")), member("p", "c"))
    core.settle()
    (consumer,) = core.get("ResourceClaim", "c")["status"]["reservedFor"]
    assert (consumer["resource"], consumer["name"]) == ("pods", "p")


def held_by_group(*devices):
    claim = holding("c", *devices, node="n")
    claim["status"]["reservedFor"] = [reserved_for()]
    return claim


def test_a_claim_of_the_group_is_given_back_while_none_of_its_pods_is_placed():
    core = world(held_by_group("gpu-0"), group("g", entry("c")), objects.node("m"), gpus.slice_of("m", 1))
    core.change("Node", "n", spec={"unschedulable": True})
    core.put(member("p", "c"))
    assert bound(core.settle()) == {"p": "m"}
    assert core.get("ResourceClaim", "c")["status"]["reservedFor"] == [reserved_for()]


def test_but_not_once_one_is():
    core = world(held_by_group("gpu-0"), group("g", entry("c")), objects.node("m"), gpus.slice_of("m", 1))
    core.put(member("first", "c"))
    assert bound(core.settle()) == {"first": "n"}
    core.change("Node", "n", spec={"unschedulable": True})
    core.put(member("next", "c"))
    assert bound(core.settle()) == {}


def test_nobody_counts_on_the_devices_of_a_group_without_pods():
    """They are not about to be free, so that somebody else has to go."""
    core = Core(objects.node("n"), gpus.slice_of("n", 2), held_by_group("gpu-0"), objects.claim("d"))
    core.put(objects.claim("e"), pod("low", claims=["e"]))
    assert bound(core.settle()) == {"low": "n"}
    core.put(pod("high", claims=["d"], value=10))
    assert victims(core.actions()) == ["low"]
