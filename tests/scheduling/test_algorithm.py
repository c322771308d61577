"""Where a pod goes, and with which devices."""

import pytest

from dray.allocation import PACK, SPREAD
from dray.scheduling.model.actions import Bind, Refuse
from dray.testing import objects
from tests import gpus
from tests.scheduling.core import Core, bound, holding, pod, refused, user


def first_available(*ways):
    alternatives = [objects.subrequest(name, deviceClassName=kind, count=count) for name, kind, count in ways]
    return objects.first_available("gpu", *alternatives)


def devices_of(action):
    return [each["device"] for write in action.writes for each in write.allocation["devices"]["results"]]


def node_with(name, **kinds):
    """A node and a slice with so many devices of each kind."""
    devices = [gpus.gpu(f"{kind}-{n}", kind=kind) for kind, count in kinds.items() for n in range(count)]
    return objects.node(name), objects.resource_slice(name, *devices, nodeName=name)


# Alternatives


def test_the_rank_of_the_alternative_decides_the_node():
    best, second = gpus.device_class("best"), gpus.device_class("second")
    wanted = first_available(("best", "best", 1), ("second", "second", 1))
    core = Core(best, second, *node_with("a", second=2), *node_with("b", best=1), *node_with("c", second=1))
    core.put(objects.claim("c0", wanted), objects.claim("c1", wanted))
    core.put(pod("first", claims=["c0"]), pod("next", claims=["c1"]))
    actions = core.actions()
    assert bound(actions)["first"] == "b"
    assert bound(actions)["next"] in ("a", "c")
    assert actions[0].writes[0].allocation["devices"]["results"][0]["request"] == "gpu/best"


def test_a_node_that_offers_less_than_it_seemed_to_is_compared_again():
    """Two of the best by number, but not of one root: only the search finds out."""
    wanted = first_available(("pair", "gpu", 2), ("one", "other", 1))
    constraints = [{"requests": ["gpu"], "matchAttribute": f"{objects.DRIVER}/root"}]

    def gpu(name, root):
        return gpus.gpu(name, attributes={"root": {"string": root}})

    odd = [gpu("g0", "x"), gpu("g1", "y"), gpus.gpu("o", kind="other", attributes={"root": {"string": "z"}})]
    even = [gpu("g0", "x"), gpu("g1", "x")]
    core = Core(
        gpus.device_class("other"),
        # A little larger, so that it would be preferred.
        objects.node("odd", cpu="9"),
        objects.node("even"),
        objects.resource_slice("odd", *odd, nodeName="odd"),
        objects.resource_slice("even", *even, nodeName="even"),
        objects.claim("c", wanted, constraints=constraints),
        pod("p", claims=["c"], cpu="4"),
    )
    assert bound(core.actions()) == {"p": "even"}


# A node that the status names


def nominated(name, node, **more):
    return {**pod(name, **more), "status": {"nominatedNodeName": node}}


@pytest.mark.parametrize("node", ["a", "b", "c"])
def test_the_node_that_the_status_names_is_taken_if_it_will_do(node):
    core = Core(objects.node("a"), objects.node("b", cpu="64"), objects.node("c"), nominated("p", node, cpu="1"))
    assert bound(core.actions()) == {"p": node}


def test_a_node_that_will_not_do_is_passed_over_whatever_the_status_names():
    core = Core(objects.node("a", cpu="1"), objects.node("b"), nominated("p", "a", cpu="2"), nominated("q", "gone"))
    assert bound(core.actions())["p"] == "b"
    core = Core(objects.node("b"), nominated("q", "gone"))
    assert bound(core.actions()) == {"q": "b"}


# Claims that have devices


def test_a_claim_that_has_devices_takes_its_pods_to_them():
    core = Core(*node_with("a", gpu=2), *node_with("b", gpu=2), holding("c", "gpu-1", pool="b", node="b"))
    core.put(pod("p", claims=["c"]))
    (action,) = core.actions()
    assert action.node == "b"
    assert action.writes[0].allocation is None


def test_claims_that_have_devices_on_different_nodes_cannot_be_used_together():
    core = Core(
        *node_with("a", gpu=1),
        *node_with("b", gpu=1),
        user("u", "a"),
        user("v", "b"),
        holding("x", "gpu-0", pool="a", node="a", users=["u"]),
        holding("y", "gpu-0", pool="b", node="b", users=["v"]),
        pod("p", claims=["x", "y"]),
    )
    assert "2 resourceclaim not available on the node" in refused(core.actions())["p"]


def test_an_unused_claim_that_is_in_the_way_is_released():
    core = Core(
        *node_with("a", gpu=1),
        *node_with("b", gpu=1),
        holding("c", "gpu-0", pool="a", node="a"),
        user("u", "a", cpu="8"),
    )
    core.put(pod("p", claims=["c"], cpu="4"))
    (action,) = core.actions()
    assert isinstance(action, Refuse)
    assert action.release[0]["metadata"]["name"] == "c"
    assert action.message.endswith("deallocation of ResourceClaim completed")
    core.do(action)
    assert bound(core.later()) == {"p": "b"}


