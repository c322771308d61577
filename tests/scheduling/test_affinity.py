from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dray.scheduling.cluster.affinity_index import AffinityIndex
from dray.scheduling.core.framework import Framework
from dray.scheduling.core.state import State
from dray.scheduling.model.node import Node
from dray.scheduling.model.pod import Pod
from dray.scheduling.model.reasons import Code
from dray.scheduling.plugins.inter_pod_affinity import InterPodAffinity
from dray.scheduling.plugins.pod_topology_spread import PodTopologySpread
from tests.scheduling.models import HOSTNAME, ZONE, apart, attempt, near, node, pod, spread, term


class World:
    """Nodes a1, a2 in zone a, b1 in zone b, and x without labels."""

    def __init__(self, nodes: Mapping[str, Node] | None = None) -> None:
        self.state = State()
        self.nodes = nodes or {name: self._node(name, number) for number, name in enumerate(("a1", "a2", "b1", "x"))}
        self.state.nodes.update(self.nodes)
        self.state.numbered.extend(self.nodes.values())
        for each in self.nodes.values():
            self.index.node_changed(each, {})
        self.framework = Framework(self.state, [PodTopologySpread(self.state), InterPodAffinity(self.state)])

    @property
    def index(self) -> AffinityIndex:
        return self.state.affinity

    def _node(self, name: str, number: int) -> Node:
        return node(name, number, labels={} if name == "x" else {HOSTNAME: name, ZONE: name[0]})

    def put(self, where: str, name: str, **members: Any) -> Pod:
        made = pod(name, **members)
        self.index.add(made, self.nodes[where])
        return made

    def obstacles(self, each: Pod) -> dict[str, Code | None]:
        cycle = attempt(self.framework, each)
        statuses = {name: self.framework.filter(cycle, there) for name, there in self.nodes.items()}
        return {name: status.reasons[0].code if status else None for name, status in statuses.items()}

    def matters(self, each: Pod) -> bool:
        return InterPodAffinity.name not in attempt(self.framework, each).skipped

    def free(self, **members: Any) -> set[str]:
        return {name for name, obstacle in self.obstacles(pod("asking", **members)).items() if obstacle is None}

    def scores(self, *names: str, **members: Any) -> dict[str, int]:
        return self.scores_of(pod("asking", **members), names)

    def scores_of(self, asking: Pod, names: Iterable[str]) -> dict[str, int]:
        """Nothing where all are alike."""
        nodes = [self.nodes[name] for name in names]
        cycle, totals = attempt(self.framework, asking), {each.number: 0 for each in nodes}
        self.framework.compare(self.framework.comparing(cycle), cycle, nodes, totals)
        return {each.name: totals[each.number] for each in nodes} if any(totals.values()) else {}


@pytest.fixture
def world() -> World:
    return World()


WEB = {"app": "web"}


def test_nothing_matters_where_nobody_has_terms(world: World) -> None:
    world.put("a1", "there", labels=WEB)
    assert not world.matters(pod("p", labels=WEB))
    assert world.matters(pod("p", affinity=near(term())))


def test_terms_of_others_matter_in_the_namespaces_they_speak_of(world: World) -> None:
    shy = world.put("a1", "shy", affinity=apart(term(match=WEB)))
    assert world.matters(pod("p"))
    assert not world.matters(pod("p", namespace="other"))
    picky = world.put("a1", "picky", affinity=apart(term(namespaceSelector={"matchLabels": {"x": "y"}})))
    assert world.matters(pod("p", namespace="other"))
    for each in (shy, picky):
        world.index.remove(each, world.nodes["a1"])
    assert not world.matters(pod("p"))


def test_near(world: World) -> None:
    rules = near(term(ZONE, WEB))
    assert set(world.obstacles(pod("p", affinity=rules)).values()) == {Code.POD_AFFINITY}
    there = world.put("a1", "there", labels=WEB)
    assert world.free(affinity=rules) == {"a1", "a2"}
    assert world.free(affinity=rules, namespace="other") == set()
    world.index.remove(there, world.nodes["a1"])
    assert world.free(affinity=rules) == set()


