"""Serves OpenAPI: the index of version 3, its documents, and the document of version 2, in JSON and in protobuf.

Documents are made in a worker when they are first asked for, each from what is served of its group version, and kept
until that changes. A document is named by the hash of its JSON: it is its ETag, and stands in the address that the
index gives, so that clients may keep for ever what they got there. Version 2 is put together from what each group
version gives to it.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Final

import msgspec

from dray.server import negotiation, status
from dray.server.openapi import messages, swagger
from dray.server.openapi.documents import Served, make
from dray.server.parameters import parse
from dray.server.requests import JSON, Request, Response
from dray.server.resource_registry import ResourceRegistry
from dray.server.reviews import REVIEWS
from dray.server.worker import AT_ONCE, Worker

# Older clients ask for this media type with the second name.
_PROTOBUF: Final = "application/com.github.proto-openapi.spec.v{}.v1.0+protobuf"
_OLD_PROTOBUF: Final = "application/com.github.proto-openapi.spec.v{}@v1.0+protobuf"
_SMALLEST_COMPRESSED: Final = 1400
_KEPT_FOR: Final = timedelta(days=365)


class Document:
    """A document in its forms; other forms than JSON are made on first use."""

    def __init__(self, text: bytes, in_protobuf: Callable[[bytes], bytes]) -> None:
        self.etag = hashlib.sha512(text).hexdigest().upper()
        self.modified = datetime.now(UTC)
        self._in_protobuf = in_protobuf
        self._forms: dict[tuple[bool, bool], bytes] = {(False, False): text}

    def form(self, *, protobuf: bool, compressed: bool) -> bytes:
        found = self._forms.get((protobuf, compressed))
        if found is None:
            if compressed:
                found = gzip.compress(self.form(protobuf=protobuf, compressed=False), 6, mtime=0)
            else:
                found = self._in_protobuf(self._forms[False, False])
            self._forms[protobuf, compressed] = found
        return found


class _GroupVersion:
    """The cached documents of a group version."""

    def __init__(self, served: Served) -> None:
        self.served = served
        document = make(served)
        self.document = Document(msgspec.json.encode(document), _message)
        self.pieces = swagger.pieces(swagger.part(document, served))


def _message(text: bytes) -> bytes:
    return messages.version3().write("Document", msgspec.json.decode(text))


class OpenApiService:
    def __init__(self, registry: ResourceRegistry, worker: Worker) -> None:
        self._registry = registry
        self._worker = worker
        self._making = asyncio.Lock()
        self._made: dict[str, _GroupVersion] = {}
        self._index: Document | None = None
        self._version2: Document | None = None
        self._changes = -1

    async def answer(self, request: Request, rest: Sequence[str]) -> Response:
        match rest:
            case ["v2"]:
                protobuf = _wants_protobuf(request, 2)
                return await self._respond(request, await self._whole(), 2, protobuf=protobuf)
            case ["v3"]:
                # The index is always JSON, as in Kubernetes.
                await self._prepare()
                assert self._index is not None
                return await self._respond(request, self._index, 3, protobuf=False)
            case ["v3", *parts]:
                return await self._group_version(request, "/".join(parts))
        raise status.no_such_path()

    async def _group_version(self, request: Request, place: str) -> Response:
        protobuf = _wants_protobuf(request, 3)
        await self._prepare()
        made = self._made.get(place)
        if made is None:
            raise status.no_such_path()
        given = parse(request.query).get("hash", "")
        if given and given != made.document.etag:
            headers = {"Location": _address(place, made.document.etag), "Vary": "Accept"}
            return Response(301, b"", headers=headers, final=True)
        answer = await self._respond(request, made.document, 3, protobuf=protobuf)
        if given:
            answer.headers["Cache-Control"] = "public, immutable"
            answer.headers["Expires"] = _http_date(datetime.now(UTC) + _KEPT_FOR)
        return answer

    async def _respond(self, request: Request, document: Document, version: int, *, protobuf: bool) -> Response:
        etag = f'"{document.etag}"'
        headers = {"Vary": "Accept, Accept-Encoding", "Etag": etag, "Last-Modified": _http_date(document.modified)}
        known = [tag.strip().removeprefix("W/") for tag in request.headers.get("if-none-match", "").split(",")]
        if etag in known or "*" in known:
            return Response(304, b"", headers=headers, final=True)
        content_type = _PROTOBUF.format(version) if protobuf else JSON
        body = await self._worker.run(AT_ONCE + 1, document.form, protobuf=protobuf, compressed=False)
        if len(body) >= _SMALLEST_COMPRESSED and negotiation.accepts_gzip(request.headers.get("accept-encoding", "")):
            body = await self._worker.run(AT_ONCE + 1, document.form, protobuf=protobuf, compressed=True)
            headers["Content-Encoding"] = "gzip"
        return Response(200, body, content_type, headers=headers, final=True)

    def _served(self) -> dict[str, Served]:
        found: dict[str, list[object]] = {}
        for group in self._registry.groups():
            for version in self._registry.versions(group):
                found[_place(group, version)] = list(self._registry.resources(group, version))
        for review in REVIEWS:
            found.setdefault(_place(review.group, review.version), []).append(review)
        return found  # type: ignore[return-value]

    async def _prepare(self) -> None:
        """Makes the documents of group versions that changed."""
        async with self._making:
            changes = self._registry.changes
            if changes == self._changes:
                return
            served = self._served()
            made = {
                place: before
                for place, before in self._made.items()
                if place in served and _same(before.served, served[place])
            }
            for place in served.keys() - made.keys():
                made[place] = await self._worker.run(AT_ONCE + 1, _GroupVersion, served[place])
            self._made, self._changes, self._version2 = made, changes, None
            addresses = {place: {"serverRelativeURL": _address(place, made[place].document.etag)} for place in served}
            self._index = Document(msgspec.json.encode({"paths": addresses}), bytes)

    async def _whole(self) -> Document:
        await self._prepare()
        async with self._making:
            if self._version2 is None:
                pieces = [each.pieces for _, each in sorted(self._made.items())]
                text, message = await self._worker.run(AT_ONCE + 1, swagger.whole, pieces)
                self._version2 = Document(text, lambda _: message)
            return self._version2


def _place(group: str, version: str) -> str:
    return f"apis/{group}/{version}" if group else f"api/{version}"


def _same(before: Served, now: Served) -> bool:
    return len(before) == len(now) and all(old is new for old, new in zip(before, now, strict=True))


def _address(place: str, etag: str) -> str:
    return f"/openapi/v3/{place}?hash={etag}"


def _http_date(moment: datetime) -> str:
    return format_datetime(moment, usegmt=True)


def _wants_protobuf(request: Request, version: int) -> bool:
    """Returns True if the client prefers protobuf; raises a 406 if it accepts neither form."""
    names = (_PROTOBUF.format(version), _OLD_PROTOBUF.format(version))
    accept = request.headers.get("accept", "")
    for kind, _ in negotiation.clauses(accept or "*/*"):
        if kind in (JSON, "application/*", "*/*"):
            return False
        if kind in names:
            return True
    raise status.not_acceptable(f"{JSON}, {names[0]}")
