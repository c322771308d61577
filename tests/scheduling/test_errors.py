"""An error is not a lack: it ends the attempt, and it is found wherever it is."""

import pytest

from dray.scheduling.actions import Bind
from dray.scheduling.inquiry import Inquiry
from tests.scheduling.core import Core, bound, pod, refused
from tests.scheduling_loop import objects

HAS_SPEED = {"cel": {"expression": f"device.attributes['{objects.DRIVER}'].speed > 1"}}


def fast(name):
    return objects.gpu(name, attributes={"speed": {"int": 2}})


def machine(name, *devices, cpu="8", **spec):
    return objects.node(name, cpu=cpu), objects.resource_slice(name, list(devices), node=name, **spec)


def error(actions):
    """What was said of the only pod, as an error."""
    (action,) = actions
    assert (type(action).__name__, action.reason) == ("Refuse", "SchedulerError")
    return action.message


def everything(**more):
    spec = objects.devices({"name": "all", "exactly": {"deviceClassName": "gpu", "allocationMode": "All"}})
    spec["devices"].update(more)
    return spec


def test_an_error_on_one_node_ends_the_attempt_though_another_would_do():
    spec = objects.devices(objects.request(selectors=[HAS_SPEED]))
    # The larger node is the better one.
    good, bad = machine("good", fast("f"), cpu="64"), machine("bad", objects.gpu("g"))
    core = Core(*good, *bad, objects.claim("c", spec), pod("p", claims=["c"]))
    assert "no such key: speed" in error(core.actions())


def test_whoever_asks_why_it_waits_is_told_of_the_error():
    spec = objects.devices(objects.request(selectors=[HAS_SPEED]))
    core = Core(*machine("good", fast("f")), *machine("bad", objects.gpu("g")))
    stored = core.put(objects.claim("c", spec), pod("p", claims=["c"]))
    core.actions()
    waiting = core.scheduler.queue.get(stored["metadata"]["uid"])
    assert "no such key: speed" in Inquiry(core.state).ask(waiting.pod, core.now, 600.0).hindrance


def test_when_the_node_with_the_error_is_gone_the_pod_is_placed():
    spec = objects.devices(objects.request(selectors=[HAS_SPEED]))
    core = Core(*machine("good", fast("f")), *machine("bad", objects.gpu("g")))
    core.put(objects.claim("c", spec), pod("p", claims=["c"]))
    core.actions()
    core.remove("Node", "bad")
    assert bound(core.later(11)) == {"p": "good"}


def test_a_node_that_the_pod_does_not_want_is_not_asked():
    spec = objects.devices(objects.request(selectors=[HAS_SPEED]))
    core = Core(*machine("good", fast("f")), *machine("bad", objects.gpu("g")))
    selector = {"kubernetes.io/hostname": "good"}
    core.put(objects.claim("c", spec), pod("p", claims=["c"], nodeSelector=selector))
    assert bound(core.actions()) == {"p": "good"}


def test_a_device_that_is_in_use_is_not_asked():
    spec = objects.devices(objects.request(selectors=[HAS_SPEED]))
    core = Core(*machine("n", objects.gpu("g"), fast("f")))
    core.put(objects.claim("first"), pod("user", claims=["first"]))
    core.settle()
    core.put(objects.claim("c", spec), pod("p", claims=["c"]))
    (action,) = core.actions()
    assert isinstance(action, Bind)


def test_too_few_devices_do_not_hide_an_error():
    spec = objects.devices(objects.request(count=2, selectors=[HAS_SPEED]))
    core = Core(*machine("n", objects.gpu("g")), objects.claim("c", spec), pod("p", claims=["c"]))
    assert "no such key: speed" in error(core.actions())


def test_all_devices_of_a_pool_that_is_being_updated():
    core = Core(*machine("n", objects.gpu("g"), count=2), objects.claim("c", everything()), pod("p", claims=["c"]))
    assert "is currently being updated" in error(core.actions())
    core.put(objects.resource_slice("rest", [objects.gpu("h")], node="n", pool="n", count=2))
    (action,) = core.later()
    results = action.writes[0].allocation["devices"]["results"]
    assert sorted(each["device"] for each in results) == ["g", "h"]


def test_all_devices_that_a_constraint_keeps_apart():
    spec = everything(constraints=[{"matchAttribute": f"{objects.DRIVER}/root"}])
    core = Core(objects.node("n"), objects.gpus_of("n", 4), objects.claim("c", spec), pod("p", claims=["c"]))
    assert "because a claim constraint would not be satisfied" in error(core.actions())


def test_more_devices_than_a_claim_may_have():
    spec = objects.devices(objects.request(count=33))
    core = Core(*machine("n", objects.gpu("g")), objects.claim("c", spec), pod("p", claims=["c"]))
    assert "33 exceeds the claim limit of 32" in error(core.actions())


@pytest.mark.parametrize("amount", ["500m", "8Ei"])
def test_an_odd_amount_of_capacity_is_left_to_the_search(amount):
    """It may be in error, or just too much."""
    spec = objects.devices(objects.request(capacity={"requests": {"memory": amount}}))
    device = objects.gpu("g", capacity={"memory": {"value": "10"}}, allowMultipleAllocations=True)
    core = Core(*machine("n", device), objects.claim("c", spec), pod("p", claims=["c"]))
    (action,) = core.actions()
    assert isinstance(action, Bind) == (amount == "500m")


def test_pools_that_are_invalid_are_named():
    twice = [objects.resource_slice(name, [objects.gpu("g")], node="n", pool="p", count=2) for name in ("a", "b")]
    core = Core(objects.node("n"), *twice, objects.claim("c"), pod("p", claims=["c"]))
    assert refused(core.actions())["p"].startswith(
        "0/1 nodes are available: 1 invalid resource pools were encountered."
    )


def test_an_error_that_stays_is_said_once_and_tried_now_and_then():
    spec = objects.devices(objects.request(selectors=[HAS_SPEED]))
    core = Core(*machine("n", objects.gpu("g")), objects.claim("c", spec), pod("p", claims=["c"]))
    error(core.actions())
    before = core.decisions
    assert core.later(60) == []
    assert 5 < core.decisions - before < 20
