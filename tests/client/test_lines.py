import asyncio
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dray.client.errors import ApiError, Garbled
from dray.client.watching import lines, watch_event


async def stream(pieces):
    for piece in pieces:
        yield piece


def cut(pieces, longest=100):
    async def collect():
        return [line async for line in lines(stream(pieces), longest)]

    return asyncio.run(collect())


@given(st.lists(st.binary(min_size=0, max_size=6)), st.lists(st.integers(0, 40)))
def test_where_the_pieces_are_cut_does_not_matter(texts, cuts):
    texts = [text.replace(b"\n", b"") for text in texts]
    whole = b"".join(text + b"\n" for text in texts) + b"unfinished"
    places = [0, *sorted(min(place, len(whole)) for place in cuts), len(whole)]
    pieces = [whole[start:end] for start, end in pairwise(places)]
    assert cut(pieces) == [text for text in texts if text]


def test_long_lines():
    assert cut([b"x" * 60, b"x" * 40 + b"\n"]) == [b"x" * 100]
    with pytest.raises(Garbled, match="longer than 100"):
        cut([b"x" * 60, b"x" * 41 + b"\n"])


@pytest.mark.parametrize(
    "line",
    [
        b"{",
        b"[]",
        b"null",
        b"7",
        b'{"type": "ADDED"}',
        b'{"type": "ADDED", "object": []}',
        b'{"type": "NEW", "object": {}}',
        b"\xff",
    ],
)
def test_what_is_no_event(line):
    with pytest.raises(Garbled):
        watch_event(line)


def test_errors_are_raised():
    with pytest.raises(ApiError) as refused:
        watch_event(b'{"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired"}}')
    assert refused.value.is_gone
    with pytest.raises(ApiError) as vague:
        watch_event(b'{"type": "ERROR", "object": {}}')
    assert vague.value.status == 500


def test_every_reader_has_an_event_of_its_own():
    line = b'{"type":"ADDED","object":{"metadata":{"resourceVersion":"7"}}}'
    assert watch_event(line).object is not watch_event(line).object
    assert watch_event(line).resource_version == "7"
