"""Searches that an attempt gives up undecided: the pod waits, others go on, and the answer from elsewhere is used."""

from dray.allocation import ATTEMPT
from dray.scheduling.core.searches import Outcome
from dray.scheduling.model.messages import reason_text
from dray.scheduling.model.reasons import Code, Reason
from dray.scheduling_loop.search_process import answer
from dray.testing import objects
from tests import gpus
from tests.allocation.hard import triple
from tests.scheduling.core import Core, bound, refused

CASE = triple(5, 16, 18).scenario
LIMIT = 400_000
STILL = Reason(Code.UNDECIDED_FOR_GOOD, ("9",))


def world(*names):
    """Nodes with devices that a claim of the case fits on, though it takes long to find that out."""
    core = Core(objects.device_class("any"))
    for name in names:
        core.put(objects.node(name), published(name))
    return core


def published(node):
    spec = {**CASE.slices[0]["spec"], "nodeName": node, "pool": {**CASE.slices[0]["spec"]["pool"], "name": node}}
    return {**objects.resource_slice(f"{node}-devices"), "spec": spec}


def hard_claim(name):
    devices = CASE.claims[0]["spec"]["devices"]
    requests = [{**each, "exactly": {**each["exactly"], "deviceClassName": "any"}} for each in devices["requests"]]
    return objects.claim(name, *requests, constraints=devices.get("constraints"))


def hard_pod(core, name="hard", **more):
    core.put(hard_claim(f"{name}-claim"))
    return core.put(gpus.pod(name, claims=[f"{name}-claim"], **more))


def searched(core, wanted, limit=LIMIT):
    return answer(
        {
            "snapshot": wanted.snapshot,
            "gates": sorted(core.scheduler.options.gates.enabled),
            "policy": "kubernetes",
            "node": wanted.node,
            "claims": list(wanted.claims),
            "limit": limit,
        }
    )


def search(core, limit=LIMIT):
    """The next search, done as the other process would do it."""
    wanted = core.scheduler.further()
    if wanted is None:
        return None
    found = searched(core, wanted, limit)
    results = tuple(found["results"]) if found["kind"] == "allocated" else None
    core.scheduler.searched(wanted, Outcome(results, STILL, found["columns"]), core.now)
    return wanted.node["metadata"]["name"]


def spent(core):
    return core.state.inventory.selectors.work.spent


def test_an_attempt_is_bounded_over_all_nodes_and_others_go_on():
    core = world("n1", "n2", "n3", "n4")
    hard_pod(core)
    core.put(gpus.pod("easy"))
    actions = core.actions()
    assert set(bound(actions)) == {"easy"}
    assert f"4 node(s) undecided after {ATTEMPT:,} units of search (the search continues)" in refused(actions)["hard"]


def test_a_pod_that_stays_undecided_is_not_tried_again_until_something_changes():
    core = world("n1")
    hard_pod(core)
    core.actions()
    assert spent(core) < ATTEMPT * 1.3
    before = core.decisions
    assert search(core, limit=1_000) == "n1"
    assert reason_text(STILL) in refused(core.later(250))["hard"]
    assert search(core) is None
    assert core.decisions <= before + 2
    core.put(objects.resource_slice("more", gpus.gpu("g"), nodeName="n1"))
    core.later(60)
    assert search(core) == "n1"


def test_devices_found_elsewhere_are_given_to_the_pod():
    core = world("n1", "n2")
    hard_pod(core)
    core.actions()
    found = search(core)
    actions = core.actions()
    assert bound(actions) == {"hard": found}
    assert spent(core) < ATTEMPT
    (write,) = actions[0].writes
    assert len(write.allocation["devices"]["results"]) == 16
    for action in actions:
        core.do(action)
    assert search(core) is None


def test_devices_that_were_taken_meanwhile_are_not_given_twice():
    core = world("n1")
    hard_pod(core)
    core.actions()
    wanted = core.scheduler.further()
    core.put(objects.claim("other", objects.request(deviceClassName="any")))
    core.put(gpus.pod("other", claims=["other"]))
    for action in core.actions():
        core.do(action)
    found = searched(core, wanted)
    core.scheduler.searched(wanted, Outcome(tuple(found["results"])), core.now)
    assert "hard" not in bound(core.later(30))


def test_nobody_searches_for_a_pod_that_is_gone():
    core = world("n1")
    pod = hard_pod(core)
    core.actions()
    wanted = core.scheduler.further()
    assert core.scheduler.waits_for(wanted)
    core.remove("Pod", pod["metadata"]["name"])
    assert not core.scheduler.waits_for(wanted)
    hard_pod(core, "second")
    core.actions()
    core.remove("Pod", "second")
    assert core.scheduler.further() is None


def test_expensive_selectors_are_evaluated_elsewhere_once():
    numbers = "[0,1,2,3,4,5,6,7,8,9]"
    dear = f"{numbers}.all(a, {numbers}.all(b, {numbers}.all(c, device.attributes['{objects.DRIVER}'].id != 'X%d')))"
    core = Core()
    for node in ("n1", "n2", "n3", "n4"):
        devices = [gpus.gpu(f"g{n}", attributes={"id": {"string": f"{node}-{n}"}}) for n in range(4)]
        core.put(objects.node(node), objects.resource_slice(f"{node}-devices", *devices, nodeName=node))
    selectors = [{"cel": {"expression": dear % number}} for number in range(20)]
    core.put(objects.claim("dear", objects.request(selectors=selectors)))
    core.put(gpus.pod("dear", claims=["dear"]), gpus.pod("easy"))
    actions = core.actions()
    assert set(bound(actions)) == {"easy"}
    assert spent(core) < ATTEMPT * 1.5
    found = search(core, limit=10_000_000)
    assert bound(core.actions()) == {"dear": found}
    assert spent(core) < ATTEMPT // 2
