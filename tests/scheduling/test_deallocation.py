"""Claims that nobody uses are given back where they keep a pod from a node, and nowhere else."""

from dray.scheduling.model.actions import Bind
from dray.testing import objects
from tests import gpus
from tests.scheduling.core import Core, bound, holding, placed, pod


def released(actions):
    return [claim["metadata"]["name"] for each in actions if not isinstance(each, Bind) for claim in each.release]


def two_nodes(*more):
    """The first has no room."""
    full, free = objects.node("full", cpu="1"), objects.node("free")
    return Core(full, free, gpus.slice_of("full", 2), gpus.slice_of("free", 2), *more)


def test_the_claim_that_is_in_the_way():
    net = objects.resource_slice("net", gpus.gpu("net-0", kind="net"))
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
    constraints = [{"matchAttribute": f"{objects.DRIVER}/name"}]
    pair = objects.claim("pair", objects.request(count=2), constraints=constraints)
    core = two_nodes(holding("there", "gpu-0", pool="full", node="full"), pair)
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
    core.put(objects.claim("net", objects.request(deviceClassName="net")))
    core.put(pod("p", claims=["there", "net"], cpu="4"))
    assert released(core.settle()) == []
    core.put(objects.resource_slice("more", gpus.gpu("net-0", kind="net"), nodeName="free"))
    done = core.settle()
    assert (released(done), bound(done)) == (["there"], {"p": "free"})
