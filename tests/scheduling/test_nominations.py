"""A place that is kept for a pod while those it displaces are going."""

from __future__ import annotations

from dataclasses import replace

from dray.api.objects import Object
from dray.scheduling.model.actions import Bind, NominatedPlace, Refuse
from dray.scheduling.model.pod import Pod
from dray.scheduling.scheduler import Scheduler
from dray.testing import objects
from tests.scheduling.core import Core, bound, holding, one_gpu_node, user, victims
from tests.scheduling.core import pod as pod_of


def claim(name: str, version: str, user: str = "") -> Object:
    status: Object = {}
    if user:
        reserved = [{"resource": "pods", "name": user, "uid": user}]
        status = {"allocation": objects.allocation("gpu-0", "gpu-1", pool="n"), "reservedFor": reserved}
    identity = {"namespace": "default", "uid": f"claim {name}", "resourceVersion": version}
    return objects.claim(name, objects.request(count=2), **identity, status=status)


def pod(name: str, priority: int, node: str | None = None) -> Object:
    return objects.pod(name, claims=[name], priority=priority, nodeName=node, namespace="default", uid=name)


def one_node() -> Scheduler:
    scheduler = Scheduler()
    scheduler.put("Node", objects.node("n"), 0)
    scheduler.put("DeviceClass", objects.device_class("gpu"), 0)
    scheduler.put("ResourceSlice", objects.resource_slice("n", "gpu-0", "gpu-1", nodeName="n"), 0)
    return scheduler


def low_placed_and_high_waiting() -> Scheduler:
    scheduler = one_node()
    scheduler.put("ResourceClaim", claim("low", "1", user="low"), 0)
    scheduler.put("Pod", pod("low", 0, node="n"), 0)
    scheduler.put("ResourceClaim", claim("high", "2"), 0)
    scheduler.put("Pod", pod("high", 10), 0)
    return scheduler


def test_who_displaced_others_is_tried_as_soon_as_they_are_gone() -> None:
    """The place that is kept is taken for others, but not for the one it is kept for."""
    scheduler = low_placed_and_high_waiting()
    refused = scheduler.next(1)
    assert isinstance(refused, Refuse)
    assert refused.preemption is not None
    assert [victim.key[1] for victim in refused.preemption.victims] == ["low"]
    assert scheduler.next(2) is None
    scheduler.remove("Pod", pod("low", 0, node="n"), 3)
    scheduler.put("ResourceClaim", claim("low", "3"), 3)
    bound = scheduler.next(3)
    assert isinstance(bound, Bind)
    assert (bound.pod.key[1], bound.node) == ("high", "n")


def test_keeping_a_place_wakes_nobody_again_and_again() -> None:
    scheduler = low_placed_and_high_waiting()
    actions = [scheduler.next(now) for now in range(1, 20)]
    assert len([action for action in actions if action is not None]) == 1


VALUES = (("low", 1), ("high", 10))

APART = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "a"}}}
        ]
    }
}


def apart_from_those_like_it() -> Core:
    """A pod of lower priority goes for one that wants no node with pods that have its own label."""
    core = one_gpu_node(holding("low", "gpu-0", users=["low"]), user("low", claims=["low"]), objects.claim("high"))
    core.put(pod_of("high", claims=["high"], value=10, labels={"app": "a"}, affinity=APART))
    assert victims(core.later(1)) == ["low"]
    return core


def test_the_place_kept_for_a_pod_is_none_of_its_terms_business() -> None:
    core = apart_from_those_like_it()
    core.remove_with_claims("low")
    assert bound(core.later()) == {"high": "n"}


def test_who_looks_past_its_own_place_wakes_nobody() -> None:
    core = apart_from_those_like_it()
    core.decisions = 0
    core.later(600)
    assert core.decisions <= 2


def two_with_places() -> tuple[Core, list[Pod]]:
    core = Core(*(objects.node(name) for name in "abc"), pod_of("p", nodeSelector={"no": "where"}), pod_of("q"))
    pods = [queued.pod for queued in core.scheduler.queue.all()]
    core.scheduler.nominations.keep(dict(zip(pods, (NominatedPlace("a"), NominatedPlace("b")), strict=True)))
    return core, pods


def test_pods_that_exchange_their_places_leave_nothing_to_others() -> None:
    core, pods = two_with_places()
    before = core.state.helped.end
    core.scheduler.nominations.keep(dict(zip(pods, (NominatedPlace("b"), NominatedPlace("a")), strict=True)))
    assert core.state.helped.end == before


