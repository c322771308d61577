from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dray.yaml.documents import parse
from dray.yaml.writing import as_json, as_yaml

WORDS = [*"12:30:45 1e3 0o10 no ~ << = 2024-01-01 1_000 .5".split(), "a: b", "- a", "? a", " #", "x\ny\n"]
TEXTS = (
    st.text(st.characters(codec="utf-8"), max_size=30)
    | st.text("ab01 :#-.?\n\t'\"[]{},&*!|>%@`=<~xeE+_ynTZ/\\\r\x00\x85\u2028\xa0\ufeff\U0001f600", max_size=12)
    | st.sampled_from(WORDS)
    | st.tuples(st.sampled_from(WORDS), st.sampled_from(["", " ", "\n", ":", "0", "a"])).map("".join)
)
SCALARS = (
    TEXTS
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.booleans()
    | st.none()
)
# Making values takes longer than writing them, the more so on a busy machine.
UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=10,
)


def assert_reads_back(*objects: Any) -> None:
    text = as_yaml(objects)
    assert [document.value for document in parse(text.encode())] == list(objects)
    assert list(yaml.load_all(text, Loader=yaml.CSafeLoader)) == list(objects)


@UNHURRIED
@given(st.lists(st.dictionaries(TEXTS, VALUES, max_size=4) | st.lists(VALUES, max_size=4), min_size=1, max_size=3))
def test_two_readers_read_the_same(objects: list[Any]) -> None:
    assert_reads_back(*objects)


@settings(UNHURRIED, max_examples=30)
@given(st.dictionaries(st.text("a:\n\u2028\U0001f600", min_size=30, max_size=400), VALUES, max_size=2))
def test_long_keys(value: dict[str, Any]) -> None:
    assert_reads_back(value)


@pytest.mark.parametrize("length", [128, 129, 1025, 3000])
@pytest.mark.parametrize("value", ["x", "x\ny", {"a": {"b": 1}}, ["x", {"a": 1}], {}, None])
def test_keys_of_any_length(length: int, value: Any) -> None:
    assert_reads_back({"k" * length: value, "a": [{"é" * (length // 2): value, "b": 1}]})


@pytest.mark.parametrize("depth", [10, 49, 50, 51, 90])
@pytest.mark.parametrize("wrap", [lambda value: {"a": value, "b": 1}, lambda value: [value, "y"]])
def test_nested_deeply(depth: int, wrap: Callable[[Any], Any]) -> None:
    value: Any = {"a": "x\n\0", "b": [1, None, "1", [], {}], "k" * 2000: {"c": 1.5}}
    for _ in range(depth):
        value = wrap(value)
    assert_reads_back(value)


def test_margins_do_not_multiply_the_size() -> None:
    value: Any = [1] * 10_000
    for _ in range(256):
        value = {"a": value}
    assert len(as_yaml([value])) < 100_000


def test_what_is_known_of_strings_is_bounded() -> None:
    value = {f"k{number}": f"v{number}" for number in range(30_000)}
    assert as_yaml([value]) == "".join(f"{key}: {each}\n" for key, each in value.items())


def test_refuses_what_is_not_json() -> None:
    with pytest.raises(TypeError, match="date is not JSON"):
        as_yaml([{"a": date(2026, 1, 1)}])


def test_numbers_and_constants() -> None:
    value = {"a": [1, -1, 2.0, 1e20, 1e-7, True, False, None, [], {}, ()]}
    lines = [
        "a:",
        "- 1",
        "- -1",
        "- 2.0",
        "- 1.0e+20",
        "- 1.0e-07",
        "- true",
        "- false",
        "- null",
        "- []",
        "- {}",
        "- []",
    ]
    assert as_yaml([value]).splitlines() == lines


def test_lists_in_lists_and_mappings() -> None:
    value = {"a": [[1, [2]], {"b": [{"c": "x\ny", "d": 1}]}, "z\n"]}
    assert as_yaml([value]) == "a:\n- - 1\n  - - 2\n- b:\n  - c: |-\n      x\n      y\n    d: 1\n- |\n  z\n"


def test_keeps_the_order_and_writes_blocks() -> None:
    assert as_yaml([{"b": 1, "a": "x &&\ny"}]) == "b: 1\na: |-\n  x &&\n  y\n"


def test_writes_shared_values_out() -> None:
    shared = {"k": "v"}
    assert as_yaml([{"a": shared, "b": shared}]) == "a:\n  k: v\nb:\n  k: v\n"


def test_several_objects() -> None:
    assert as_yaml([{"a": 1}, {"b": 2}]) == "---\na: 1\n---\nb: 2\n"
    assert json.loads(as_json([{"a": 1}])) == {"a": 1}
    assert json.loads(as_json([{"a": 1}, {"b": 2}])) == {
        "apiVersion": "v1",
        "kind": "List",
        "items": [{"a": 1}, {"b": 2}],
    }
