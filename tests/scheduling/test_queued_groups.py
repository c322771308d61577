"""Groups in queues: their pods are packed and respect levels of topology as they do outside a queue."""

from collections import Counter

import pytest

from dray.planning.player import Player
from dray.testing import objects
from tests import gpus
from tests.scheduling.test_queues import GPU, QUEUE, cluster_queue, flavor, local_queue, nominal
from tests.scheduling.test_share_tree import queue

EXTENDED = "nvidia.com/gpu"
PREFIX = "kueue.x-k8s.io/"
KAI = {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup"}
LEVELS = ("block", "rack", "host")
INDEX = "batch.kubernetes.io/job-completion-index"


def hosts(number=4, *, rack="r0", count=8, dra=False):
    for index in range(number):
        name = f"{rack}-h{index}"
        labels = {"block": "b", "rack": rack, "host": name}
        yield objects.node(name, cpu="64", labels=labels, allocatable={} if dra else {EXTENDED: str(count)})
        if dra:
            yield gpus.slice_of(name, count)


def topology(kind):
    api = f"{kind}/v1alpha1"
    spec = {"levels": [{"nodeLabel": label} for label in LEVELS]}
    return {"apiVersion": api, "kind": "Topology", "metadata": {"name": "net"}, "spec": spec}


def kueue_queue():
    resources = {GPU: nominal(64), EXTENDED: nominal(64)}
    return [
        flavor(),
        {"kind": "ResourceFlavor", "metadata": {"name": "other"}, "spec": {"nodeLabels": {"rack": "none"}}},
        cluster_queue("team", ("any", resources), ("other", resources)),
        local_queue("team", "team"),
    ]


def kai_queue():
    return [queue("dept", quota=-1), queue("team", "dept", quota=64)]


def members(number, *, dra, labels, annotations=None, indexed=False, prefix="p", **spec):
    """Pods with one GPU each, and their claims."""
    for index in range(number):
        name = f"{prefix}{index}"
        said = {**labels, **({INDEX: str(index)} if indexed else {})}
        metadata = {"labels": said, "annotations": dict(annotations or {})}
        if dra:
            yield objects.claim(name)
            yield objects.pod(name, claims=[name], **metadata, **spec)
        else:
            yield objects.pod(name, requests={EXTENDED: "1"}, limits={EXTENDED: "1"}, **metadata, **spec)


def native(number, level=None, *, required=True, **more):
    """A gang of Kubernetes; Kueue's annotations name the level."""
    yield objects.pod_group("g", minCount=number)
    yield from members(number, schedulingGroup={"podGroupName": "g"}, annotations=said(level, required), **more)


def kueue(number, level=None, *, required=True, labels=None, **more):
    labels = {**labels, f"{PREFIX}pod-group-name": "g"}
    annotations = {f"{PREFIX}pod-group-total-count": str(number), **said(level, required)}
    yield from members(number, labels=labels, annotations=annotations, **more)


def kai(number, level=None, *, required=True, **more):
    wanted = {("requiredTopologyLevel" if required else "preferredTopologyLevel"): level, "topology": "net"}
    spec = {"minMember": number, "queue": "team", **({"topologyConstraint": wanted} if level else {})}
    yield {**KAI, "metadata": {"name": "g"}, "spec": spec}
    yield from members(number, annotations={"pod-group-name": "g"}, **more)


def said(level, required):
    return {f"{PREFIX}podset-{'required' if required else 'preferred'}-topology": level} if level else {}


WAYS = {
    "native in Kueue's queue": (native, kueue_queue, {QUEUE: "team"}),
    "Kueue": (kueue, kueue_queue, {QUEUE: "team"}),
    "native in KAI's queue": (native, kai_queue, {"kai.scheduler/queue": "team"}),
    "KAI": (kai, kai_queue, {"kai.scheduler/queue": "team"}),
}
in_every_way = pytest.mark.parametrize(("group", "queues", "labels"), WAYS.values(), ids=WAYS)
# Kueue's annotations name a level only where its queues are served.
with_levels = pytest.mark.parametrize(
    ("group", "queues", "labels"),
    [way for name, way in WAYS.items() if name != "native in KAI's queue"],
    ids=[name for name in WAYS if name != "native in KAI's queue"],
)
with_devices = pytest.mark.parametrize("dra", [False, True], ids=["extended", "DRA"])


def placed(*documents):
    """How many pods each node has in the end."""
    player = Player([gpus.device_class("gpu"), *(topology("kueue.x-k8s.io"), topology("kai.scheduler")), *documents])
    player.settle()
    assert player.errors == []
    nodes = player.node_of_pods()
    assert all(nodes.values()), player.refusals
    return Counter(nodes.values())


@with_devices
@in_every_way
@pytest.mark.parametrize("indexed", [False, True], ids=["alike", "indexed"])
def test_a_gang_in_a_queue_is_packed(group, queues, labels, dra, indexed):
    found = placed(*hosts(dra=dra), *queues(), *group(8, labels=labels, dra=dra, indexed=indexed))
    assert list(found.values()) == [8]


@with_devices
@with_levels
@pytest.mark.parametrize("required", [True, False], ids=["required", "preferred"])
def test_a_gang_in_a_queue_takes_few_racks_of_its_block(group, queues, labels, dra, required):
    nodes = [*hosts(2, rack="r0", count=4, dra=dra), *hosts(4, rack="r1", count=4, dra=dra)]
    found = placed(*nodes, *queues(), *group(16, "block", labels=labels, dra=dra, required=required, indexed=True))
    assert {name.split("-")[0] for name in found} == {"r1"}


@with_devices
@with_levels
def test_a_gang_takes_few_hosts_of_the_racks_that_it_needs(group, queues, labels, dra):
    """Both racks are needed, and the large host of the smaller rack is filled before the last of the larger rack."""
    nodes = [*hosts(3, rack="r0", count=3, dra=dra), *hosts(1, rack="r1", count=6, dra=dra)]
    found = placed(*nodes, *queues(), *group(12, "block", labels=labels, dra=dra, indexed=True))
    assert sorted(found.values()) == [3, 3, 6]


@with_devices
@with_levels
@pytest.mark.parametrize("required", [True, False], ids=["required", "preferred"])
def test_a_gang_in_a_queue_goes_to_one_rack(group, queues, labels, dra, required):
    nodes = [*hosts(4, rack="r0", count=3, dra=dra), *hosts(2, rack="r1", count=4, dra=dra)]
    found = placed(*nodes, *queues(), *group(8, "rack", labels=labels, dra=dra, required=required))
    assert found == {"r1-h0": 4, "r1-h1": 4}


def test_an_elastic_gang_gets_what_quota_is_left_however_many_nodes_there_are():
    """The scheduler tries no nodes after the quota is used up: 6000 nodes would exceed the work budget."""
    quota = {EXTENDED: nominal(16)}
    queues = [flavor(), cluster_queue("team", ("any", quota)), local_queue("team", "team")]
    group = {"schedulingGroup": {"podGroupName": "g"}}
    player = Player([*hosts(6000), *queues, objects.pod_group("g", minCount=8)])
    for document in members(64, dra=False, labels={QUEUE: "team"}, **group):
        player.put(document)
    player.settle()
    found = Counter(node for node in player.node_of_pods().values() if node)
    assert sorted(found.values()) == [8, 8]