def test_what_pods_leave_themselves_is_no_reason_to_try_them_again() -> None:
    core, pods = two_with_places()
    before = core.state.helped.end
    core.scheduler.nominations.keep(dict(zip(pods, (NominatedPlace("b"), NominatedPlace("c")), strict=True)))
    assert core.state.helped.since(before) == {core.state.nodes["a"].number}
    core.scheduler.nominations.keep(dict(zip(pods, (NominatedPlace("b"), NominatedPlace("a")), strict=True)))
    assert core.scheduler.nominations.to_retry(before) == []
    core.put(objects.node("b", cpu="7"))
    assert core.scheduler.nominations.to_retry(before) == [pods[0].uid]


def test_pods_see_neither_their_own_places_nor_those_of_less_urgent_pods() -> None:
    core, (pod, other) = two_with_places()
    nodes, before = core.state.nodes, core.state.helped.end
    with core.scheduler.nominations.seen_by(pod):
        assert (len(nodes["a"].pods), len(nodes["b"].pods)) == (0, 1)
        with core.scheduler.nominations.seen_by(replace(other, priority=pod.priority + 1)):
            assert (len(nodes["a"].pods), len(nodes["b"].pods)) == (0, 0)
    assert (len(nodes["a"].pods), len(nodes["b"].pods)) == (1, 1)
    assert core.state.helped.end == before


def test_a_place_that_is_given_up_is_free_for_others() -> None:
    core, (pod, _) = two_with_places()
    before, revision = core.state.helped.end, core.state.pods_revision
    core.scheduler.nominations.drop(pod.uid)
    assert core.state.helped.since(before) == {core.state.nodes["a"].number}
    assert core.state.pods_revision > revision


def place(*devices: str) -> NominatedPlace:
    return NominatedPlace("n", tuple({"driver": objects.DRIVER, "pool": "n", "device": each} for each in devices))


def test_devices_that_are_no_longer_kept_on_the_same_node_are_free_for_others() -> None:
    core = one_gpu_node(objects.claim("small"), pod_of("large", nodeSelector={"no": "where"}), gpu_count=2)
    core.later()
    [large] = [queued.pod for queued in core.scheduler.queue.all()]
    core.scheduler.nominations.keep({large: place("gpu-0", "gpu-1")})
    core.put(pod_of("small", claims=["small"]))
    assert bound(core.later()) == {}
    core.scheduler.nominations.keep({large: place("gpu-1")})
    assert bound(core.later()) == {"small": "n"}


def test_resources_are_free_for_others_if_one_of_two_kept_places_moves_away() -> None:
    core = Core(objects.node("a", cpu="2"), objects.node("b", cpu="2"))
    core.put(*(pod_of(name, cpu="1", nodeSelector={"no": "where"}) for name in ("p", "q")))
    core.later()
    first, second = (queued.pod for queued in core.scheduler.queue.all())
    keep = core.scheduler.nominations.keep
    keep({first: NominatedPlace("a"), second: NominatedPlace("a")})
    core.put(pod_of("waiting", cpu="1", nodeSelector={"kubernetes.io/hostname": "a"}))
    assert bound(core.later()) == {}
    keep({first: NominatedPlace("a"), second: NominatedPlace("b")})
    assert bound(core.later()) == {"waiting": "a"}


def test_what_pods_caused_when_they_were_tried_is_no_reason_to_try_them_again() -> None:
    core = Core(objects.node("n"), *(pod_of(name, value=value, nodeSelector={"no": "where"}) for name, value in VALUES))
    core.later()
    low, high = core.scheduler.queue.all()
    core.scheduler.nominations.keep({low.pod: NominatedPlace("n")})
    core.later()
    core.decisions = 0
    core.state.vacated("n", ())
    core.scheduler.waits.attempted(high.entry)
    core.later()
    assert core.decisions == 1, "low is tried, as its place is there"
    core.scheduler.nominations.keep({low.pod: NominatedPlace("n")})
    core.state.vacated("n", ())
    core.later()
    assert core.decisions == 3


def test_a_pod_counts_on_devices_of_no_pod_only_until_that_pod_is_seen() -> None:
    """Watches may show a claim before the pod that uses it."""
    core = one_gpu_node(holding("low", "gpu-0", users=["low"]), objects.claim("high"))
    core.put(pod_of("high", claims=["high"], value=10))
    assert victims(core.later()) == []
    core.put(user("low", claims=["low"]))
    assert victims(core.later()) == ["low"]