def test_the_first_of_its_own_kind_may_go_anywhere_with_the_label(world: World) -> None:
    rules = near(term(ZONE, WEB))
    assert world.free(labels=WEB, affinity=rules) == {"a1", "a2", "b1"}
    world.put("b1", "first", labels=WEB)
    assert world.free(labels=WEB, affinity=rules) == {"b1"}


def test_one_pod_must_be_what_all_terms_speak_of(world: World) -> None:
    rules = near(term(ZONE, WEB), term(HOSTNAME, {"tier": "db"}))
    world.put("a1", "web", labels=WEB)
    world.put("a1", "db", labels={"tier": "db"})
    assert world.free(affinity=rules) == set()
    world.put("b1", "both", labels={**WEB, "tier": "db"})
    assert world.free(affinity=rules) == {"b1"}


def test_apart(world: World) -> None:
    world.put("a1", "there", labels=WEB)
    assert world.free(affinity=apart(term(HOSTNAME, WEB))) == {"a2", "b1", "x"}
    assert world.obstacles(pod("p", affinity=apart(term(ZONE, WEB))))["a2"] == Code.POD_ANTI_AFFINITY


def test_others_may_want_to_be_apart(world: World) -> None:
    shy = world.put("a1", "shy", affinity=apart(term(ZONE, WEB)))
    assert world.obstacles(pod("p", labels=WEB))["a2"] == Code.EXISTING_POD_ANTI_AFFINITY
    assert world.free(labels=WEB) == {"b1", "x"}
    assert world.free(labels={"app": "db"}) == set(world.nodes)
    world.index.remove(shy, world.nodes["a1"])
    assert world.free(labels=WEB) == set(world.nodes)


def test_a_selector_that_is_absent_speaks_of_nobody(world: World) -> None:
    world.put("a1", "there", labels=WEB)
    assert world.free(affinity=apart({"topologyKey": HOSTNAME})) == set(world.nodes)


def test_namespaces_are_selected_by_label(world: World) -> None:
    rules = apart(term(HOSTNAME, WEB, namespaceSelector={"matchLabels": {"team": "red"}}))
    world.put("a1", "there", labels=WEB, namespace="red")
    world.put("b1", "shy", affinity=rules)
    asking: dict[str, Any] = {"affinity": rules}
    assert world.free(**asking) == set(world.nodes)
    assert world.free(labels=WEB, namespace="red") == set(world.nodes)
    world.index.namespace_changed("red", {"team": "red"})
    assert world.free(**asking) == {"a2", "b1", "x"}
    assert world.free(labels=WEB, namespace="red") == {"a1", "a2", "x"}
    world.index.namespace_changed("red", None)
    assert world.free(**asking) == set(world.nodes)


def test_an_empty_namespace_selector_selects_all(world: World) -> None:
    world.put("a1", "there", labels=WEB, namespace="unheard-of")
    assert world.free(affinity=apart(term(HOSTNAME, WEB, namespaceSelector={}))) == {"a2", "b1", "x"}


def test_pods_move_with_the_labels_of_their_node(world: World) -> None:
    world.put("a1", "there", labels=WEB)
    world.put("a1", "shy", affinity=apart(term(ZONE, {"app": "db"})))
    assert world.free(affinity=near(term(ZONE, WEB))) == {"a1", "a2"}
    assert world.free(labels={"app": "db"}) == {"b1", "x"}
    moved = world.nodes["a1"]
    before, moved.labels = moved.labels, {HOSTNAME: "a1", ZONE: "b"}
    world.index.node_changed(moved, before)
    assert world.free(affinity=near(term(ZONE, WEB))) == {"a1", "b1"}
    assert world.free(labels={"app": "db"}) == {"a2", "x"}


