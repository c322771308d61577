"""Pods that are resized in place take what they hold until they have given it back."""

import pytest

from dray.testing import objects
from tests.scheduling.core import Core, bound, placed, pod


def resized(wanted, granted, running, conditions=()):
    """A pod on node n that asks for `wanted` cpu, and what its node says of it."""
    container = {"name": "main", "resources": {"requests": {"cpu": running}}, "allocatedResources": {"cpu": granted}}
    status = {"containerStatuses": [container], "conditions": list(conditions)}
    return {**placed("r", "n", cpu=wanted), "status": status}


REFUSED = {"type": "PodResizePending", "status": "True", "reason": "Infeasible"}


@pytest.mark.parametrize(
    ("there", "fits"),
    [
        (resized("1", "1", "1"), True),
        (resized("1", "6", "6"), False),
        (resized("1", "1", "6"), False),
        (resized("6", "1", "1"), False),
        (resized("6", "1", "1", [REFUSED]), True),
        (resized("1", "6", "1", [REFUSED]), False),
    ],
    ids=["as wanted", "not yet granted", "not yet given back", "to come", "never to come", "granted before"],
)
def test_the_most_of_what_is_wanted_granted_and_running_counts(there, fits):
    core = Core(objects.node("n", cpu="8"), there, pod("p", cpu="4"))
    assert bound(core.actions()) == ({"p": "n"} if fits else {})


def test_who_waits_is_tried_when_the_node_has_taken_back_what_a_pod_gave_up():
    core = Core(objects.node("n", cpu="8"), resized("6", "6", "6"), pod("p", cpu="4"))
    core.put(resized("1", "6", "6"))
    assert bound(core.later()) == {}
    core.put(resized("1", "1", "6"))
    assert bound(core.later()) == {}
    core.put(resized("1", "1", "1"))
    assert bound(core.later()) == {"p": "n"}


def test_init_containers_that_end_hold_nothing_but_sidecars_do():
    def made(**more):
        init = {"name": "i", "image": "busybox", "resources": {"requests": {"cpu": "1"}}, **more}
        there = placed("r", "n", initContainers=[init])
        held = {"name": "i", "resources": {"requests": {"cpu": "6"}}}
        return {**there, "status": {"initContainerStatuses": [held]}}

    core = Core(objects.node("n", cpu="8"), made(), pod("p", cpu="4"))
    assert bound(core.actions()) == {"p": "n"}
    core = Core(objects.node("n", cpu="8"), made(restartPolicy="Always"), pod("p", cpu="4"))
    assert bound(core.actions()) == {}