def test_a_claim_that_somebody_uses_is_not_released():
    core = Core(
        *node_with("a", gpu=1),
        *node_with("b", gpu=1),
        user("u", "a", cpu="8"),
        holding("c", "gpu-0", pool="a", node="a", users=["u"]),
        pod("p", claims=["c"], cpu="4"),
    )
    assert core.actions()[0].release == ()


def test_a_claim_is_not_released_where_that_would_not_help():
    core = Core(*node_with("a", gpu=1), holding("c", "gpu-0", pool="a", node="a"), user("u", "a", cpu="8"))
    core.put(pod("p", claims=["c"], cpu="4"))
    assert core.actions()[0].release == ()


# Binding conditions


def conditional(status=None, at="1970-01-01T00:00:00Z", users=()):
    claim = holding("c", "gpu-0", pool="a", node="a", users=users, bindingConditions=["ready"])
    claim["status"]["allocation"]["devices"]["results"][0]["bindingFailureConditions"] = ["broken"]
    claim["status"]["allocation"]["allocationTimestamp"] = at
    if status:
        conditions = [{"type": status, "status": "True"}]
        claim["status"]["devices"] = [
            {"driver": objects.DRIVER, "pool": "a", "device": "gpu-0", "conditions": conditions}
        ]
    return claim


def test_devices_that_failed_to_get_ready_are_given_back():
    core = Core(*node_with("a", gpu=1), conditional("broken"), pod("p", claims=["c"]))
    (action,) = core.actions()
    assert action.release


def test_devices_that_take_too_long_are_given_back():
    core = Core(*node_with("a", gpu=1), conditional(), pod("p", claims=["c"]))
    core.now = 601.0
    core.put(core.get("Pod", "p"))
    (action,) = core.actions()
    assert action.release


def test_devices_that_are_getting_ready_are_waited_for():
    core = Core(*node_with("a", gpu=1), conditional(), pod("p", claims=["c"]))
    core.now = 599.0
    (action,) = core.actions()
    assert isinstance(action, Bind)
    assert core.scheduler.binding_of(action.claims, core.now).value == "pending"
    core.put(conditional("ready"))
    assert core.scheduler.binding_of(action.claims, core.now).value == "ready"
    core.put(conditional("broken"))
    assert core.scheduler.binding_of(action.claims, core.now).value == "failed"


# Extended resources


def test_an_extended_resource_is_served_by_devices():
    resource = gpus.GPU
    core = Core(*node_with("a", gpu=3), pod("p", requests={resource: "2"}))
    (action,) = core.actions()
    (write,) = action.writes
    assert write.special
    assert devices_of(action) == ["gpu-0", "gpu-1"]
    assert [each["resourceName"] for each in action.mappings] == [resource]
    stored = core.write(action)[0]
    assert core.state.claims.extended(action.pod.uid) == stored
    assert list(core.state.inventory.usage.claims) == [("default", "p-special")]


def test_a_pod_that_waits_for_an_extended_resource_says_what_is_missing():
    core = Core(*node_with("a", gpu=3), pod("p", requests={gpus.GPU: "2"}))
    (action,) = core.actions()
    core.do(action)
    core.put(pod("q", requests={gpus.GPU: "2"}))
    (refused,) = core.actions()
    assert refused.message == (
        "0/1 nodes are available: 1 cannot allocate all claims. "
        "a: container-0-request-0: needs 2, 1 available (2 in use by default/p-special)."
    )


def test_the_share_of_a_special_claim_stays_its_own():
    shared = gpus.gpu(
        "gpu-0",
        allowMultipleAllocations=True,
        capacity={"memory": {"value": "10", "requestPolicy": {"default": "6"}}},
    )
    core = Core(objects.node("a"), objects.resource_slice("a", shared, nodeName="a"))
    resource = {gpus.GPU: "1"}
    core.put(pod("p", requests=resource))
    (action,) = core.actions()
    core.do(action)
    core.put(pod("q", requests=resource))
    assert bound(core.later()) == {}


def test_what_an_earlier_attempt_left_is_cleared_away_first():
    core = Core(*node_with("a", gpu=1), pod("p", requests={gpus.GPU: "1"}))
    (first,) = core.actions()
    core.write(first)
    core.scheduler.failed(first, core.now)
    (action,) = core.later(5)
    assert action.discard[0]["metadata"]["name"] == "p-special"
    core.remove("ResourceClaim", "p-special")
    assert bound(core.later()) == {"p": "a"}


def test_a_node_that_has_the_resource_itself_needs_no_devices():
    own = objects.node("a")
    own["status"]["allocatable"]["example.com/gpu"] = "1"
    core = Core(gpus.device_class("gpu", extendedResourceName="example.com/gpu"), own)
    core.put(pod("p", requests={"example.com/gpu": "1"}))
    (action,) = core.actions()
    assert (action.node, action.writes) == ("a", ())


# What devices take from their node