def test_a_pod_that_changes_is_counted_as_it_was(world: World) -> None:
    there = world.put("a1", "there", labels=WEB)
    there.document = pod("there", labels={"app": "db"}).document
    world.index.add(there, world.nodes["a1"])
    assert world.free(affinity=apart(term(HOSTNAME, WEB))) == set(world.nodes)
    assert world.free(affinity=apart(term(HOSTNAME, {"app": "db"}))) == {"a2", "b1", "x"}


# Spreading. There are two pods on a1, one on a2, none in zone b.

SPREAD: dict[str, tuple[dict[str, Any], set[str]]] = {
    "even zones": ({"labels": WEB, "topologySpreadConstraints": [spread(ZONE, WEB)]}, {"b1"}),
    "two more": ({"labels": WEB, "topologySpreadConstraints": [spread(ZONE, WEB, maxSkew=3)]}, {"b1"}),
    "three more": ({"labels": WEB, "topologySpreadConstraints": [spread(ZONE, WEB, maxSkew=4)]}, {"a1", "a2", "b1"}),
    "not one of them itself": ({"topologySpreadConstraints": [spread(ZONE, WEB, maxSkew=3)]}, {"a1", "a2", "b1"}),
    "by host": ({"labels": WEB, "topologySpreadConstraints": [spread(HOSTNAME, WEB)]}, {"b1"}),
    "by host with more": (
        {"labels": WEB, "topologySpreadConstraints": [spread(HOSTNAME, WEB, maxSkew=2)]},
        {"a2", "b1"},
    ),
    "only zone a is meant": (
        {"labels": WEB, "nodeSelector": {ZONE: "a"}, "topologySpreadConstraints": [spread(HOSTNAME, WEB)]},
        {"a2", "b1"},
    ),
    "all zones count": (
        {
            "labels": WEB,
            "nodeSelector": {ZONE: "a"},
            "topologySpreadConstraints": [spread(HOSTNAME, WEB, nodeAffinityPolicy="Ignore")],
        },
        {"b1"},
    ),
    "too few domains": (
        {"labels": WEB, "topologySpreadConstraints": [spread(ZONE, {"app": "db"}, minDomains=3)]},
        {"a1", "a2", "b1"},
    ),
    "both": (
        {"labels": WEB, "topologySpreadConstraints": [spread(HOSTNAME, WEB), spread(ZONE, WEB, maxSkew=9)]},
        {"b1"},
    ),
    "only those of the same revision": (
        {
            "labels": {**WEB, "rev": "2"},
            "topologySpreadConstraints": [spread(HOSTNAME, WEB, matchLabelKeys=["rev"])],
        },
        {"a1", "a2", "b1"},
    ),
    "other namespaces do not count": (
        {"labels": WEB, "namespace": "other", "topologySpreadConstraints": [spread(ZONE, WEB)]},
        {"a1", "a2", "b1"},
    ),
    "a wish forbids nothing": (
        {"labels": WEB, "topologySpreadConstraints": [spread(ZONE, WEB, whenUnsatisfiable="ScheduleAnyway")]},
        {"a1", "a2", "b1", "x"},
    ),
}


@pytest.fixture
def uneven(world: World) -> World:
    for where, name in (("a1", "one"), ("a1", "two"), ("a2", "three")):
        world.put(where, name, labels=WEB)
    return world


@pytest.mark.parametrize(("members", "expected"), SPREAD.values(), ids=SPREAD)
def test_spread(uneven: World, members: dict[str, Any], expected: set[str]) -> None:
    assert uneven.free(**members) == expected


def test_spread_says_what_is_missing(uneven: World) -> None:
    found = uneven.obstacles(pod("p", labels=WEB, topologySpreadConstraints=[spread(ZONE, WEB)]))
    assert found == {
        "a1": Code.TOPOLOGY_SPREAD,
        "a2": Code.TOPOLOGY_SPREAD,
        "b1": None,
        "x": Code.TOPOLOGY_SPREAD_LABEL,
    }


