from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dray.server.representations import as_yaml as written
from dray.yaml.documents import parse

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.text("a1: .-#|>\n\t'\"\u2028\x85\xe9", max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab\n: ", max_size=4), inner, max_size=3),
    max_leaves=12,
)
OBJECTS = st.dictionaries(st.text("abc", min_size=1, max_size=3), VALUES, max_size=4)


def again(document: Any) -> Any:
    [found] = parse(written(json.dumps(document).encode()))
    return found.value


@given(st.lists(OBJECTS, max_size=4))
def test_a_list_reads_as_it_was(items: list[Any]) -> None:
    document = {"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": "7"}, "items": items}
    assert again(document) == document


@pytest.mark.parametrize(
    "document",
    [
        {"kind": "Pod"},
        {"items": []},
        {"items": {"a": 1}},
        {"items": [1, {"a": 2}]},
        {"a": "y", "items": [{"b": "a\n\n\n"}]},
        {"kind": "Table", "columnDefinitions": [{"name": "Name"}], "rows": [{"cells": ["a", None], "object": {}}]},
        {"k" * 2000: [{"a": 1}]},
        {},
        [],
        ["a"],
        "a",
    ],
)
def test_other_documents_too(document: Any) -> None:
    assert again(document) == document


def test_items_come_in_blocks() -> None:
    text = written(b'{"kind":"L","items":[{"a":{"b":"1"},"c":["x"]},{"a":"on"}]}').decode()
    assert text == "kind: L\nitems:\n- a:\n    b: '1'\n  c:\n  - x\n- a: 'on'\n"
