"""A pod that waits is tried again when something changed that may help it, and not before."""

from dray.testing import objects
from tests import gpus
from tests.scheduling.core import Core, bound, holding, one_gpu_node, placed, pod, refused, user, victims


def waiting_for_gpu(*more, **options):
    """A node whose only GPU is taken, and a pod that waits for it."""
    core = one_gpu_node(
        user("u"),
        holding("taken", "gpu-0", users=["u"], node="n"),
        objects.claim("c"),
        pod("p", claims=["c"]),
        *more,
        **options,
    )
    assert list(refused(core.actions())) == ["p"]
    core.later(60)
    core.decisions = 0
    return core


def test_unrelated_events_do_not_try_a_pod_that_waits_for_devices():
    core = waiting_for_gpu(placed("other", "n", cpu="1"), objects.node("m"))
    core.remove("Pod", "other")
    core.put(objects.claim("d"))
    core.put(holding("e", "gpu-9", users=["v"]))
    core.change("Node", "n", status={"conditions": [{"type": "Ready"}]})
    core.put(objects.node("m", cpu="9"))
    core.put(pod("plain"))
    assert list(bound(core.later(60))) == ["plain"]
    assert core.decisions == 1


def test_a_pod_that_waits_for_devices_is_tried_when_one_is_freed():
    core = waiting_for_gpu()
    core.put(objects.claim("taken"))
    assert bound(core.later(11)) == {"p": "n"}
    assert core.decisions == 1


def test_a_pod_that_waits_for_devices_is_tried_when_one_is_published():
    core = waiting_for_gpu(objects.node("m"))
    core.put(gpus.slice_of("m", 1))
    assert bound(core.later(11)) == {"p": "m"}
    assert core.decisions == 1


def test_a_pod_that_waits_for_devices_is_tried_when_its_class_changes():
    core = one_gpu_node(objects.claim("c", objects.request(deviceClassName="new")), pod("p", claims=["c"]))
    assert "DeviceClass new not found" in refused(core.actions())["p"]
    core.put(gpus.device_class("new", "gpu"))
    assert bound(core.later(11)) == {"p": "n"}


def test_a_pod_that_waits_for_room_is_tried_when_there_is_some():
    core = one_gpu_node(placed("big", "n", cpu="8"), placed("small", "n"), pod("p", cpu="4"))
    core.later(60)
    core.decisions = 0
    core.remove("Pod", "small")
    assert core.later(60) == []
    assert core.decisions == 0
    core.remove("Pod", "big")
    assert bound(core.later(11)) == {"p": "n"}


def test_a_pod_that_others_keep_away_is_tried_when_its_own_labels_change():
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "x"}}}
    loner = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    unwelcome = gpus.pod("p", labels={"app": "x"})
    core = Core(objects.node("n"), placed("there", "n", affinity=loner), unwelcome)
    assert "existing pods anti-affinity" in refused(core.actions())["p"]
    core.put(gpus.pod("p", labels={"app": "y"}))
    assert bound(core.actions()) == {"p": "n"}


def test_labels_that_nobody_speaks_of_try_nothing_again():
    core = waiting_for_gpu()
    core.put(gpus.pod("p", claims=["c"], labels={"app": "y"}))
    assert core.later(60) == []
    assert core.decisions == 0


def test_a_pod_whose_claim_is_bound_to_a_node_is_tried_when_that_node_comes_back():
    core = Core(objects.node("m"), holding("c", "gpu-0", users=["u"], pool="x", node="n"), pod("p", claims=["c"]))
    assert bound(core.actions()) == {}
    core.later(60)
    core.put(objects.node("n"))
    assert bound(core.later(11)) == {"p": "n"}


def unevenly_spread():
    """A pod that fits only into the zone that has one of its kind already."""
    spread = {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "a"}},
    }
    core = Core(
        objects.node("n", labels={"zone": "z0"}),
        objects.node("m", labels={"zone": "z1"}, cpu="1"),
        placed("there", "n", labels={"app": "a"}),
        pod("p", cpu="2", labels={"app": "a"}, topologySpreadConstraints=[spread]),
    )
    assert bound(core.actions()) == {}
    return core


