"""Claims that nobody uses are given back where they keep a pod from a node, and nowhere else."""

from dray.scheduling.actions import Bind
from tests.scheduling.core import Core, bound, holding, placed, pod
from tests.scheduling_loop import objects


def released(actions):
    return [each.release["metadata"]["name"] for each in actions if not isinstance(each, Bind) and each.release]


def two_nodes(*more):
    """The first has no room."""
    full, free = objects.node("full", cpu="1"), objects.node("free")
    return Core(full, free, objects.gpus_of("full", 2), objects.gpus_of("free", 2), *more)


def test_the_claim_that_is_in_the_way():
    net = objects.resource_slice("net", [objects.gpu("net-0", kind="net")])
    anywhere = holding("anywhere", "net-0", pool="net")
    core = two_nodes(net, anywhere, holding("there", "gpu-0", pool="full", node="full"))
    core.put(pod("p", claims=["anywhere", "there"], cpu="4"))
    done = core.settle()
    assert released(done) == ["there"]
    assert bound(done) == {"p": "free"}
    (bind,) = [each for each in done if isinstance(each, Bind)]
    (there,) = [write for write in bind.writes if write.allocation]
    assert there.claim["metadata"]["name"] == "there"


def test_not_where_the_other_claims_could_not_be_had_anyway():
    pair = objects.devices(objects.request(count=2), constraints=[{"matchAttribute": f"{objects.DRIVER}/name"}])
    core = two_nodes(holding("there", "gpu-0", pool="full", node="full"), objects.claim("pair", pair))
    core.put(pod("p", claims=["there", "pair"], cpu="4"))
    assert released(core.settle()) == []


def test_not_where_another_pod_uses_it():
    core = two_nodes(holding("there", "gpu-0", pool="full", node="full", users=["other"]))
    core.put(pod("p", claims=["there"], cpu="4"))
    assert released(core.settle()) == []


def test_also_when_there_comes_to_be_room_on_another_node():
    core = two_nodes(holding("there", "gpu-0", pool="full", node="full"), placed("heavy", "free", cpu="8"))
    core.put(pod("p", claims=["there"], cpu="4"))
    assert released(core.settle()) == []
    core.remove("Pod", "heavy")
    done = core.settle()
    assert (released(done), bound(done)) == (["there"], {"p": "free"})


def test_also_when_there_come_to_be_devices_on_another_node():
    core = two_nodes(holding("there", "net-0", pool="full", node="full"))
    core.put(objects.claim("net", objects.devices(objects.request(device_class="net"))))
    core.put(pod("p", claims=["there", "net"], cpu="4"))
    assert released(core.settle()) == []
    core.put(objects.resource_slice("more", [objects.gpu("net-0", kind="net")], node="free"))
    done = core.settle()
    assert (released(done), bound(done)) == (["there"], {"p": "free"})
