"""A view of the page: what it reads, what it shows, and the calls that it answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dray.api.objects import Object
from dray.client.api import ApiClient
from dray.web.access import Identity
from dray.web.feeds import Source
from dray.web.model import Model
from dray.web.rights import Rights, Sight
from dray.web.services import Services

if TYPE_CHECKING:
    from dray.web.desk import Desk


class BadCall(Exception):
    """A call cannot be answered; the text says why, for the viewer."""


@dataclass(frozen=True, slots=True)
class Question:
    """What a view may look at to make its document."""

    model: Model
    sight: Sight
    query: Mapping[str, str]
    """Parameters of the stream, as the JavaScript module gave them to `useView`; part of what is shared."""
    services: Services

    def objects(self, kind: str) -> Iterator[Object]:
        """The objects of a kind that the viewer may list."""
        return self.sight.objects(kind, self.model.table(kind))

    def is_hidden(self, kind: str) -> bool:
        """Whether the server has the kind, and the viewer may not list it in all namespaces."""
        return self.model.table(kind).resource is not None and not self.sight.sees_all(kind)

    def get(self, kind: str, name: str, *, namespace: str = "") -> Object | None:
        return self.model.table(kind).get(name, namespace=namespace) if self.sight.sees(kind, namespace) else None


@dataclass(frozen=True, slots=True)
class Call:
    """A request of one viewer to a view, sent by POST. Whatever it changes, it changes through `client`."""

    question: Question
    identity: Identity
    rights: Rights
    desk: Desk
    """Answers heavy questions in another process: `await call.desk.ask(call.identity, "explain", {...})`."""
    body: Object

    @property
    def client(self) -> ApiClient:
        """Has the rights of the viewer."""
        return self.identity.client

    def text(self, name: str, default: str | None = None) -> str:
        """A member of the body; raises BadCall."""
        value = self.body.get(name, default)
        if not isinstance(value, str):
            raise BadCall(f"{name} must be a text")
        return value


@dataclass(frozen=True, slots=True)
class View:
    name: str
    """Of the path: `/ui/NAME`, the stream `/ui/stream/NAME`, and calls `/ui/call/NAME/CALL`."""
    reads: tuple[str, ...]
    """Names of kinds (model.KINDS). The viewer sees those that they may list; a change of one makes a new document."""
    derive: Callable[[Question], Object] | None = None
    """Makes the document: plain JSON without null. It is called at most every `interval` seconds."""
    source: Callable[[Question], Source] | None = None
    """Instead of `derive`, where that would be too slow: a source that keeps state and makes its own changes."""
    calls: Mapping[str, Callable[[Call], Awaitable[Any]]] = field(default_factory=dict)
    """By name: functions from a call to JSON. They raise BadCall or ApiError for the viewer to read."""
    parameters: tuple[str, ...] = ()
    """Names of the query parameters that streams of this view may have."""
    interval: float = 0.25
    longest_quiet: float = 30.0
    """The document is made again after so many seconds without a change, because it may show the time or measures."""
