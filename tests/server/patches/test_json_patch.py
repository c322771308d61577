"""The bounds of JSON patches."""

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dray.server.patches import json_patch as module
from dray.server.patches.json_patch import json_patch
from dray.server.status import ApiError


def test_the_number_of_operations_is_bounded() -> None:
    operations = [{"op": "test", "path": "/a", "value": None}] * (module.MAX_OPERATIONS + 1)
    with pytest.raises(ApiError) as refused:
        json_patch({}, operations)
    assert refused.value.code == 413
    assert json_patch({}, operations[:-1]) == {}


def test_what_is_copied_is_bounded() -> None:
    doubling = [{"op": "copy", "from": "/a", "path": f"/a/{step}"} for step in range(40)]
    with pytest.raises(ApiError) as refused:
        json_patch({"a": {"text": "x" * 100}}, doubling)
    assert refused.value.code == 422


def test_two_operations_do_not_share_a_value() -> None:
    value: dict[str, int] = {}
    patch = [{"op": "add", "path": "/a", "value": value}, {"op": "add", "path": "/b", "value": value}]
    assert json_patch({}, [*patch, {"op": "add", "path": "/a/x", "value": 1}]) == {"a": {"x": 1}, "b": {}}


_texts = st.sampled_from(["", "/", "/a", "/a/0", "/a/-", "/a/-1", "/b/c", "/~1", "a", "//", "/a/01"])
_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda v: st.lists(v) | st.dictionaries(st.text(max_size=2), v),
    max_leaves=5,
)
_operations = st.fixed_dictionaries(
    {"op": st.sampled_from(["add", "remove", "replace", "move", "copy", "test", "", "x"])},
    optional={"path": _texts, "from": _texts, "value": _values},
)


@settings(deadline=None)
@given(st.lists(_operations | _values, max_size=6))
def test_anything_is_patched_or_refused(patch: list[object]) -> None:
    with suppress(ApiError):
        json_patch({"a": [1, {"b": 2}], "b": {"c": 3}}, patch)
