"""The order of merged lists, and what merging never does."""

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dray.server.fieldmanager.field_types import DEDUCED, FieldType, field_type
from dray.server.fieldmanager.walks import merged

_names = st.lists(st.sampled_from("abcdefg"), unique=True, max_size=7)


def containers() -> FieldType:
    return field_type("core_v1.PodSpec").fields["containers"]


def named(names: str | list[str], **members: str) -> list[dict[str, str]]:
    return [{"name": name, **members} for name in names]


@pytest.mark.parametrize(
    "case",
    [
        "abc + b = abc",
        "abc + ca = bca",
        "ab + xa = xab",
        "ab + ax = abx",
        " + ab = ab",
        "ab +  = ab",
        "abcd + dxb = acdxb",
    ],
)
def test_order(case: str) -> None:
    """What is live, what is applied, and the outcome."""
    live, applied, outcome = re.split(r" [+=] ", case)
    found = merged(containers(), named(live), named(applied))
    assert "".join(item["name"] for item in found) == outcome


@settings(deadline=None)
@given(_names, _names)
def test_nothing_is_lost_or_doubled_and_the_applied_order_holds(live: list[str], applied: list[str]) -> None:
    found = merged(containers(), named(live, image="old"), named(applied, image="new"))
    names = [item["name"] for item in found]
    assert sorted(names) == sorted({*live, *applied})
    assert [name for name in names if name in applied] == applied
    assert [name for name in names if name not in applied] == [name for name in live if name not in applied]
    assert all(item["image"] == ("new" if item["name"] in applied else "old") for item in found)


@pytest.mark.parametrize(
    ("live", "applied", "outcome"),
    [
        ({"a": 1}, {"b": 2}, {"a": 1, "b": 2}),
        ({"a": {"x": 1}}, {"a": {"y": 2}}, {"a": {"x": 1, "y": 2}}),
        ({"a": [1, 2]}, {"a": [3]}, {"a": [3]}),
        ({"a": {"x": 1}}, {"a": None}, {"a": {"x": 1}}),
        ({"a": {}}, {"a": None}, {"a": None}),
        ({"a": {"x": 1}}, {"a": 5}, {"a": 5}),
        ({"a": 5}, {"a": {"x": 1}}, {"a": {"x": 1}}),
    ],
)
def test_what_nobody_declared(live: dict[str, Any], applied: dict[str, Any], outcome: dict[str, Any]) -> None:
    assert merged(DEDUCED, live, applied) == outcome
