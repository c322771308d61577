"""No pod is evicted for one that would not get the place, or would be evicted in turn."""

import pytest

from dray.testing import objects
from tests.scheduling.core import Core, bound, pod, victims
from tests.scheduling.test_group_attempts import gang, member
from tests.scheduling.test_queues import cluster_queue, flavor, in_queue, local_queue, nominal, queued
from tests.scheduling.test_reclaim_ends import run
from tests.scheduling.test_share_tree import queue
from tests.scheduling.test_vectors_kai import cluster, submit

ANY = {"reclaimWithinCohort": "Any"}


def world(*nodes, quota):
    """Queue `a` has the quota, queue `b` has none, and both are in one cohort."""
    core = Core(*nodes, flavor(), local_queue("a", "a"), local_queue("b", "b"))
    core.put(cluster_queue("a", ("any", {"cpu": nominal(quota)}), cohort="org", preemption=ANY))
    core.put(cluster_queue("b", ("any", {"cpu": nominal(0)}), cohort="org"))
    return core


def made_again(core):
    """What controllers do with pods that are evicted: they make them anew at once."""

    def again(document):
        metadata = {key: value for key, value in document["metadata"].items() if key in ("name", "labels")}
        spec = {key: value for key, value in document["spec"].items() if key != "nodeName"}
        core.put({**document, "metadata": metadata, "spec": spec, "status": {}})

    return again


def test_no_pod_is_evicted_for_a_place_that_a_more_urgent_borrower_would_take():
    core = world(objects.node("n", cpu="2"), quota=2)
    core.put(queued("owner-0", "a", cpu="1"), queued("owner-1", "a", cpu="1"))
    assert len(bound(core.settle())) == 2
    core.put(pod("plain", cpu="2", value=5), queued("borrower", "b", cpu="2", value=10))
    assert run(core, made_again(core)) == []


def test_the_pod_is_preferred_once_the_borrower_does_not_wait_any_more():
    core = world(objects.node("n", cpu="2"), quota=2)
    core.put(queued("owner", "a", cpu="2"))
    core.settle()
    core.put(pod("plain", cpu="2", value=5), queued("borrower", "b", cpu="2", value=10))
    assert victims(core.later()) == []
    core.remove("Pod", "borrower")
    assert victims(core.later(60)) == ["owner"]


def test_pods_are_evicted_if_the_more_urgent_pod_does_not_fit_into_their_place():
    core = world(objects.node("n", cpu="2"), quota=2)
    core.put(queued("owner", "a", cpu="2"))
    core.settle()
    core.put(pod("plain", cpu="2", value=5), queued("borrower", "b", cpu="2", value=10, nodeSelector={"x": "y"}))
    assert victims(core.later()) == ["owner"]


@pytest.mark.parametrize("owner", [False, True])
@pytest.mark.parametrize("borrower", [False, True])
@pytest.mark.parametrize("plain", [False, True])
def test_groups_and_pods_that_evict_each_other_come_to_rest(owner, borrower, plain):
    core = world(objects.node("n1", cpu="1"), objects.node("n2", cpu="1"), quota=2)

    def submit(name, queue, value, *, is_gang):
        core.put(*([gang(name, 2)] if is_gang else []))
        for number in range(2):
            more = {"cpu": "1", "value": value}
            document = member(f"{name}-{number}", of=name, **more) if is_gang else pod(f"{name}-{number}", **more)
            core.put(in_queue(document, queue) if queue else document)

    submit("owner", "a", 0, is_gang=owner)
    core.settle()
    submit("plain", "", 5, is_gang=plain)
    submit("borrower", "b", 10, is_gang=borrower)
    assert len(run(core, made_again(core))) <= 2


def test_more_urgent_pods_count_too_if_their_queue_has_its_turn_later():
    core = cluster(queue("b", "dept", quota=2), queue("c", "dept", quota=0), gpu_count=2)
    submit(core, "b", "low", number=2)
    assert list(bound(core.settle())) == ["low"]
    submit(core, "b", "middle", number=2, value=5)
    submit(core, "c", "high", number=2, value=10)
    assert run(core, made_again(core)) == []
