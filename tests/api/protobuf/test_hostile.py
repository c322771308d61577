"""Bytes that are no message, or one that would cost much: refused with the place, never anything else."""

import json
import struct
from contextlib import suppress
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dray.api.protobuf import decoder, envelope
from dray.api.protobuf.decoder import MAX_DEPTH, decode_message
from dray.api.protobuf.envelope import MAGIC, UnknownKindError
from dray.api.protobuf.wire import WireError, delimited, tag, varint

from . import making

KINDS = making.kinds()
POD = delimited(1, bytes.fromhex("0a0276311203506f64"))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "prefix k8s"),
        (b"{}", "prefix k8s"),
        (MAGIC + b"\xff", "cut off"),
        (MAGIC + b"\x80" * 11, "too long"),
        (MAGIC + delimited(1, b"")[:1] + varint(100) + b"short", "unexpected end"),
        (MAGIC + delimited(1, b"")[:1] + varint(1 << 63) + b"short", "unexpected end"),
        (MAGIC + tag(1, 4), "wire type 4"),
        (MAGIC + tag(1, 6), "wire type 6"),
        (MAGIC + tag(1, 3) + tag(1, 3), "cut off"),
        (MAGIC + tag(1, 3) + tag(2, 2) + varint(1 << 40), "cut off"),
        (MAGIC + tag(0, 0), "field number 0"),
        (MAGIC + tag(1 << 29, 0), "field number"),
        (MAGIC + tag(2, 0) + b"\0", "field 2 of the envelope"),
        (MAGIC + POD + delimited(2, delimited(1, tag(1, 0) + b"\1")), "metadata.name: wrong wire type 0"),
        (MAGIC + POD + delimited(2, delimited(1, delimited(1, b"\xff"))), "metadata.name: the text is not UTF-8"),
        (MAGIC + POD + delimited(2, delimited(1, delimited(7, b"1"))), "metadata.generation: wrong wire type 2"),
        (MAGIC + POD + delimited(2, delimited(1, delimited(8, tag(1, 0) + varint(1 << 62)))), "out of range"),
        (MAGIC + POD + delimited(2, delimited(1, delimited(17, delimited(7, delimited(1, b"{"))))), "hold JSON"),
        (MAGIC + POD + delimited(2, delimited(1, delimited(17, delimited(7, delimited(1, b"[" * 5000))))), "hold JSON"),
    ],
)
def test_what_is_no_message_is_refused(data: bytes, message: str) -> None:
    with pytest.raises(WireError, match=message):
        envelope.decode(data)


@pytest.mark.parametrize("head", [b"", bytes.fromhex("0a0276311203506f78"), bytes.fromhex("0a027631")])
def test_kinds_that_have_no_message(head: bytes) -> None:
    with pytest.raises(UnknownKindError, match="no kind"):
        envelope.decode(MAGIC + delimited(1, head))


def test_numbers_that_json_cannot_write() -> None:
    for value in ("000000000000f07f", "000000000000f87f"):
        with pytest.raises(WireError, match="not finite"):
            decode_message(bytes.fromhex("49" + value), "apiextensions_v1.JSONSchemaProps")


@pytest.mark.parametrize(
    ("value", "text"), [(9.0, "9"), (-2.5, "-2.5"), (0.0, "0"), (1e300, "1e300"), (2.0**62, "4611686018427387904")]
)
def test_numbers_are_those_of_json(value: float, text: str) -> None:
    found = decode_message(b"\x49" + struct.pack("<d", value), "apiextensions_v1.JSONSchemaProps")
    assert json.dumps(found) == f'{{"maximum": {text.replace("1e300", "1e+300")}}}'


def test_depth_is_bounded() -> None:
    data = b""
    for _ in range(MAX_DEPTH - 1):
        data = delimited(28, data)
    assert decode_message(data, "apiextensions_v1.JSONSchemaProps")
    with pytest.raises(WireError, match="within each other"):
        decode_message(delimited(28, data), "apiextensions_v1.JSONSchemaProps")
    for _ in range(10_000):
        data = delimited(28, data)
    with pytest.raises(WireError, match="within each other"):
        decode_message(data, "apiextensions_v1.JSONSchemaProps")


def test_the_number_of_values_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoder, "MAX_VALUES", 1000)
    for data, type_name in (
        (delimited(2, b""), "core_v1.PodSpec"),
        (delimited(99, b""), "core_v1.Pod"),
        (delimited(3, b"\1"), "batch_v1.PodFailurePolicyOnExitCodesRequirement"),
    ):
        decode_message(data * 400, type_name)
        with pytest.raises(WireError, match="more than 1000 values"):
            decode_message(data * 1001, type_name)
    with pytest.raises(WireError, match="more than 1000 values"):
        decode_message(delimited(3, b"\1" * 1001), "batch_v1.PodFailurePolicyOnExitCodesRequirement")


@settings(deadline=None, max_examples=200)
@given(st.binary(max_size=200), st.sampled_from(KINDS))
def test_any_bytes_are_read_or_refused(data: bytes, kind: tuple[str, str]) -> None:
    head = delimited(1, delimited(1, kind[0].encode()) + delimited(2, kind[1].encode()))
    for content in (data, head + delimited(2, data), head + delimited(2, delimited(1, data))):
        with suppress(WireError, UnknownKindError):
            envelope.decode(MAGIC + content)


@settings(deadline=None, max_examples=100)
@given(st.sampled_from(KINDS), st.integers(0, 2**64))
def test_damaged_bodies_are_read_or_refused(kind: tuple[str, str], seed: int) -> None:
    random = Random(seed)
    whole = bytearray(envelope.encode(making.document(random, *kind)))
    for _ in range(random.randint(1, 4)):
        whole[random.randrange(len(whole))] = random.randrange(256)
    with suppress(WireError, UnknownKindError):
        # What is read can be written again.
        envelope.encode(envelope.decode(bytes(whole[: random.randint(0, len(whole))])))
