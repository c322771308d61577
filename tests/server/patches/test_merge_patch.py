"""Merge patches: the examples of the standard, and what holds for all of them."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dray.server.patches.json_patch import equal
from dray.server.patches.merge_patch import merge_patch, without_nulls
from dray.server.patches.strategic import strategic_merge
from dray.server.status import ApiError

_leaves = st.booleans() | st.integers(-9, 9) | st.text("ab", max_size=2)
_values = st.recursive(
    _leaves,
    lambda v: st.lists(v, max_size=3) | st.dictionaries(st.text("xyz", max_size=2), v, max_size=3),
    max_leaves=8,
)
_documents = st.dictionaries(st.text("xyz", max_size=2), _values, max_size=4)
_without_lists = st.dictionaries(
    st.text("xyz", max_size=2),
    st.recursive(_leaves, lambda v: st.dictionaries(st.text("xyz", max_size=2), v, max_size=3), max_leaves=8),
    max_size=4,
)
_with_nulls = st.recursive(
    _leaves | st.none(),
    lambda v: st.lists(v, max_size=3) | st.dictionaries(st.text("xyz", max_size=2), v, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("document", "patch", "outcome"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
        ({}, {"a": [{"b": None}, None]}, {"a": [{}, None]}),
    ],
)
def test_examples(document: dict[str, Any], patch: dict[str, Any], outcome: dict[str, Any]) -> None:
    assert merge_patch(document, patch) == outcome


@pytest.mark.parametrize("patch", [[], "x", 1, None])
def test_a_patch_is_an_object(patch: object) -> None:
    with pytest.raises(ApiError) as refused:
        merge_patch({}, patch)
    assert refused.value.code == 400


def difference(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    patch: dict[str, Any] = {name: None for name in old if name not in new}
    for name, value in new.items():
        if isinstance(value, dict) and isinstance(old.get(name), dict):
            patch[name] = difference(old[name], value)
        elif name not in old or not equal(old[name], value):
            patch[name] = value
    return patch


@settings(deadline=None)
@given(_documents, _documents)
def test_a_difference_leads_there(old: dict[str, Any], new: dict[str, Any]) -> None:
    assert equal(merge_patch(old, difference(old, new)), new)


@settings(deadline=None)
@given(_documents, st.dictionaries(st.text("xyz", max_size=2), _with_nulls, max_size=4))
def test_twice_is_once(document: dict[str, Any], patch: dict[str, Any]) -> None:
    once = merge_patch(document, patch)
    assert equal(merge_patch(once, patch), once)
    assert equal(merge_patch({}, patch), without_nulls(patch))


@settings(deadline=None)
@given(_without_lists, _without_lists)
def test_without_lists_a_strategic_merge_is_a_merge(old: dict[str, Any], new: dict[str, Any]) -> None:
    patch = difference(old, new)
    outcome = strategic_merge({"data": old}, {"data": patch}, "core_v1.ConfigMap")
    assert equal(outcome["data"], merge_patch(old, patch))
