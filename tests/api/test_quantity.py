"""Quantities against Kubernetes' rules and against an independent exact model."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dray.api.quantity import INT64_MAX, Format, Quantity, QuantityError

SUFFIXES = {
    "": Fraction(1),
    **{
        suffix: Fraction(1000) ** power
        for suffix, power in zip("numkMGTPE", (-3, -2, -1, 1, 2, 3, 4, 5, 6), strict=True)
    },
    **{f"{prefix}i": Fraction(1024) ** power for power, prefix in enumerate("KMGTPE", start=1)},
}


def model(sign: str, whole: str, fraction: str, suffix: str) -> Fraction:
    """What the text means, computed with rational numbers: rounded away from zero to nanos, binary amounts capped."""
    value = Fraction(int(whole + fraction or "0"), 10 ** len(fraction))
    exponent = suffix[1:] if suffix[:1] in ("e", "E") and len(suffix) > 1 and suffix != "Ei" else None
    value *= Fraction(10) ** int(exponent) if exponent is not None else SUFFIXES[suffix]
    nanos = -((-value * 10**9) // 1)
    if suffix.endswith("i"):
        nanos = min(nanos, INT64_MAX * 10**9)
    return -Fraction(nanos, 10**9) if sign == "-" else Fraction(nanos, 10**9)


@st.composite
def texts(draw):
    sign = draw(st.sampled_from(["", "", "+", "-"]))
    whole = draw(st.text("0123456789", min_size=1, max_size=22))
    fraction = draw(st.one_of(st.just(""), st.text("0123456789", min_size=1, max_size=14)))
    exponents = st.integers(-15, 30).map(lambda n: f"e{n}")
    suffix = draw(st.one_of(st.sampled_from(sorted(SUFFIXES)), exponents))
    return sign, whole, fraction, suffix


def spelled(parts):
    sign, whole, fraction, suffix = parts
    return f"{sign}{whole}{'.' + fraction if fraction else ''}{suffix}"


@given(texts())
def test_parse_agrees_with_the_exact_model(parts):
    assert Fraction(Quantity.parse(spelled(parts)).nanos, 10**9) == model(*parts)


@given(texts(), texts())
def test_arithmetic_and_order_agree_with_the_exact_model(left, right):
    a, b = Quantity.parse(spelled(left)), Quantity.parse(spelled(right))
    x, y = model(*left), model(*right)
    assert Fraction((a + b).nanos, 10**9) == x + y
    assert Fraction((a - b).nanos, 10**9) == x - y
    assert ((a < b), (a == b), (a > b)) == ((x < y), (x == y), (x > y))
    assert (hash(a) == hash(b)) or a != b


@given(texts())
def test_canonical_form_means_the_same_and_is_stable(parts):
    quantity = Quantity.parse(spelled(parts))
    canonical = quantity.canonical()
    again = Quantity.parse(canonical)
    assert again == quantity
    assert again.canonical() == canonical


@given(texts(), st.integers(-9, 3))
def test_rounding_goes_away_from_zero(parts, scale):
    quantity = Quantity.parse(spelled(parts))
    exact = model(*parts) / Fraction(10) ** scale
    expected = -(-exact // 1) if exact >= 0 else exact // 1
    assert quantity.scaled(scale) == expected


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("0", "0"),
        ("0Gi", "0"),
        ("1.5Gi", "1536Mi"),
        ("1024Ki", "1Mi"),
        ("1000m", "1"),
        ("0.5", "500m"),
        ("100Gi", "100Gi"),
        ("1000", "1k"),
        ("1500", "1500"),
        ("0.1n", "1n"),
        ("1e100", "10e99"),
        ("1000E", "1e21"),
        ("9Ei", "9223372036854775807"),
        ("0.5Ki", "512"),
        ("-1.5Gi", "-1536Mi"),
        ("1.0005Ki", "1024512m"),
    ],
)
def test_text_is_canonical(text, canonical):
    assert str(Quantity.parse(text)) == canonical


@pytest.mark.parametrize("text", ["1.500", "+5", "1e3", "1E3", "5.", "1500m"])
def test_text_that_kubernetes_does_not_rewrite_is_kept(text):
    assert str(Quantity.parse(text)) == text


@pytest.mark.parametrize(
    "text",
    ["", " 1", "1 ", "abc", "1i", "1Kib", "1ee3", "1e", "0.1mi", "1e+", "--1", "1,5", "٣", "1\n", "1e1" + "0" * 30],
)
def test_what_is_not_a_quantity_is_refused(text):
    with pytest.raises(QuantityError):
        Quantity.parse(text)


def test_a_long_text_or_exponent_is_bounded():
    with pytest.raises(QuantityError):
        Quantity.parse("1" * 100_000)
    assert Quantity.parse("1e999999999").nanos.bit_length() < 4000
    assert Quantity.parse("1e-999999999") == Quantity.parse("1n")


@pytest.mark.parametrize(
    ("text", "whole"),
    [("16Gi", 16 * 2**30), ("5", 5), ("1k", 1000), ("1.0", None), ("1000m", None), ("1Pi", None), ("10E", None)],
)
def test_as_int64_refuses_what_kubernetes_cannot_convert(text, whole):
    assert Quantity.parse(text).as_int64() == whole


def test_a_sum_takes_the_format_of_what_is_not_zero():
    assert (Quantity.parse("0") + Quantity.parse("2Ki")).format is Format.BINARY_SI
    assert str(Quantity.parse("1Ki") + Quantity.parse("1Ki")) == "2Ki"
    assert str(Quantity.parse("1") - Quantity.parse("250m")) == "750m"
    assert (Quantity.of(INT64_MAX) + Quantity.of(1)).as_int64() is None
