from __future__ import annotations

import pytest

from dray.yaml.writing import block, inline, quoted

PLAIN = "gpu a:b http://x:80/ a#b -a ?a :a 1.2.3 10m 1a-2b 07:x it's (a) é é:ö".split()
SYNTAX = 'a: - ? #a [a {a *a &a !a | > "a %a @a `a ,a --- ...'.split()
NUMBERS = "1 08 -1 +1 1e3 1e5 0o10 0x1f 0b1 1_000 .5 5. .inf .NaN 12:30:45 190:20:30.15".split()
TIMES = ["2024-01-01", "2024-01-01T00:00:00Z", "2024-01-01T00:00:00.000001Z", "2024-01-01 00:00:00"]


@pytest.mark.parametrize("text", [*PLAIN, "a b", "é ö"])
def test_plain_where_it_stays_this_string(text: str) -> None:
    assert inline(text) == text


@pytest.mark.parametrize("text", [*SYNTAX, "", " a", "a ", "a: b", "a #b", "- a", "? a", "--- a", "é: ö"])
def test_quoted_where_it_would_be_syntax(text: str) -> None:
    assert inline(text) == f"'{text}'"


@pytest.mark.parametrize("text", [*NUMBERS, *TIMES, *"no y On true ~ null << =".split(), "9" * 400])
def test_quoted_where_some_reader_takes_it_for_something_else(text: str) -> None:
    assert inline(text) == f"'{text}'"


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("a\tb", r'"a\tb"'),
        ('"\\\x00\x1b\x7f', r'"\"\\\0\e\x7F"'),
        ("\r\x85\u2028\ufeff", r'"\r\N\L\uFEFF"'),
        ("\U0001f600", r'"\U0001F600"'),
        ("'", "''''"),
    ],
)
def test_escapes(text: str, written: str) -> None:
    assert inline(text) == written


def test_double_quotes_hold_everything() -> None:
    assert quoted("a\n'é'") == "\"a\\n'é'\""


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("a\nb", "|-\n  a\n  b"),
        ("a\n\n b\n", "|\n  a\n\n   b"),
        ("a\n\n", "|+\n  a\n"),
        ("\n", "|2+\n"),
        (" a\nb", "|2-\n   a\n  b"),
        ("a \nb", '"a \\nb"'),
        ("a\n ", '"a\\n "'),
        ("a\tb\n", '"a\\tb\\n"'),
        ("a\r\n", '"a\\r\\n"'),
    ],
)
def test_blocks(text: str, written: str) -> None:
    assert block(text, "  ") == written
