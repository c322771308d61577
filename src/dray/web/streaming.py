"""Streams of viewers: server-sent events of a view, for as long as the session lasts.

Every second a stream looks whether its session is still good and whether the viewer's rights are the same. With other
rights it goes on with a new snapshot. It tells when the model is not current, because the API server does not answer.
Streams of a session and in all are counted; there are no more than so many.
"""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Mapping
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass
from typing import Final

import msgspec

from dray.client.errors import ClientError
from dray.process.tasks import end_tasks
from dray.web.access import Identity
from dray.web.exchanges import Exchange, Refusal
from dray.web.feeds import DerivedSource, Feed, Feeds, Source
from dray.web.model import Model
from dray.web.rights import Rights, Sight
from dray.web.services import Services
from dray.web.sessions import Session, Sessions
from dray.web.view import Question, View
from dray.web.visits import Visits

_LOOK: Final = 1.0
_ALIVE: Final = 15
"""Looks without a frame, after which a comment is sent: it shows the client, and proxies, that the stream lives."""
_STALLED: Final = 60.0
"""Seconds that a client may leave a frame unread."""
_COMMENT: Final = b": alive\n\n"
_TROUBLE: Final = b"event: trouble\ndata: %b\n\n"
_OVER: Final = b"event: over\ndata: {}\n\n"


class Streaming:
    def __init__(
        self,
        model: Model,
        rights: Rights,
        sessions: Sessions,
        services: Services,
        *,
        most: int,
        most_of_session: int,
    ) -> None:
        self._model = model
        self._rights = rights
        self._sessions = sessions
        self._services = services
        self._most = most
        self._most_of_session = most_of_session
        self._feeds = Feeds()
        self._tasks: set[asyncio.Task[None]] = set()
        self._warming: asyncio.Task[None] | None = None
        self.visits = Visits(self._rest)
        """Whoever needs the model visits."""

    def __len__(self) -> int:
        return len(self._tasks)

    async def run(self, exchange: Exchange, session: Session, view: View, query: Mapping[str, str]) -> None:
        """Raises Refusal before the stream begins, and nothing after."""
        if len(self._tasks) >= self._most or session.streams >= self._most_of_session:
            raise Refusal(429, "too many streams are open; close other tabs of this page")
        session.streams += 1
        sending = asyncio.create_task(self._send(exchange, session, view, query), name=f"page: stream of {view.name}")
        self._tasks.add(sending)
        leaving = asyncio.create_task(exchange.left(), name="page: client of a stream")
        try:
            await asyncio.wait((sending, leaving), return_when=asyncio.FIRST_COMPLETED)
        finally:
            await end_tasks((sending, leaving))
            self._tasks.discard(sending)
            session.streams -= 1
        if sending.done() and not sending.cancelled() and (error := sending.exception()) is not None:
            raise error

    def warm(self, view: View, identity: Identity) -> None:
        """Reads the cluster and makes the document of a view that is about to be opened: with thousands of nodes that
        takes as long as the browser needs to load the page."""
        if self._warming is None or self._warming.done():
            self._warming = asyncio.create_task(self._make(view, identity), name="page: read the cluster")

    async def _make(self, view: View, identity: Identity) -> None:
        # The stream that follows says what is wrong.
        async with self.visits.visit():
            with suppress(ClientError):
                await self._make_document(view, identity)

    async def _make_document(self, view: View, identity: Identity) -> None:
        await self._model.need(view.reads)
        sight = await self._rights.sight(identity, view.reads)
        key = _key(view, {}, sight)
        try:
            await self._feeds.open(key, lambda: self._feed(identity, view, {}, sight))
        finally:
            self._feeds.close(key)

    def end(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def close(self) -> None:
        self.end()
        await end_tasks([*self._tasks, *([self._warming] if self._warming is not None else [])])
        await self.visits.close()
        await self._feeds.end()

    async def _send(self, exchange: Exchange, session: Session, view: View, query: Mapping[str, str]) -> None:
        async with self.visits.visit():
            await self._stream(exchange, session, view, query)

    async def _stream(self, exchange: Exchange, session: Session, view: View, query: Mapping[str, str]) -> None:
        try:
            await self._model.need(view.reads)
            sight = await self._rights.sight(session.identity, view.reads)
        except ClientError as error:
            raise Refusal(502, f"the API server does not answer: {error}") from None
        await exchange.start_stream()
        reader = _Reader(exchange)
        while self._sessions.is_good(session):
            try:
                sight = await self._follow(reader, session, view, query, sight)
            except TimeoutError:
                return
        await exchange.piece(_OVER, more=False)

    async def _follow(
        self, reader: _Reader, session: Session, view: View, query: Mapping[str, str], sight: Sight
    ) -> Sight:
        """Sends frames while session and rights are the same; returns the new rights."""
        key = _key(view, query, sight)
        version: int | None = None
        try:
            feed = await self._feeds.open(key, lambda: self._feed(session.identity, view, query, sight))
            while self._sessions.is_good(session):
                version, frames = await feed.frames(version, _LOOK)
                troubles = [*self._model.troubles(view.reads), self._rights.trouble(session.identity)]
                await reader.send(frames, "; ".join(filter(None, troubles)))
                now = await self._rights.sight(session.identity, view.reads)
                if now.fingerprint != sight.fingerprint:
                    return now
        finally:
            self._feeds.close(key)
        return sight

    async def _feed(self, identity: Identity, view: View, query: Mapping[str, str], sight: Sight) -> Feed:
        question = Question(self._model, sight, query, self._services)
        source, derive = view.source, view.derive

        def make() -> Source:
            if source is not None:
                return source(question)
            if derive is None:
                raise ValueError(f"the view {view.name} has neither derive nor source")
            return DerivedSource(lambda: derive(question))

        def turn() -> AbstractAsyncContextManager[None]:
            return self._feeds.turns.turn(identity.key)

        return await Feed(make, self._model, view.reads, view.interval, view.longest_quiet, turn).start()

    async def _rest(self) -> None:
        """Nobody has looked for a while."""
        await self._feeds.end()
        await self._model.close()


@dataclass(slots=True)
class _Reader:
    """The client of a stream, and what it was told last."""

    exchange: Exchange
    trouble: str = ""
    quiet: int = 0

    async def send(self, frames: list[bytes], trouble: str) -> None:
        """Raises TimeoutError if the client does not read: that holds up its stream, and no other."""
        if trouble != self.trouble:
            self.trouble = trouble
            frames = [*frames, _TROUBLE % msgspec.json.encode({"text": trouble})]
        self.quiet = 0 if frames else self.quiet + 1
        if frames or self.quiet % _ALIVE == 0:
            async with asyncio.timeout(_STALLED):
                await self.exchange.piece(b"".join(frames) or _COMMENT)


def _key(view: View, query: Mapping[str, str], sight: Sight) -> Hashable:
    """Viewers with the same key share a document."""
    return view.name, tuple(query.items()), sight.fingerprint
