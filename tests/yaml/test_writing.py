from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dray.yaml.documents import parse
from dray.yaml.writing import as_json, as_yaml


@pytest.mark.parametrize(
    "text", ["on", "y", "1e3", "010", "0o10", "<<", "null", "", "2024-01-01", "1_000", ".5", "a: b", "x\ny\n"]
)
def test_text_that_looks_like_something_else_stays_text(text: str) -> None:
    assert [document.value for document in parse(as_yaml([{"value": text, text: 1}]).encode())] == [
        {"value": text, text: 1}
    ]


@given(
    st.dictionaries(
        st.text(st.characters(codec="utf-8", exclude_characters="\x85\u2028\u2029"), max_size=8),
        st.text(st.characters(codec="utf-8"), max_size=30) | st.integers(-(2**63), 2**63 - 1) | st.booleans(),
    )
)
def test_yaml_reads_back_as_the_same(value: dict[str, Any]) -> None:
    if value:
        assert [document.value for document in parse(as_yaml([value]).encode())] == [value]


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
