from __future__ import annotations

from typing import Any

import pytest

from dray.allocation.node_selectors import NodeSelectorError, matches, merged, only

LABELS = {"zone": "west", "gpus": "8"}


def selector(*requirements: dict[str, Any], fields: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    term: dict[str, Any] = {}
    if requirements:
        term["matchExpressions"] = list(requirements)
    if fields:
        term["matchFields"] = fields
    return {"nodeSelectorTerms": [term]}


def requires(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)}


@pytest.mark.parametrize(
    ("requirement", "expected"),
    [
        (requires("zone", "In", "east", "west"), True),
        (requires("zone", "In", "east"), False),
        (requires("rack", "In", "1"), False),
        (requires("zone", "NotIn", "east"), True),
        (requires("rack", "NotIn", "1"), True),
        (requires("zone", "Exists"), True),
        (requires("rack", "Exists"), False),
        (requires("rack", "DoesNotExist"), True),
        (requires("gpus", "Gt", "4"), True),
        (requires("gpus", "Lt", "8"), False),
        (requires("zone", "Gt", "4"), False),
        (requires("rack", "Lt", "4"), False),
    ],
)
def test_labels(requirement: dict[str, Any], expected: bool) -> None:
    assert matches(selector(requirement), "n", LABELS) is expected


def test_terms_are_alternatives_and_empty_ones_match_nothing() -> None:
    assert not matches({"nodeSelectorTerms": [{}]}, "n", LABELS)
    assert not matches({"nodeSelectorTerms": []}, "n", LABELS)
    wrong, right = requires("zone", "In", "east"), requires("zone", "In", "west")
    either = {"nodeSelectorTerms": [{"matchExpressions": [wrong]}, {"matchExpressions": [right]}]}
    assert matches(either, "n", LABELS)
    assert not matches(selector(wrong, right), "n", LABELS)


def test_the_name_is_a_field() -> None:
    assert matches(only("n"), "n", {})
    assert not matches(only("n"), "m", {})
    with pytest.raises(NodeSelectorError, match="one value"):
        matches(selector(fields=[requires("spec.x", "In", "n")]), "n", {})


@pytest.mark.parametrize("requirement", [requires("zone", "Near", "west"), requires("gpus", "Gt", "many")])
def test_what_cannot_be_understood_is_an_error(requirement: dict[str, Any]) -> None:
    with pytest.raises(NodeSelectorError):
        matches(selector(requirement), "n", LABELS)


def test_merging_keeps_each_requirement_once() -> None:
    west, east = requires("zone", "In", "a", "b"), requires("rack", "Exists")
    same = requires("zone", "In", "b", "a")
    assert merged([selector(west), selector(same, east)]) == selector(west, east)
    assert merged([]) is None
    with pytest.raises(NodeSelectorError, match="2 terms"):
        merged([{"nodeSelectorTerms": [{}, {}]}])
