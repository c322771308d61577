"""What holds for every applied configuration, whoever applies it."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from dray.server.fieldmanager import field_set, path_elements
from dray.server.fieldmanager.field_set import FieldSet
from dray.server.status import ApiError

from .telling import Told

_maps = st.dictionaries(st.sampled_from("abcd"), st.sampled_from(["1", "2"]), max_size=4)
_steps = st.lists(st.tuples(st.sampled_from(["one", "two"]), _maps), min_size=1, max_size=6)


@st.composite
def _containers(draw: st.DrawFn, prefix: str) -> list[dict[str, Any]]:
    names = draw(st.lists(st.sampled_from("abc"), unique=True, max_size=3))
    return [{"name": prefix + name, "env": [{"name": k, "value": v} for k, v in draw(_maps).items()]} for name in names]


def config(data: dict[str, str]) -> dict[str, Any]:
    # An empty map cannot be stored, so a claim to one would never come to rest.
    return {"data": data} if data else {}


def outcome(*applied: tuple[list[dict[str, Any]], str]) -> tuple[dict[str, Any], Any]:
    """The containers of a pod by name, and who owns its fields, after managers applied these containers."""
    told = Told("v1", "Pod")
    for containers, manager in applied:
        told.apply({"spec": {"containers": containers}}, manager)
    assert told.live is not None
    return {item["name"]: item for item in told.live["spec"].get("containers") or []}, told.fields


@settings(deadline=None)
@given(_steps)
def test_applied_is_what_is_there_and_twice_is_once(steps: list[tuple[str, dict[str, str]]]) -> None:
    told = Told("v1", "ConfigMap")
    applied: dict[str, dict[str, str]] = {}
    for manager, data in steps:
        first = told.apply(config(data), manager, force=True)
        assert told.apply(config(data), manager) == first
        applied[manager] = data
        assert (first.get("data") or {}).items() >= data.items()
    named = {key for data in applied.values() for key in data}
    assert told.live is not None
    assert set(told.live.get("data") or {}) <= named


@settings(deadline=None)
@given(_steps)
def test_without_force_nobody_loses_a_value(steps: list[tuple[str, dict[str, str]]]) -> None:
    told = Told("v1", "ConfigMap")
    applied: dict[str, dict[str, str]] = {}
    for manager, data in steps:
        try:
            told.apply(config(data), manager)
        except ApiError:
            continue
        applied[manager] = data
    held = (told.live or {}).get("data") or {}
    for data in applied.values():
        assert held.items() >= data.items()
    assert set(held) == {key for data in applied.values() for key in data}


@settings(deadline=None)
@given(_containers("x"), _containers("y"))
def test_two_managers_of_different_fields_commute(first: list[dict[str, Any]], second: list[dict[str, Any]]) -> None:
    assert outcome((first, "one"), (second, "two")) == outcome((second, "two"), (first, "one"))


@settings(deadline=None)
@given(_containers("x"), _containers("x"))
def test_the_last_configuration_is_the_outcome(first: list[dict[str, Any]], second: list[dict[str, Any]]) -> None:
    assert outcome((first, "one"), (second, "one")) == outcome((second, "one"))


_elements = st.sampled_from(["f:a", "f:b", 'k:{"name":"x"}', 'v:"y"', "i:0"])
_sets = st.recursive(
    st.dictionaries(_elements, st.just({}), min_size=1),
    lambda inner: st.builds(
        field_set.union,
        st.dictionaries(_elements, st.just({})),
        st.dictionaries(_elements, inner, min_size=1, max_size=3),
    ),
    max_leaves=6,
)


@settings(deadline=None)
@given(_sets)
def test_fields_survive_being_written(fields: FieldSet) -> None:
    assert field_set.read(field_set.ordered(fields)) == fields


@settings(deadline=None)
@given(_sets)
def test_every_level_is_written_in_order(fields: FieldSet) -> None:
    levels = [field_set.ordered(fields)]
    for level in levels:
        assert list(level) == path_elements.in_order(level)
        levels += level.values()


@settings(deadline=None)
@given(_sets, _sets)
def test_sets_are_sets(left: FieldSet, right: FieldSet) -> None:
    ours, theirs = set(field_set.paths(left)), set(field_set.paths(right))
    assert set(field_set.paths(field_set.union(left, right))) == ours | theirs
    assert set(field_set.paths(field_set.intersection(left, right))) == ours & theirs
    assert set(field_set.paths(field_set.difference(left, right))) == ours - theirs
    assert field_set.overlap(left, right) == bool(ours & theirs)
    assert field_set.covers(left, right) == (ours >= theirs)
    assert not field_set.difference(left, left, deep=True)


@settings(deadline=None)
@given(
    st.recursive(
        st.none() | st.integers() | st.text(max_size=3),
        lambda v: st.dictionaries(st.text(max_size=6) | _elements, v, max_size=4),
        max_leaves=20,
    )
)
def test_anything_is_a_set_or_none(document: Any) -> None:
    fields = field_set.read(document)
    if fields is not None:
        assert field_set.read(field_set.ordered(fields)) == fields
