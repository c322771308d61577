"""CBOR as clients of Kubernetes write it, and what is refused."""

from __future__ import annotations

import struct
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dray.api.cbor import CborError, decode


def encode(value: Any) -> bytes:
    """Encodes a value as Kubernetes does: with the CBOR tag, and with text in byte strings."""
    return b"\xd9\xd9\xf7" + _encode(value)


def _encode(value: Any) -> bytes:
    if value is None or isinstance(value, bool):
        return {None: b"\xf6", False: b"\xf4", True: b"\xf5"}[value]
    if isinstance(value, int):
        return _head(0, value) if value >= 0 else _head(1, -1 - value)
    if isinstance(value, float):
        return b"\xfb" + struct.pack(">d", value)
    if isinstance(value, str):
        return _head(2, len(value.encode())) + value.encode()
    if isinstance(value, list):
        return _head(4, len(value)) + b"".join(map(_encode, value))
    return _head(5, len(value)) + b"".join(_encode(key) + _encode(item) for key, item in value.items())


def _head(major: int, number: int) -> bytes:
    if number < 24:
        return bytes((major << 5 | number,))
    size = next(exponent for exponent in (0, 1, 2, 3) if number < 1 << (8 << exponent))
    return bytes((major << 5 | 24 + size,)) + number.to_bytes(1 << size)


DOCUMENTS = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8")),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner),
)


@given(DOCUMENTS)
def test_decoding_returns_the_document_that_was_encoded(document: Any) -> None:
    assert decode(encode(document)) == document


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(body: bytes) -> None:
    with suppress(CborError):
        decode(body)


@pytest.mark.parametrize(
    ("body", "value"),
    [
        ("f93e00", 1.5),
        ("fa47c35000", 100000.0),
        ("63e6b0b4", "水"),
        ("7f657374726561646d696e67ff", "streaming"),
        ("9f018202039f0405ffff", [1, [2, 3], [4, 5]]),
        ("bf61610161629f0203ffff", {"a": 1, "b": [2, 3]}),
        ("d64401020304", "AQIDBA=="),
        ("d54401020304", "AQIDBA"),
        ("d74401020304", "01020304"),
        ("c11a514b67b0", "2013-03-21T20:04:00Z"),
        ("c074323031332d30332d32315432303a30343a30305a", "2013-03-21T20:04:00Z"),
    ],
)
def test_other_cbor_encodings_are_read(body: str, value: Any) -> None:
    assert decode(bytes.fromhex(body)) == value


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("1bffffffffffffffff", "more than 64 bits"),
        ("3bffffffffffffffff", "more than 64 bits"),
        ("c249010000000000000000", "more than 64 bits"),
        ("f97e00", "not finite"),
        ("f97c00", "not finite"),
        ("f7", "must be true, false or null"),
        ("a10102", "a key is not text"),
        ("a2616101616102", "given twice"),
        ("61ff", "not UTF-8"),
        ("0000", "follow the value"),
        ("9bffffffffffffffff00", "ends within"),
        ("5bffffffffffffffff00", "ends within"),
        ("1c", "is reserved"),
        ("7f4161ff", "parts of another type"),
    ],
)
def test_values_without_a_json_form_are_refused(body: str, why: str) -> None:
    with pytest.raises(CborError, match=why):
        decode(bytes.fromhex(body))


def test_depth_and_number_of_values_have_limits() -> None:
    with pytest.raises(CborError, match="within each other"):
        decode(b"\x81" * 100_000 + b"\x00")
    with pytest.raises(CborError, match="within each other"):
        decode(b"\xd9\xd9\xf7" * 100_000 + b"\x00")
    with pytest.raises(CborError, match="more than 500,000 values"):
        decode(b"\x9a\x00\x10\x00\x00" + b"\x00" * (1 << 20))


def test_parts_of_text_count_as_values() -> None:
    with pytest.raises(CborError, match="more than 500,000 values"):
        decode(b"\x5f" + b"\x40" * 500_000 + b"\xff")


def test_a_long_key_that_is_given_twice_is_told_in_short() -> None:
    key = _encode("a" * 100_000)
    with pytest.raises(CborError) as refused:
        decode(b"\xa2" + (key + b"\xf6") * 2)
    assert len(str(refused.value)) < 200
