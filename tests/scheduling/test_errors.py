"""An error is not a lack: it ends the attempt, and it is found wherever it is."""

import pytest

from dray.scheduling.explain.explainer import Explainer
from dray.scheduling.model.actions import Bind
from dray.testing import objects
from tests import gpus
from tests.scheduling.core import Core, bound, pod, refused

HAS_SPEED = {"cel": {"expression": f"device.attributes['{objects.DRIVER}'].speed > 1"}}


def fast(name):
    return gpus.gpu(name, attributes={"speed": {"int": 2}})


def machine(name, *devices, cpu="8", **spec):
    return objects.node(name, cpu=cpu), objects.resource_slice(name, *devices, nodeName=name, **spec)


def error(actions):
    """What was said of the only pod, as an error."""
    (action,) = actions
    assert (type(action).__name__, action.reason) == ("Refuse", "SchedulerError")
    return action.message


EVERYTHING = objects.request("all", allocationMode="All")


def test_an_error_on_one_node_ends_the_attempt_though_another_would_do():
    wanted = objects.request(selectors=[HAS_SPEED])
    # The larger node is the better one.
    good, bad = machine("good", fast("f"), cpu="64"), machine("bad", gpus.gpu("g"))
    core = Core(*good, *bad, objects.claim("c", wanted), pod("p", claims=["c"]))
    assert "no such key: speed" in error(core.actions())


def test_whoever_asks_why_it_waits_is_told_of_the_error():
    wanted = objects.request(selectors=[HAS_SPEED])
    core = Core(*machine("good", fast("f")), *machine("bad", gpus.gpu("g")))
    stored = core.put(objects.claim("c", wanted), pod("p", claims=["c"]))
    core.actions()
    waiting = core.scheduler.queue.get(stored["metadata"]["uid"])
    assert "no such key: speed" in Explainer(core.scheduler).explain(waiting.pod, core.now).problem


def test_when_the_node_with_the_error_is_gone_the_pod_is_placed():
    wanted = objects.request(selectors=[HAS_SPEED])
    core = Core(*machine("good", fast("f")), *machine("bad", gpus.gpu("g")))
    core.put(objects.claim("c", wanted), pod("p", claims=["c"]))
    core.actions()
    core.remove("Node", "bad")
    assert bound(core.later(11)) == {"p": "good"}


def test_a_node_that_the_pod_does_not_want_is_not_asked():
    wanted = objects.request(selectors=[HAS_SPEED])
    core = Core(*machine("good", fast("f")), *machine("bad", gpus.gpu("g")))
    selector = {"kubernetes.io/hostname": "good"}
    core.put(objects.claim("c", wanted), pod("p", claims=["c"], nodeSelector=selector))
    assert bound(core.actions()) == {"p": "good"}


def test_a_device_that_is_in_use_is_not_asked():
    wanted = objects.request(selectors=[HAS_SPEED])
    core = Core(*machine("n", gpus.gpu("g"), fast("f")))
    core.put(objects.claim("first"), pod("user", claims=["first"]))
    core.settle()
    core.put(objects.claim("c", wanted), pod("p", claims=["c"]))
    (action,) = core.actions()
    assert isinstance(action, Bind)


def test_too_few_devices_do_not_hide_an_error():
    wanted = objects.request(count=2, selectors=[HAS_SPEED])
    core = Core(*machine("n", gpus.gpu("g")), objects.claim("c", wanted), pod("p", claims=["c"]))
    assert "no such key: speed" in error(core.actions())


def test_all_devices_of_a_pool_that_is_being_updated():
    core = Core(
        *machine("n", gpus.gpu("g"), resourceSliceCount=2), objects.claim("c", EVERYTHING), pod("p", claims=["c"])
    )
    assert "is currently being updated" in error(core.actions())
    core.put(objects.resource_slice("rest", gpus.gpu("h"), nodeName="n", pool="n", resourceSliceCount=2))
    (action,) = core.later()
    results = action.writes[0].allocation["devices"]["results"]
    assert sorted(each["device"] for each in results) == ["g", "h"]


def test_all_devices_that_a_constraint_keeps_apart():
    claim = objects.claim("c", EVERYTHING, constraints=[{"matchAttribute": f"{objects.DRIVER}/root"}])
    core = Core(objects.node("n"), gpus.slice_of("n", 4), claim, pod("p", claims=["c"]))
    assert "because a claim constraint would not be satisfied" in error(core.actions())


def test_more_devices_than_a_claim_may_have():
    wanted = objects.request(count=33)
    core = Core(*machine("n", gpus.gpu("g")), objects.claim("c", wanted), pod("p", claims=["c"]))
    assert "33 exceeds the claim limit of 32" in error(core.actions())


@pytest.mark.parametrize("amount", ["500m", "8Ei"])
def test_an_odd_amount_of_capacity_is_left_to_the_search(amount):
    """It may be in error, or just too much."""
    wanted = objects.request(capacity={"requests": {"memory": amount}})
    device = gpus.gpu("g", capacity={"memory": {"value": "10"}}, allowMultipleAllocations=True)
    core = Core(*machine("n", device), objects.claim("c", wanted), pod("p", claims=["c"]))
    (action,) = core.actions()
    assert isinstance(action, Bind) == (amount == "500m")


def test_pools_that_are_invalid_are_named():
    twice = [
        objects.resource_slice(name, gpus.gpu("g"), nodeName="n", pool="p", resourceSliceCount=2) for name in ("a", "b")
    ]
    core = Core(objects.node("n"), *twice, objects.claim("c"), pod("p", claims=["c"]))
    assert refused(core.actions())["p"].startswith(
        "0/1 nodes are available: 1 invalid resource pools were encountered."
    )


def test_an_error_that_stays_is_said_once_and_tried_now_and_then():
    wanted = objects.request(selectors=[HAS_SPEED])
    core = Core(*machine("n", gpus.gpu("g")), objects.claim("c", wanted), pod("p", claims=["c"]))
    error(core.actions())
    before = core.decisions
    assert core.later(60) == []
    assert 5 < core.decisions - before < 20
