"""Feasible nodes of a signature, kept up to date by looking at what changed."""

import random

from dray.scheduling.core.feasible_nodes import MOST_KEPT, FeasibleNodesCache
from dray.scheduling.model.messages import reason_text
from dray.scheduling.model.status import Status
from dray.scheduling.scheduler import Scheduler
from dray.testing import objects
from tests.scheduling import models


class Nodes:
    """A cluster, and which of its nodes could take a pod with such requests."""

    def __init__(self, **requests):
        self.scheduler = Scheduler()
        self.state = self.scheduler.state
        self.asking = models.pod(containers=[models.container(**requests)])

    def of(self, cache=None):
        cycle = models.attempt(self.scheduler.framework, self.asking)
        return (cache or self.scheduler.algorithm.feasible_nodes).of(cycle)

    def fresh(self):
        return self.of(FeasibleNodesCache(self.state, self.scheduler.framework))

    def best(self):
        return best(self.of())

    def counts(self):
        return {reason_text(reason): number for reason, number in self.of().counts.items()}


def best(feasible):
    generator = feasible.best()
    found = next(generator, None)
    generator.close()
    return found.name if found is not None else None


def test_the_emptiest_is_the_best_and_changes_are_followed():
    nodes = Nodes(cpu="2")
    state = nodes.state
    for name in "abc":
        state.put_node(objects.node(name))
    for name in "ab":
        state.place(models.pod(f"on-{name}", containers=[models.container(cpu="4")]), name)
    assert nodes.best() == "c"
    state.place(models.pod("more", containers=[models.container(cpu="7")]), "c")
    state.displace(state.placed("uid-on-b"), "b")
    assert nodes.best() == "b"
    state.remove_node("b")
    assert nodes.best() == "a"
    assert nodes.counts() == {"Insufficient cpu": 1}


def test_asking_for_the_best_does_not_use_it_up():
    nodes = Nodes()
    nodes.state.put_node(objects.node("a"))
    assert [nodes.best() for _ in range(3)] == ["a"] * 3


def test_a_node_that_is_rejected_comes_back_when_it_changes():
    nodes = Nodes()
    nodes.state.put_node(objects.node("a"))
    nodes.of().reject(nodes.state.nodes["a"], Status.unschedulable("for a reason"))
    assert nodes.best() is None
    assert nodes.counts() == {"for a reason": 1}
    nodes.state.put_node(objects.node("a", cpu="9"))
    assert nodes.best() == "a"
    assert not nodes.counts()


def test_a_heartbeat_is_no_change():
    state = Nodes().state
    state.put_node(objects.node("a"))
    end = state.touched.end
    state.put_node(objects.node("a", conditions=[{"type": "Ready"}]))
    assert state.touched.end == end


def test_they_are_always_what_they_would_be_if_worked_out_anew():
    chance = random.Random(5)
    nodes = Nodes(cpu="3")
    state = nodes.state
    serial = 0
    for _ in range(600):
        name = f"n{chance.randrange(12)}"
        move = chance.random()
        if move < 0.4:
            serial += 1
            state.place(models.pod(f"p{serial}", containers=[models.container(cpu=str(chance.randrange(1, 5)))]), name)
        elif move < 0.7:
            placed = [pod for node in state.nodes.values() for pod in node.pods.values()]
            if placed:
                pod = chance.choice(placed)
                state.displace(pod, state.node_of(pod).name)
        elif move < 0.9:
            state.put_node(objects.node(name, cpu=str(chance.randrange(4, 12))))
        else:
            state.remove_node(name)
        if chance.random() < 0.5:
            continue
        kept, fresh = nodes.of(), nodes.fresh()
        assert kept.numbers == fresh.numbers
        assert kept.counts == fresh.counts
        assert best(kept) == best(fresh)
        for node in state:
            assert kept.status(node) == fresh.status(node)


def test_few_signatures_are_kept():
    nodes = Nodes()
    nodes.state.put_node(objects.node("a"))
    for number in range(1, 300):
        nodes.asking = models.pod(containers=[models.container(cpu=f"{number}m")])
        assert nodes.of().numbers
    assert len(nodes.scheduler.algorithm.feasible_nodes) <= MOST_KEPT
    assert nodes.of() is nodes.of()