def test_fewer_domains_than_wanted_leave_no_least(uneven: World) -> None:
    uneven.put("b1", "four", labels=WEB)
    members = {"labels": WEB, "topologySpreadConstraints": [spread(ZONE, WEB, minDomains=3)]}
    assert uneven.free(**members) == set()
    members = {"labels": WEB, "topologySpreadConstraints": [spread(ZONE, WEB, minDomains=2)]}
    assert uneven.free(**members) == {"b1"}


def test_tainted_domains_count_unless_the_taints_are_honoured(uneven: World) -> None:
    uneven.nodes["b1"].taints = ({"key": "k", "effect": "NoSchedule"},)
    one = {"labels": WEB, "topologySpreadConstraints": [spread(HOSTNAME, WEB)]}
    assert uneven.free(**one) == {"b1"}
    one = {"labels": WEB, "topologySpreadConstraints": [spread(HOSTNAME, WEB, nodeTaintsPolicy="Honor")]}
    assert uneven.free(**one) == {"a2", "b1"}


def test_pods_that_leave_do_not_count_for_spreading(world: World) -> None:
    leaving = pod("leaving", labels=WEB)
    leaving.document["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    world.index.add(leaving, world.nodes["a1"])
    assert world.free(labels=WEB, topologySpreadConstraints=[spread(ZONE, WEB)]) == {"a1", "a2", "b1"}
    assert world.free(affinity=apart(term(HOSTNAME, WEB))) == {"a2", "b1", "x"}


# Scores


def test_preferred_neighbours(uneven: World) -> None:
    rules = {**near(preferred=((10, term(HOSTNAME, WEB)),)), **apart(preferred=((4, term(ZONE, WEB)),))}
    # a1: 2·10 − 3·4, a2: 10 − 3·4, b1 and x: 0
    assert uneven.scores("a1", "a2", "b1", "x", affinity=rules) == {"a1": 200, "a2": 0, "b1": 40, "x": 40}
    assert uneven.scores("b1", "x", affinity=rules) == {}


def test_preferences_of_those_who_are_there(world: World) -> None:
    world.put("a1", "fond", affinity=near(preferred=((6, term(ZONE, WEB)),)))
    world.put("b1", "tied", affinity=near(term(HOSTNAME, WEB)))
    assert world.scores("a1", "b1", "x", labels=WEB) == {"a1": 200, "b1": 2 * (100 // 6), "x": 0}
    assert world.scores("a1", "b1", "x") == {}


def test_a_wish_to_spread(uneven: World) -> None:
    soft = [spread(ZONE, WEB, whenUnsatisfiable="ScheduleAnyway")]
    # 3·ln 4 = 4.2 → 4 and 0; x has no zone
    found = uneven.scores("a1", "a2", "b1", "x", topologySpreadConstraints=soft)
    assert found == {"a1": 0, "a2": 0, "b1": 200, "x": 0}
    soft = [spread(HOSTNAME, WEB, whenUnsatisfiable="ScheduleAnyway", maxSkew=5)]
    # ln 5 = 1.6 a pod, and 4 for the skew: 7, 6, 4
    found = uneven.scores("a1", "a2", "b1", topologySpreadConstraints=soft)
    assert found == {"a1": 2 * (400 // 7), "a2": 2 * (500 // 7), "b1": 200}


def test_nothing_to_spread_is_equally_good(world: World) -> None:
    soft = [spread(ZONE, WEB, whenUnsatisfiable="ScheduleAnyway")]
    assert world.scores("a1", "b1", topologySpreadConstraints=soft) == {"a1": 200, "b1": 200}


# However the world came about, it is judged as one that was built at once.

NAMESPACES = ("red", "blue")
LABELS = ({}, WEB, {"app": "db"}, {"app": "web", "rev": "1"})
TERMS = (
    term(ZONE, WEB),
    term(HOSTNAME, {"app": "db"}),
    term(ZONE, {"rev": "1"}, namespaceSelector={"matchLabels": {"team": "x"}}),
    term(HOSTNAME, WEB, namespaces=["red"]),
)
TERMS_OF_PODS: tuple[dict[str, Any], ...] = (
    {},
    *({"affinity": near(each)} for each in TERMS),
    *({"affinity": apart(each)} for each in TERMS),
    *({"affinity": near(preferred=((3, each),))} for each in TERMS),
    *({"affinity": apart(preferred=((5, each),))} for each in TERMS[:2]),
    {"affinity": near(TERMS[0], TERMS[3])},
    {"topologySpreadConstraints": [spread(ZONE, WEB)]},
    {"topologySpreadConstraints": [spread(HOSTNAME, WEB, whenUnsatisfiable="ScheduleAnyway"), spread(ZONE, WEB)]},
)
PROBES = [
    pod(f"probe-{n}", namespace=namespace, labels=LABELS[n % len(LABELS)], **each)
    for n, each in enumerate(TERMS_OF_PODS)
    for namespace in NAMESPACES
]
WHERE = ("a1", "a2", "b1", "x")
NODE_LABELS = ({}, {HOSTNAME: "h"}, {HOSTNAME: "h", ZONE: "a"}, {HOSTNAME: "i", ZONE: "b"})
STEPS = st.one_of(
    st.tuples(
        st.just("add"),
        st.integers(0, 9),
        st.sampled_from(WHERE),
        st.sampled_from(NAMESPACES),
        st.sampled_from(LABELS),
        st.sampled_from(TERMS_OF_PODS),
    ),
    st.tuples(st.just("remove"), st.integers(0, 9)),
    st.tuples(st.just("label"), st.sampled_from(WHERE), st.sampled_from(NODE_LABELS)),
    st.tuples(st.just("namespace"), st.sampled_from(NAMESPACES), st.sampled_from((None, {}, {"team": "x"}))),
    st.tuples(st.just("judge"), st.integers(0, len(PROBES) - 1)),
)


def verdicts(world: World) -> list[Any]:
    return [(world.matters(probe), world.obstacles(probe), world.scores_of(probe, [*world.nodes])) for probe in PROBES]


@settings(max_examples=60, deadline=None)
@given(st.lists(STEPS, max_size=30))
def test_counts_are_those_of_a_recount(steps: list[tuple[Any, ...]]) -> None:
    world = World()
    there: dict[str, tuple[Pod, Node]] = {}
    namespaces: dict[str, Any] = {}
    for what, *how in steps:
        if what == "add":
            number, where, namespace, labels, members = how
            made = pod(f"p{number}", namespace=namespace, labels=labels, **members)
            there[made.uid] = (made, world.nodes[where])
            world.index.add(*there[made.uid])
        elif what == "remove":
            gone = there.pop(f"uid-p{how[0]}", None)
            if gone:
                world.index.remove(*gone)
        elif what == "label":
            changed = world.nodes[how[0]]
            before, changed.labels = changed.labels, how[1]
            world.index.node_changed(changed, before)
        elif what == "namespace":
            world.index.namespace_changed(*how)
            namespaces[how[0]] = how[1]
        else:
            world.obstacles(PROBES[how[0]])
    fresh = World(world.nodes)
    for name, labels in namespaces.items():
        fresh.index.namespace_changed(name, labels)
    for each in there.values():
        fresh.index.add(*each)
    assert verdicts(world) == verdicts(fresh)


def test_counts_that_are_kept_are_bounded(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dray.scheduling.cluster.affinity_index._MOST_MATCHED", 2)
    world.put("a1", "there", labels={f"k{n}": "v" for n in range(4)})
    for n in (0, 1, 2, 3, 0):
        assert world.free(affinity=apart(term(HOSTNAME, {f"k{n}": "v"}))) == {"a2", "b1", "x"}
    world.index.remove(pod("there"), world.nodes["a1"])
    for n in range(4):
        assert world.free(affinity=apart(term(HOSTNAME, {f"k{n}": "v"}))) == set(world.nodes)
