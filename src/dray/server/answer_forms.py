"""Answers in the form that the client wants: they are made as JSON, and written anew as YAML or protobuf.

Lists are written item by item, and what several watchers see once for them all. Documents that have no message, as
those of custom kinds, stay JSON. JSON is indented for whoever asks for that with `pretty`, and for curl, wget and
browsers unless they ask for the opposite, as in Kubernetes.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from urllib.parse import parse_qs

import msgspec

from dray.api.caches import Cache
from dray.api.objects import Object
from dray.api.protobuf import envelope
from dray.api.protobuf.envelope import UnknownKindError
from dray.api.protobuf.wire import WireError
from dray.server import documents, negotiation, representations, status
from dray.server.requests import JSON, Answer, Request, Response
from dray.server.worker import AT_ONCE, Worker

_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_items = msgspec.json.Decoder(list[msgspec.Raw] | None).decode
# Interactive programs, and values that Kubernetes reads as true.
_BY_HAND = ("curl", "Wget", "Mozilla/5.0")
_TRUE = frozenset(("1", "t", "T", "TRUE", "true", "True"))
_frames: Cache[bytes, bytes] = Cache(1024, 8 << 20)


async def written(worker: Worker, request: Request, answer: Answer) -> Answer:
    """Returns the answer in the form that the client accepts; raises ApiError if the server is overloaded."""
    media = negotiation.media(request.headers.get("accept", ""))
    if not isinstance(answer, Response) or answer.content_type != JSON or answer.final:
        return answer
    if media == JSON and not _is_pretty(request):
        return answer
    size = len(answer.body) if answer.rest is None else AT_ONCE + 1
    if media == JSON:
        answer.body = await worker.run(size, lambda: msgspec.json.format(answer.whole(), indent=2))
    elif media == negotiation.YAML:
        answer.body = await worker.run(size, lambda: representations.as_yaml(answer.whole()))
    else:
        body = await worker.run(size, lambda: as_protobuf(answer.whole()))
        if body is None:
            return answer
        answer.body = body
    answer.content_type = media
    return answer


def _is_pretty(request: Request) -> bool:
    asked = parse_qs(request.query).get("pretty", [""])[0] if "pretty" in request.query else ""
    if asked:
        return asked in _TRUE
    return request.headers.get("user-agent", "").startswith(_BY_HAND)


class _Event(msgspec.Struct):
    type: str
    object: Object


_read_event = msgspec.json.Decoder(_Event).decode


def as_protobuf(body: bytes) -> bytes | None:
    """Encodes a JSON document as protobuf; returns None if its kind has no message.

    Raises a 406 if it cannot be encoded.
    """
    members = _members(body) if body.startswith(b"{") else {}
    if "kind" not in members:
        return None
    items = members.pop("items", None)
    document = {name: documents.decode(value) for name, value in members.items()}
    # APIGroup and the like have a kind without an apiVersion.
    document.setdefault("apiVersion", "v1")
    try:
        if items is None:
            return envelope.encode(document)
        return envelope.encode_list(document, map(documents.decode, _items(items) or ()))
    except UnknownKindError:
        return None
    except WireError as error:
        raise status.not_acceptable(f"application/json; the object cannot be written as protobuf: {error}") from error


async def events(lines: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    """Encodes the events of a watch as protobuf frames."""
    try:
        async for some in lines:
            yield b"".join(map(_frame, some.splitlines()))
    finally:
        await lines.aclose()


def _frame(line: bytes) -> bytes:
    found = _frames.get(line)
    if found is None:
        event = _read_event(line)
        found = envelope.encode_event(event.type, envelope.encode(event.object))
        _frames.put(line, found, len(line) + len(found))
    return found
