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
    """Base class of all errors of a store."""


class Exists(StoreError):
    """Raised by create if the key exists."""


class Missing(StoreError):
    """Raised by update or delete if the key does not exist."""


class Conflict(StoreError):
    """Raised if the key is not at the expected revision; `current` is the present record."""

    def __init__(self, current: Record) -> None:
        super().__init__(f"{current.key} is at revision {current.revision}")
        self.current = current


class Compacted(StoreError):
    """Raised if the revision is no longer kept, or the watcher fell too far behind: list again."""


class Ahead(StoreError):
    """Raised if the revision has not been reached yet."""


class NotDurable(StoreError):
    """Raised if the write was undone because it could not be committed."""


class NoSpace(NotDurable):
    """Raised if the disk is full."""


class EventType(Enum):
    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"


class Record(msgspec.Struct, frozen=True, gc=False):
    """A stored document; `created` is the revision of its creation, `revision` that of this version."""

    key: str
    value: bytes
    created: int
    revision: int


class Event(msgspec.Struct, frozen=True, gc=False):
    """A change; for DELETED, `record` is the last version at the revision of the deletion.

    `previous` is the version before.
    """

    type: EventType
    record: Record
    previous: Record | None


class Page(msgspec.Struct, frozen=True):
    """A page of a list; `revision` is that of the list, and equal for all its pages."""

    records: list[Record]
    revision: int
    remaining: int


class Watch(Protocol):
    """Events after a revision, in order, without gap or repeat; iteration raises Compacted when it cannot continue.

    `revision` is the position of the watch: all events up to it were returned. A watch buffers a bounded number of
    events; a reader that falls further behind gets Compacted instead of the rest.
    """

    @property
    def revision(self) -> int: ...

    def __aiter__(self) -> AsyncIterator[Event]: ...

    async def take(self) -> list[Event]:
        """Waits for events and returns all available ones; an empty list after a nudge. Ends like the iteration."""
        ...

    def nudge(self) -> None:
        """Makes the running `take`, or else the next one, return without events."""
        ...

    def close(self) -> None: ...


class Store(Protocol):
    @property
    def revision(self) -> int:
        """Returns the newest revision; a restart or a failed write may have moved it past that of the newest write."""
        ...

    @property
    def trouble(self) -> str:
        """Returns why writes are refused at present; empty if they are accepted."""
        ...

    def get(self, key: str) -> Record | None: ...

    def list(self, prefix: str, *, limit: int = 0, after: str = "", revision: int = 0) -> Page:
        """Returns the records under a prefix in key order.

        For further pages, `after` is the last key of the page before, and `revision` its revision. Raises Compacted if
        that revision is no longer kept, Ahead if it has not been reached.
        """
        ...

    async def create(self, key: str, encode: Encode) -> Record: ...

    async def update(self, key: str, encode: Encode, *, expect: int = 0, frees: bool = False) -> Record:
        """Updates a record; `expect` is the required revision of the key, 0 for any.

        An update that `frees` leads to a deletion, and like that is accepted while the disk is full.
        """
        ...

    async def delete(self, key: str, *, expect: int = 0, encode: Encode | None = None) -> Record:
        """Deletes a record.

        Returns its last version at the revision of the deletion; `encode` makes the document for watchers.
        """
        ...

    def watch(self, prefix: str, *, after: int) -> Watch:
        """Watches events with revisions above `after`; raises Compacted or Ahead like `list`."""
        ...

    async def compact(self, revision: int) -> None:
        """Forgets versions and events that only readers before the revision would need."""
        ...

    def snapshot(self) -> bytes:
        """Returns an SQLite file with all acknowledged writes; a store can be opened on it.

        Raises StoreError if the store keeps nothing on disk.
        """
        ...

    async def close(self) -> None:
        """Waits for running writes, ends all watches and releases all resources."""
        ...
