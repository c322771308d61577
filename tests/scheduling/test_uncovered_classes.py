"""Device classes that a queue with quota for devices does not cover: their pods are not let in, unless it allows it."""

import pytest

from dray.planning.player import Player
from dray.testing import objects
from tests import gpus
from tests.scheduling.test_queues import GPU, QUEUE, cluster_queue, flavor, local_queue, nominal

NET = "deviceclass.resource.kubernetes.io/net"
GPU_REQUEST = objects.request("gpu", deviceClassName="gpu")
NET_REQUEST = objects.request("net", deviceClassName="net")
EITHER = objects.first_available(
    "any", objects.subrequest("net", deviceClassName="net"), objects.subrequest("gpu", deviceClassName="gpu")
)
ALLOWED = {"dray.dev/uncovered-device-classes": "allow"}


def queue(resource=GPU, number=4, annotations=None, **more):
    made = cluster_queue("team", ("any", {resource: nominal(number), **more}))
    made["metadata"]["annotations"] = annotations or {}
    return made


def world(*requests, of=None, classes=(), **pod):
    """One node with four GPUs and four NICs, and a pod in the queue whose claim has these requests."""
    devices = [gpus.gpu(f"gpu-{n}") for n in range(4)] + [gpus.gpu(f"net-{n}", kind="net") for n in range(4)]
    return Player(
        [
            objects.node("n", cpu="64"),
            objects.resource_slice("n", *devices, nodeName="n"),
            *(classes or (gpus.device_class("gpu"), gpus.device_class("net"))),
            flavor(),
            of or queue(),
            local_queue("team", "team"),
            objects.claim("c", *requests),
            objects.pod("p", claims=["c"], labels={QUEUE: "team"}, **pod),
        ]
    )


def place(player):
    player.settle()
    assert player.errors == []
    return player.node_of_pods()["p"]


def held(player):
    """The classes of devices that the claim got, by their names."""
    return sorted(name.split("-")[0] for name in gpus.held(player.stored.get("ResourceClaim", "default", "c")))


def test_a_class_without_quota_is_not_let_in_and_the_pod_says_what_to_do():
    player = world(GPU_REQUEST, NET_REQUEST)
    assert place(player) is None
    assert player.refusals["p"] == (
        "ClusterQueue team has no quota for device class net, which a claim of the pod"
        " requests: add deviceclass.resource.kubernetes.io/net to its coveredResources, or annotate it with"
        " dray.dev/uncovered-device-classes: allow"
    )


@pytest.mark.parametrize(
    "changed",
    [queue(**{NET: nominal(1)}), queue(annotations=ALLOWED), queue(**{f"bandwidth.{NET}": nominal("100Gi")})],
    ids=["covered", "allowed", "capacity covered"],
)
def test_a_pod_is_let_in_once_its_queue_covers_or_allows_the_class(changed):
    player = world(GPU_REQUEST, NET_REQUEST)
    assert place(player) is None
    player.put(changed)
    assert place(player) == "n"
    assert held(player) == ["gpu", "net"]


def test_devices_of_allowed_classes_use_no_quota():
    player = world(NET_REQUEST, of=queue(number=0, annotations=ALLOWED))
    assert place(player) == "n"


@pytest.mark.parametrize("value", ["", "Allow", "true"])
def test_other_values_of_the_annotation_do_not_allow_uncovered_classes(value):
    player = world(NET_REQUEST, of=queue(annotations={"dray.dev/uncovered-device-classes": value}))
    assert place(player) is None


def test_a_queue_without_quota_for_devices_does_not_count_them():
    player = world(NET_REQUEST, of=queue("cpu"), requests={"cpu": "1"})
    assert place(player) == "n"


@pytest.mark.parametrize("resource", ["example.com/gpu", GPU])
def test_a_queue_may_cover_a_class_by_its_extended_resource_name(resource):
    classes = (gpus.device_class("gpu", extendedResourceName="example.com/gpu"), gpus.device_class("net"))
    assert place(world(GPU_REQUEST, of=queue(resource), classes=classes)) == "n"
    assert place(world(NET_REQUEST, of=queue(resource), classes=classes)) is None


def test_an_alternative_that_is_not_covered_is_left_out():
    player = world(EITHER)
    assert place(player) == "n"
    assert held(player) == ["gpu"]


def test_alternatives_none_of_which_is_covered_are_not_let_in():
    player = world(EITHER, of=queue("deviceclass.resource.kubernetes.io/other"))
    assert place(player) is None
    assert "has no quota for device class net" in player.refusals["p"]


def test_access_as_administrator_takes_nothing_and_needs_no_quota():
    admin = objects.request("net", deviceClassName="net", adminAccess=True)
    player = world(GPU_REQUEST, admin)
    player.put(objects.namespace("default", labels={"resource.kubernetes.io/admin-access": "true"}))
    assert place(player) == "n"


def test_a_pod_is_tried_again_when_its_class_gets_a_name_that_is_covered():
    player = world(NET_REQUEST, of=queue(**{"example.com/nic": nominal(1)}))
    assert place(player) is None
    player.put(gpus.device_class("net", extendedResourceName="example.com/nic"))
    assert place(player) == "n"


def test_a_pod_is_tried_again_when_its_claim_is_replaced():
    player = world(NET_REQUEST)
    assert place(player) is None
    player.remove("ResourceClaim", "c")
    player.put(objects.claim("c", GPU_REQUEST))
    assert place(player) == "n"


def test_a_gang_also_names_the_uncovered_class():
    player = world(GPU_REQUEST)
    group = {"schedulingGroup": {"podGroupName": "g"}}
    player.put(objects.pod_group("g", minCount=2))
    for name in ("a", "b"):
        player.put(objects.claim(name, NET_REQUEST))
        player.put(objects.pod(name, claims=[name], labels={QUEUE: "team"}, **group))
    player.settle()
    assert "has no quota for device class net" in player.refusals["g"]
