from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dray.yaml.scalars import is_text, key_text, resolve


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("true", True),
        ("yes", True),
        ("on", True),
        ("y", True),
        ("N", False),
        ("off", False),
        ("", None),
        ("~", None),
        ("null", None),
        ("0", 0),
        ("-12", -12),
        ("+7", 7),
        ("010", 8),
        ("0o10", 8),
        ("0x10", 16),
        ("0b101", 5),
        ("1_000", 1000),
        ("08", 8),
        ("2.0", 2),
        ("1e3", 1000),
        ("0.5", 0.5),
        (".5", 0.5),
        ("18446744073709551615", 2**64 - 1),
        ("1e30", 1e30),
        ("16Gi", "16Gi"),
        ("550.54.15", "550.54.15"),
        ("2024-01-01", "2024-01-01"),
        ("12:30", "12:30"),
        ("12:30:45", "12:30:45"),
        ("1e400", "1e400"),
        ("-", "-"),
        ("0x", "0x"),
        ("nullable", "nullable"),
    ],
)
def test_resolve_as_kubectl_does(text: str, value: object) -> None:
    resolved = resolve(text)
    assert resolved == value
    assert type(resolved) is type(value)


def test_a_number_of_any_length_is_read_in_bounded_time() -> None:
    assert resolve("9" * 500_000) == "9" * 500_000
    assert resolve("1" + ":59" * 160_000) == "1" + ":59" * 160_000
    assert resolve("0x" + "f" * 100_000) == "0x" + "f" * 100_000


@given(st.integers(-(2**63), 2**64 - 1))
def test_integers_round_trip(number: int) -> None:
    assert resolve(str(number)) == number


@pytest.mark.parametrize(("text", "safe"), [("gpu", True), ("on", False), ("1e3", False), ("<<", False), ("v1", True)])
def test_is_text_tells_what_must_be_quoted(text: str, safe: bool) -> None:
    assert is_text(text) is safe


@pytest.mark.parametrize(
    ("value", "key"), [("a", "a"), (True, "true"), (1, "1"), (1.5, "1.5"), (None, None), (math.nan, None)]
)
def test_keys_become_text(value: str | float | None, key: str | None) -> None:
    assert key_text(value) == key
