"""No queue pays for more devices than it may have, whichever alternatives its pods get and however many nodes have."""

import pytest

from dray.testing import objects
from tests import gpus
from tests.scheduling.core import Core, bound, pod, refused
from tests.scheduling.test_group_attempts import gang, member
from tests.scheduling.test_queues import (
    GPU,
    cluster_queue,
    flavor,
    in_queue,
    local_queue,
    nominal,
    queued,
    world,
)
from tests.scheduling.test_share_tree import queue as kai_queue
from tests.scheduling.test_vectors_kai import cluster as kai_cluster
from tests.scheduling.test_vectors_kai import labelled

NET = "deviceclass.resource.kubernetes.io/net"
ALL = objects.request(allocationMode="All")


def either(*counts, **classes):
    """Alternatives in the order in which they are preferred: numbers of GPUs, then devices of classes."""
    options = [objects.subrequest(f"of-{number}", count=number) for number in counts]
    options += [objects.subrequest(f"a-{name}", deviceClassName=name, count=n) for name, n in classes.items()]
    return objects.first_available("gpu", *options)


def held(core):
    return {
        (result["pool"], result["device"])
        for claim in core.state.claims._claims.values()
        for result in ((claim.get("status") or {}).get("allocation") or {}).get("devices", {}).get("results", ())
    }


def with_net(**quotas):
    core = Core(objects.node("n", cpu="64"), gpus.slice_of("n", 8), flavor(), local_queue("team", "team"))
    core.put(objects.resource_slice("n-net", gpus.gpu("net-0", kind="net"), pool="n-net", nodeName="n"))
    core.put(cluster_queue("team", ("any", {name: nominal(number) for name, number in quotas.items()})))
    return core


def ask(core, request, name="a"):
    core.put(objects.claim(name, request), queued(name, claims=[name]))
    return core.settle()


def test_all_devices_of_a_node_are_too_many():
    core = world(number=2)
    assert "needs 8 gpu" in refused(ask(core, ALL))["a"]
    core.put(cluster_queue("team", ("any", {GPU: nominal(8)})))
    assert bound(core.settle()) == {"a": "n"}


def test_who_wants_all_is_woken_when_there_is_quota_for_all():
    core = world(number=8)
    core.put(objects.node("m", cpu="64"), gpus.slice_of("m", 1))
    assert bound(ask(core, objects.request(count=1), "first")) == {"first": "n"}
    core.put(objects.claim("elsewhere", objects.request(count=1)), pod("outside", claims=["elsewhere"]))
    core.settle()
    ask(core, ALL, "all")
    core.remove_with_claims("first")
    core.remove_with_claims("outside")
    assert "all" in bound(core.settle())


@pytest.mark.parametrize(("number", "taken"), [(2, 1), (8, 8)])
def test_an_alternative_that_the_queue_cannot_pay_is_left_out(number, taken):
    core = world(number=number)
    assert bound(ask(core, either(8, 1))) == {"a": "n"}
    assert len(held(core)) == taken


def test_the_alternative_of_a_class_that_has_quota():
    core = with_net(**{GPU: 4, NET: 0})
    net = objects.subrequest("net", deviceClassName="net")
    assert bound(ask(core, objects.first_available("x", net, objects.subrequest("gpu")))) == {"a": "n"}
    assert {pool for pool, _ in held(core)} == {"n"}


def test_the_preferred_alternative_is_not_taken_without_quota():
    core = with_net(**{GPU: 0, NET: 4})
    assert bound(ask(core, either(2, net=1))) == {"a": "n"}
    assert {pool for pool, _ in held(core)} == {"n-net"}


def test_who_could_have_an_alternative_gets_it_when_there_is_quota():
    core = with_net(**{GPU: 2, NET: 4})
    assert bound(ask(core, objects.request(count=2), "first")) == {"first": "n"}
    assert bound(ask(core, objects.request(deviceClassName="net"), "second")) == {"second": "n"}
    assert bound(ask(core, either(2, net=1), "third")) == {}
    core.remove_with_claims("first")
    assert bound(core.settle()) == {"third": "n"}


def test_a_gang_takes_alternatives_that_its_queue_can_pay_for_all():
    for number, taken in ((4, 2), (8, 8)):
        core = world(number=number)
        core.put(gang("g", 2))
        for index in range(2):
            core.put(objects.claim(f"c{index}", either(4, 1)), in_queue(member(f"g-{index}", claims=[f"c{index}"])))
        assert sorted(bound(core.settle())) == ["g-0", "g-1"]
        assert len(held(core)) == taken


def test_a_limit_of_kai_holds_for_alternatives_and_for_all_devices():
    for request, found in ((ALL, {}), (either(8, 1), {"a": "n0"})):
        core = kai_cluster(kai_queue("a", "dept", quota=2, limit=2))
        core.put(objects.claim("c", request), labelled(pod("a", claims=["c"]), "a"))
        assert bound(core.settle()) == found
