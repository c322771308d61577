from __future__ import annotations

import pytest

from dray.cel.lexer import conditions


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("a", ["a"]),
        ("a && b&&c", ["a", "b", "c"]),
        ("a && (b && c)", ["a", "(b && c)"]),
        ('device.attributes["x && y"].z == "&&" && b', ['device.attributes["x && y"].z == "&&"', "b"]),
        ("[1].all(x, x > 0 && x < 2) && b", ["[1].all(x, x > 0 && x < 2)", "b"]),
        ("a && b || c", ["a && b || c"]),
        ("a && b ? c : d", ["a && b ? c : d"]),
        ("(a || b) && c", ["(a || b)", "c"]),
        ("a // && b\n&& c", ["a // && b", "c"]),
        ('"', ['"']),
    ],
)
def test_conditions(expression: str, expected: list[str]) -> None:
    assert conditions(expression) == expected
