"""The contract of a store: a log of revisions over keys, kept as bytes.

Every write gets the next revision, one for each write, never used twice, also not after a crash. A document carries
its own revision, so a writer hands in a function that makes the bytes from the revision (`Encode`); what it returns is
kept and given out as it is. Keys are paths, `/group/plural/namespace/name`, and lists are in key order.

A write is applied at once and seen by reads of the same process; its coroutine returns, and watches see it, when it is
durable. A write that is not acknowledged may or may not survive a crash; one that is acknowledged does. A write that
cannot be made durable is undone: it raises StoreError, and what was read at its revision in the meantime is Compacted.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from enum import Enum
from typing import Protocol

import msgspec

Encode = Callable[[int], bytes]


class StoreError(Exception):
    """Anything a store refuses."""


class Exists(StoreError):
    """Create: the key is taken."""


class Missing(StoreError):
    """Update or delete: there is no such key."""


class Conflict(StoreError):
    """The key is not at the revision the writer expected; `current` is what is there."""

    def __init__(self, current: Record) -> None:
        super().__init__(f"{current.key} is at revision {current.revision}")
        self.current = current


class Compacted(StoreError):
    """The revision asked for is older than what is kept, or the watcher fell too far behind: list again."""


class Ahead(StoreError):
    """The revision asked for has not been reached yet."""


class NotDurable(StoreError):
    """The write was undone because it could not be committed."""


class NoSpace(NotDurable):
    """There is no room on the disk."""


class EventType(Enum):
    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"


class Record(msgspec.Struct, frozen=True, gc=False):
    """A document as it was written: `created` is the revision of its creation, `revision` that of this version."""

    key: str
    value: bytes
    created: int
    revision: int


class Event(msgspec.Struct, frozen=True, gc=False):
    """For DELETED, `record` is the last version with the revision of the deletion; `previous` is what was before."""

    type: EventType
    record: Record
    previous: Record | None


class Page(msgspec.Struct, frozen=True):
    """`revision` is that of the whole list; all pages of one list are read at the same one."""

    records: list[Record]
    revision: int
    remaining: int


class Watch(Protocol):
    """Events after a revision, in order, without gap or repeat; iteration raises Compacted when it cannot go on.

    `revision` is how far the watch has come: all events up to it were given out. A watch buffers a bounded number of
    events; a reader that falls further behind gets Compacted instead of the rest.
    """

    @property
    def revision(self) -> int: ...

    def __aiter__(self) -> AsyncIterator[Event]: ...

    async def take(self) -> list[Event]:
        """Waits for the next event and gives it with those behind it; none after a nudge. Ends as iteration does."""
        ...

    def nudge(self) -> None:
        """Makes the `take` under way, or else the next one, return without events."""
        ...

    def close(self) -> None: ...


class Store(Protocol):
    @property
    def revision(self) -> int:
        """The newest there is; a restart or a failed write may have moved it past that of the newest write."""
        ...

    @property
    def trouble(self) -> str:
        """Why writes cannot be taken at present; empty if they can."""
        ...

    def get(self, key: str) -> Record | None: ...

    def list(self, prefix: str, *, limit: int = 0, after: str = "", revision: int = 0) -> Page:
        """Records under a prefix in key order; `after` is the last key of the page before, `revision` that page's.

        Raises Compacted if that revision is no longer kept, Ahead if it has not been reached.
        """
        ...

    async def create(self, key: str, encode: Encode) -> Record: ...

    async def update(self, key: str, encode: Encode, *, expect: int = 0, frees: bool = False) -> Record:
        """`expect` is the revision the key must be at; 0 for whichever.

        One that `frees` leads to a deletion, and like that is taken when there is no room for others.
        """
        ...

    async def delete(self, key: str, *, expect: int = 0, encode: Encode | None = None) -> Record:
        """The last version, with the revision of the deletion; `encode` makes the document that watchers see."""
        ...

    def watch(self, prefix: str, *, after: int) -> Watch:
        """Events with revisions above `after`; raises as `list` does if some of them are not there."""
        ...

    async def compact(self, revision: int) -> None:
        """Forgets versions and events that only readers before the revision would need."""
        ...

    def snapshot(self) -> bytes:
        """Returns an SQLite file with everything that is acknowledged; a store can be opened on it.

        Raises StoreError if the store keeps nothing on disk.
        """
        ...

    async def close(self) -> None:
        """Waits for writes under way, ends all watches and releases what the store holds."""
        ...
