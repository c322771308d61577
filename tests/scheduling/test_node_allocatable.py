"""What devices take from their node: what is stated for a pod covers it, and a part of the node serves one pod."""

from dray.scheduling.model.actions import Bind
from dray.testing import objects
from tests import gpus
from tests.scheduling.core import Core, bound, holding, pod, refused


def costly(cpu="2"):
    return gpus.gpu("gpu-0", nodeAllocatableResources={"cpu": {"mapping": {"deviceMultiplier": cpu}}})


def world(*more, cpu="8"):
    return Core(objects.node("n", cpu=cpu), objects.resource_slice("n", costly(), nodeName="n"), *more)


def stating(cpu):
    return {"resources": {"requests": {"cpu": cpu}}}


def test_what_is_stated_for_the_pod_must_cover_its_devices():
    core = world(objects.claim("c"), pod("p", claims=["c"], cpu="1", **stating("2")))
    assert "pod level request for cpu is insufficient to cover" in refused(core.actions())["p"]


def test_then_nothing_comes_on_top():
    core = world(objects.claim("c"), pod("p", claims=["c"], cpu="1", **stating("3")), cpu="3")
    (action,) = core.actions()
    assert action.node_allocatable[0]["mapping"] == [{"name": "cpu", "quantity": "2"}]
    assert core.state.nodes["n"].requested["cpu"] == 3000


def test_neither_for_a_pod_that_is_found_on_its_node():
    there = pod("p", cpu="1", nodeName="n", **stating("3"))
    charged = [{"resourceClaimName": "c", "containers": ["main"], "mapping": [{"name": "cpu", "quantity": "2"}]}]
    there["status"] = {"nodeAllocatableResourceClaimStatuses": charged}
    assert world(there).state.nodes["n"].requested["cpu"] == 3000
    del there["spec"]["resources"]
    assert world(there).state.nodes["n"].requested["cpu"] == 3000


def test_a_claim_that_is_being_reserved_for_one_is_not_for_another():
    core = world(holding("c", "gpu-0", node="n"))
    core.put(pod("first", claims=["c"]), pod("second", claims=["c"]))
    bind, refusal = core.actions()
    assert isinstance(bind, Bind)
    assert "cannot be shared across pods" in refusal.message
    core.scheduler.failed(bind, core.now)
    assert bound(core.actions()) == {"second": "n"}


def test_an_entry_without_a_claim_does_not_shift_the_others():
    entries = [
        {"name": "none", "resourceClaimTemplateName": "t"},
        {"name": "one", "resourceClaimName": "c"},
    ]
    mine = pod("p", resourceClaims=entries, container={"resources": {"claims": [{"name": "one"}]}})
    mine["status"] = {"resourceClaimStatuses": [{"name": "none"}]}
    (action,) = world(objects.claim("c"), mine).actions()
    assert action.node_allocatable[0]["containers"] == ["main"]