def costly(multiplier="4"):
    mapping = {"cpu": {"mapping": {"deviceMultiplier": multiplier}}}
    return gpus.gpu("gpu-0", nodeAllocatableResources=mapping)


def test_what_devices_take_from_the_node_counts():
    core = Core(objects.node("a", cpu="5"), objects.resource_slice("a", costly(), nodeName="a"), objects.claim("c"))
    core.put(pod("p", claims=["c"], cpu="1"))
    (action,) = core.actions()
    assert core.state.nodes["a"].requested["cpu"] == 5000
    assert action.node_allocatable
    core.scheduler.failed(action, core.now)
    assert not core.state.nodes["a"].requested


def test_a_node_without_room_for_what_devices_take_is_no_place():
    core = Core(objects.node("a", cpu="4"), objects.resource_slice("a", costly(), nodeName="a"), objects.claim("c"))
    core.put(pod("p", claims=["c"], cpu="1"))
    assert "Insufficient cpu" in refused(core.actions())["p"]


def test_what_one_pods_claims_take_does_not_keep_others_off():
    """Pods are of one kind whatever the claims cost that they have already."""
    slices = [objects.resource_slice("a", costly("8"), nodeName="a")]
    core = Core(objects.node("a", cpu="8"), *slices, holding("c", "gpu-0", pool="a", node="a"))
    core.put(pod("dear", claims=["c"], cpu="1"))
    assert "Insufficient cpu" in refused(core.actions())["dear"]
    core.put(pod("cheap", cpu="1"))
    assert bound(core.actions()) == {"cheap": "a"}


# Which node


def test_packing_and_spreading_of_devices():
    def chosen(policy):
        core = Core(
            *node_with("a", gpu=4),
            *node_with("b", gpu=4),
            user("u", "a"),
            holding("c", "gpu-0", pool="a", node="a", users=["u"]),
            objects.claim("d"),
            pod("p", claims=["d"]),
            policy=policy,
        )
        return bound(core.actions())["p"]

    assert chosen(PACK) == "a"
    assert chosen(SPREAD) == "b"


def test_the_message_says_what_the_allocator_says():
    core = Core(*node_with("a", gpu=1), user("u", "a"), holding("c", "gpu-0", pool="a", node="a", users=["u"]))
    core.put(objects.claim("d"), pod("p", claims=["d"]))
    message = refused(core.actions())["p"]
    assert message.startswith("0/1 nodes are available: 1 cannot allocate all claims.")
    assert "a: " in message


def test_a_fault_is_an_error_and_not_a_lack():
    wanted = objects.request(selectors=[{"cel": {"expression": "device.attributes['x'].y == 1"}}])
    core = Core(*node_with("a", gpu=1), objects.claim("c", wanted), pod("p", claims=["c"]))
    (action,) = core.actions()
    assert action.reason == "SchedulerError"


# Which node a refusal speaks of


def _gpu_node(name, *devices):
    return objects.node(name), objects.resource_slice(name, *list(devices), nodeName=name)


def test_a_refusal_speaks_of_the_node_where_least_is_missing():
    small = gpus.gpu("l40s", kind="shared", capacity={"memory": {"value": "48Gi"}}, allowMultipleAllocations=True)
    wanted = objects.request(deviceClassName="shared-gpu", capacity={"requests": {"memory": "60Gi"}})
    core = Core(
        *_gpu_node("big", *(gpus.gpu(f"gpu-{n}") for n in range(6))),
        *_gpu_node("shared", small),
        gpus.device_class("shared-gpu", kind="shared"),
        objects.claim("c", wanted),
        pod("p", claims=["c"]),
    )
    said = refused(core.actions())["p"]
    assert "shared: gpu: needs 1, 0 available" in said
    assert "too small: needs 60Gi memory, has 48Gi" in said


def test_a_node_whose_devices_are_in_use_is_nearer_than_one_without_any():
    core = Core(
        *_gpu_node("a", *(gpus.gpu(f"net-{n}", kind="net") for n in range(9))),
        *_gpu_node("b", gpus.gpu("gpu-0")),
        holding("other", "gpu-0", users=["somebody"], pool="b"),
        objects.claim("c"),
        pod("p", claims=["c"]),
    )
    assert "b: gpu: needs 1, 0 available (1 in use by default/other)" in refused(core.actions())["p"]


def test_a_refusal_names_some_who_hold_the_devices_and_what_else_is_in_the_way():
    tainted = gpus.gpu("gpu-9", taints=[{"key": "broken", "effect": "NoSchedule"}])
    whole = [gpus.gpu(f"gpu-{n}") for n in range(8)]
    held = [holding(f"h{n}", f"gpu-{n}", users=[f"u{n}"]) for n in range(8)]
    core = Core(*_gpu_node("n", *whole, tainted), *held, objects.claim("c"), pod("p", claims=["c"]))
    said = refused(core.actions())["p"]
    assert "8 in use by default/h0, default/h1, default/h2, default/h3 and 4 more" in said
    assert "1 tainted broken=:NoSchedule" in said
    assert "\n" not in said
