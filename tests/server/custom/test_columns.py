"""Paths into objects, and how columns show what they lead to."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dray.api import json_path
from dray.server import custom_resource

DOCUMENT = {
    "metadata": {"labels": {"app.kubernetes.io/name": "x"}},
    "spec": {"size": 3, "list": [1, 2, 3, 4], "on": True, "none": None},
    "status": {
        "conditions": [
            {"type": "Ready", "status": "True", "n": 2},
            {"type": "Done", "status": "False", "n": 5},
        ]
    },
}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".spec.size", [3]),
        ("{.spec.size}", [3]),
        ("$.spec.size", [3]),
        ("spec.size", [3]),
        (".spec['size']", [3]),
        ('.spec["size"]', [3]),
        (".spec.nothing.more", []),
        (".spec.size.more", []),
        (".spec.list[0]", [1]),
        (".spec.list[-1]", [4]),
        (".spec.list[9]", []),
        (".spec.list[0,2]", [1, 3]),
        (".spec.list[1:3]", [2, 3]),
        (".spec.list[::2]", [1, 3]),
        (".spec.list[*]", [1, 2, 3, 4]),
        (".spec.list.*", [1, 2, 3, 4]),
        ("..type", ["Ready", "Done"]),
        (r".metadata.labels.app\.kubernetes\.io/name", ["x"]),
        (".metadata.labels['app.kubernetes.io/name']", ["x"]),
        ('.status.conditions[?(@.type=="Ready")].status', ["True"]),
        (".status.conditions[?(@.type == 'Done')].status", ["False"]),
        (".status.conditions[?(@.type!='Done')].status", ["True"]),
        (".status.conditions[?(@.n>2)].type", ["Done"]),
        (".status.conditions[?(@.n<=2)].type", ["Ready"]),
        (".status.conditions[?(@.n)].type", ["Ready", "Done"]),
        (".status.conditions[?(@.missing)].type", []),
        (".", [DOCUMENT]),
    ],
)
def test_paths(path: str, found: list[Any]) -> None:
    parsed = json_path.parse(path)
    assert parsed is not None
    assert json_path.find(parsed, DOCUMENT) == found


@pytest.mark.parametrize("path", [".spec[", ".spec]", ".a[x]", ".a[?(@.b==)]", ".a[::0]", ".a[?(@.b==c)]", ".a{b}"])
def test_what_is_no_path(path: str) -> None:
    assert json_path.parse(path) is None


@settings(deadline=None)
@given(st.text(alphabet=".[]*?@()='\"\\:,-0aab$ {}<>!", max_size=20))
def test_any_text_is_a_path_or_none(text: str) -> None:
    parsed = json_path.parse(text)
    if parsed is not None:
        assert len(json_path.find(parsed, DOCUMENT)) <= 1000


@pytest.mark.parametrize(
    ("value", "kind", "shown"),
    [
        (3, "integer", 3),
        (3.7, "integer", 3),
        ("3", "integer", None),
        (3, "number", 3),
        (True, "number", None),
        (True, "boolean", True),
        (1, "boolean", None),
        ("x", "string", "x"),
        (3, "string", "3"),
        ({"a": [1]}, "string", '{"a":[1]}'),
        (None, "string", None),
        ("2026-01-01T00:00:00Z", "date", "60s"),
        ("soon", "date", "<invalid>"),
        (5, "date", None),
    ],
)
def test_cells(value: Any, kind: str, shown: Any) -> None:
    assert custom_resource.shown(value, kind, "2026-01-01T00:01:00Z") == shown


@pytest.mark.parametrize(
    "path",
    [
        # For each value below, everything below it, as often as the path has dots.
        f"..[?(@{'.' * 300})]",
        f"..[?({'@' + '.' * 300} == @{'.' * 300})]",
        "..*..*..*..*[?(@.x)]",
    ],
)
def test_a_path_looks_at_a_bounded_number_of_values(path: str) -> None:
    looked_at = 0

    class Counted(dict[str, Any]):
        def values(self) -> Any:
            nonlocal looked_at
            looked_at += 1
            return super().values()

    parsed = json_path.parse(path)
    assert parsed is not None
    document = {"spec": [Counted(a=Counted(b=number)) for number in range(300)]}
    assert json_path.find(parsed, document) == []
    assert looked_at <= 5000
    assert json_path.first(parsed, document, json_path.Work(100)) == []
    assert looked_at <= 5100


def test_the_first_result_is_found_without_looking_at_the_others() -> None:
    parsed = json_path.parse(".spec[*].a.b")
    assert parsed is not None
    document = {"spec": [{"a": {"b": number}} for number in range(10_000)]}
    assert json_path.first(parsed, document, json_path.Work(20)) == [0]
