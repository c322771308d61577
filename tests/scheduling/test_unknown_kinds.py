"""Pods that name objects of kinds of which it is not known that the server has them."""

import pytest

from dray.scheduling.groups.unknown_kinds import ANSWER, named_kinds
from tests.gpus import pod
from tests.scheduling.core import Core, bound
from tests.scheduling.test_algorithm import node_with


def named(labels=None, annotations=None, **spec):
    made = pod("p", **spec)
    made["metadata"].update(labels=labels or {}, annotations=annotations or {}, namespace="default")
    return set(named_kinds(made))


@pytest.mark.parametrize(
    ("said", "kinds"),
    [
        ({}, set()),
        ({"labels": {"app": "x"}}, set()),
        ({"labels": {"kueue.x-k8s.io/queue-name": "q"}}, {"LocalQueue", "ClusterQueue"}),
        ({"labels": {"kai.scheduler/queue": "q"}}, {"Queue"}),
        ({"labels": {"scheduling.x-k8s.io/pod-group": "g"}}, {"PodGroup.scheduling.x-k8s.io"}),
        ({"labels": {"kueue.x-k8s.io/pod-group-name": "g"}}, {"Topology.kueue.x-k8s.io"}),
        ({"annotations": {"pod-group-name": "g"}}, {"PodGroup.scheduling.run.ai", "Queue"}),
        ({"schedulingGroup": {"podGroupName": "g"}}, {"PodGroup"}),
        ({"nodeSelector": {"cloud.google.com/compute-class": "c"}}, {"ComputeClass"}),
        ({"nodeSelector": {"zone": "z"}}, set()),
    ],
)
def test_the_kinds_that_a_pod_names(said, kinds):
    assert named(**said) == kinds


def grouped(name):
    made = pod(name)
    made["metadata"]["labels"] = {"scheduling.x-k8s.io/pod-group": "g"}
    return made


def test_a_pod_waits_for_an_answer_to_a_question_that_began_after_it_came():
    core, asked = Core(*node_with("a", gpu=1)), []
    kinds = core.state.unknown_kinds
    kinds.wanted = lambda: asked.append(1)
    kinds.begin()
    core.put(grouped("p"), pod("other"))
    assert bound(core.actions()) == {"other": "a"}
    assert asked
    kinds.end()
    core.scheduler.notify(ANSWER, core.now)
    assert bound(core.actions()) == {}, "the kind may have come after the question began"
    kinds.begin()
    kinds.end()
    core.scheduler.notify(ANSWER, core.now)
    assert bound(core.actions()) == {"p": "a"}


def test_a_pod_that_is_gone_is_forgotten():
    core = Core(*node_with("a", gpu=1))
    core.state.unknown_kinds.wanted = lambda: None
    stored = core.put(grouped("p"))
    assert core.state.unknown_kinds._begun_before
    core.scheduler.remove("Pod", stored, core.now)
    assert not core.state.unknown_kinds._begun_before