def test_a_pod_is_spread_again_when_an_empty_zone_is_no_more():
    core = unevenly_spread()
    core.remove("Node", "m")
    assert bound(core.later(11)) == {"p": "n"}


def test_a_pod_that_is_leaving_no_longer_counts_for_spreading():
    core = unevenly_spread()
    core.change("Pod", "there", metadata={"deletionTimestamp": "2030-01-01T00:00:00Z"})
    assert bound(core.later(11)) == {"p": "n"}


def test_devices_of_a_pool_that_is_partly_of_one_node_wake_whom_they_should():
    """A slice for one node of a pool that others see too makes all nodes look again."""
    own = objects.resource_slice("own", gpus.gpu("own-0"), pool="mixed", nodeName="n", resourceSliceCount=2)
    shared = objects.resource_slice("all", gpus.gpu("net-0", kind="net"), pool="mixed", resourceSliceCount=2)
    core = Core(
        objects.node("n"),
        objects.node("m"),
        gpus.slice_of("m", 1),
        shared,
        own,
        holding("x", "own-0", users=["u"], pool="mixed"),
        holding("y", "gpu-0", users=["v"], pool="m"),
        objects.claim("c"),
        pod("p", claims=["c"]),
    )
    assert bound(core.actions()) == {}
    core.put(own)
    core.later(60)
    core.put(objects.claim("y"))
    assert bound(core.later(11)) == {"p": "m"}


def test_ten_thousand_waiting_pods_of_one_kind_cost_what_one_costs():
    core = waiting_for_gpu()
    for number in range(10_000):
        core.put(objects.claim(f"c{number}"), pod(f"p{number}", claims=[f"c{number}"]))
    core.actions()
    core.later(60)
    core.decisions = 0
    core.put(objects.node("m"))
    core.put(placed("x", "m", cpu="1"))
    core.remove("Pod", "x")
    core.later(60)
    assert core.decisions == 0
    core.put(objects.claim("taken"))
    actions = core.later(0.9)
    assert bound(actions) == {"p": "n"}
    # The one that fits, and the next one, which tells that it was the last.
    assert core.decisions == 2
    # Reasons that name the former holder are refreshed a few at a time.
    core.later(20)
    assert core.decisions <= 2 + 20 * 11


def test_a_place_that_is_no_longer_kept_is_offered_to_those_who_wait():
    core = Core(objects.node("n", cpu="8"), placed("low", "n", cpu="8"), pod("high", cpu="8", value=10))
    assert victims(core.actions()) == ["low"]
    core.put(pod("middle", cpu="4", value=5))
    assert list(refused(core.actions())) == ["middle"]
    # There is room now, but not for whom it was kept.
    core.put(objects.node("n", cpu="4"))
    core.remove("Pod", "low")
    assert bound(core.later()) == {"middle": "n"}


def test_a_device_that_is_freed_goes_to_the_most_urgent_even_if_that_was_tried_a_moment_ago():
    core = one_gpu_node(user("u", value=20), holding("taken", "gpu-0", users=["u"], node="n"))
    core.put(objects.claim("c"), pod("low", claims=["c"]))
    assert list(refused(core.actions())) == ["low"]
    core.now += 1
    core.put(objects.claim("d"), pod("high", claims=["d"], value=10))
    assert list(refused(core.actions())) == ["high"]
    core.put(objects.claim("taken"))
    actions = core.actions()
    assert bound(actions) == {"high": "n"}
    assert victims(actions) == []


def test_a_group_that_many_join_is_woken_as_soon_as_one_of_one():
    core = waiting_for_gpu()
    for number in range(50):
        core.put(objects.claim(f"c{number}"), pod(f"p{number}", claims=[f"c{number}"]))
    core.actions()
    core.now += 1
    core.put(objects.claim("taken"))
    assert bound(core.actions()) == {"p": "n"}


def test_what_was_said_once_is_not_said_again():
    core = waiting_for_gpu()
    assert core.later(1000) == []


def test_what_could_not_be_said_is_tried_again():
    core = one_gpu_node(pod("p", cpu="100"))
    (said,) = core.actions()
    core.scheduler.refusal_failed(said, core.now)
    (again,) = core.later(1)
    assert again.message == said.message
