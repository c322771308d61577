"""How nodes stand for a kind of pods, kept up to date by looking at what changed."""

import random

from dray.scheduling.demand import Demand
from dray.scheduling.standings import Kind, Standing, Standings, obstacles
from dray.scheduling.state import State
from dray.testing import objects
from tests.scheduling import models

NOTHING = Demand([], frozenset(), {})


def standing(state, **requests):
    pod = models.pod(containers=[models.container(**requests)])
    return Standing(state, Kind(pod.needs, NOTHING))


def best(standing):
    standing.refresh()
    generator = standing.best()
    found = next(generator, None)
    generator.close()
    return found.name if found is not None else None


def test_the_emptiest_is_the_best_and_changes_are_followed():
    state = State()
    for name in "abc":
        state.put_node(objects.node(name))
    for name in "ab":
        state.place(models.pod(f"on-{name}", containers=[models.container(cpu="4")]), name)
    found = standing(state, cpu="2")
    assert best(found) == "c"
    state.place(models.pod("more", containers=[models.container(cpu="7")]), "c")
    state.displace(state.placed("uid-on-b"), "b")
    assert best(found) == "b"
    state.remove_node("b")
    assert best(found) == "a"
    assert found.counts == {"Insufficient cpu": 1}


def test_asking_for_the_best_does_not_use_it_up():
    state = State()
    state.put_node(objects.node("a"))
    found = standing(state)
    assert [best(found) for _ in range(3)] == ["a"] * 3


def test_a_node_that_is_refused_comes_back_when_it_changes():
    state = State()
    state.put_node(objects.node("a"))
    found = standing(state)
    found.refresh()
    found.refuse(state.nodes["a"], "for a reason")
    assert best(found) is None
    assert found.counts == {"for a reason": 1}
    state.put_node(objects.node("a", cpu="9"))
    assert best(found) == "a"
    assert not found.counts


def test_a_heartbeat_is_no_change():
    state = State()
    state.put_node(objects.node("a"))
    end = state.touched.end
    state.put_node(objects.node("a", status={"conditions": [{"type": "Ready"}]}))
    assert state.touched.end == end


def test_it_is_always_what_it_would_be_if_worked_out_anew():
    chance = random.Random(5)
    state = State()
    found = standing(state, cpu="3")
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
        found.refresh()
        fresh = Standing(state, found.kind)
        fresh.refresh()
        assert found.feasible == fresh.feasible
        assert found.counts == fresh.counts
        assert best(found) == best(fresh)
        for node in state:
            assert found.reasons(node) == obstacles(state, found.kind, node)


def test_few_standings_are_kept():
    state = State()
    state.put_node(objects.node("a"))
    standings = Standings(state)
    pods = [models.pod(containers=[models.container(cpu=f"{n}m")]) for n in range(1, 200)]
    for pod in pods:
        assert standings.of(pod.needs, NOTHING).feasible
    assert len(standings._known) <= 64
    assert standings.of(pods[-1].needs, NOTHING) is standings.of(pods[-1].needs, NOTHING)
