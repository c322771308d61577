"""The log and the index over it: what is true now, how it came to be, and what it was.

Synchronous, without clock, file or task. A write is one `Event`; the event carries what was before, so it is also its
own undo: pages at an older revision are the present with the events since then undone, and a write that could not be
made durable is taken back the same way.

`published` divides the log: events up to it are durable and may be watched, those above it are applied but pending.
`undo` takes back what is pending. Readers may have seen it, so its revisions become a gap at which nobody can read or
resume, and the state after it gets a revision of its own.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from heapq import merge
from itertools import islice
from operator import attrgetter
from typing import Final

from sortedcontainers import SortedList

from dray.store.interface import (
    Ahead,
    Compacted,
    Conflict,
    Encode,
    Event,
    EventType,
    Exists,
    Missing,
    Page,
    Record,
)

# First and last revision of each gap.
Gaps = list[tuple[int, int]]

_revision = attrgetter("record.revision")
# Sorts after every key with the prefix.
_LAST: Final = "\U0010ffff"


class Log:
    def __init__(self) -> None:
        self.revision = 0
        self.published = 0
        self.compacted = 0
        self.gaps: Gaps = []
        self._records: dict[str, Record] = {}
        self._keys = SortedKeys()
        self._events: list[Event] = []
        self.past_bytes = 0
        """Bytes of old versions."""

    def restore(
        self, versions: Iterable[tuple[Record, bool]], *, compacted: int, revision: int, gaps: Gaps
    ) -> list[int]:
        """Restores versions (record, deleted) from a file; those up to `compacted` only make the state.

        Returns the revisions that a compaction should have removed.
        """
        forgotten: list[Event] = []
        for record, deleted in versions:
            if deleted and not record.value and (last := self._records.get(record.key)) is not None:
                # The last version was not written again on a full disk.
                record = Record(record.key, last.value, record.created, record.revision)
            event = Event(_type(record, deleted), record, self._records.get(record.key))
            if deleted:
                self._records.pop(record.key, None)
            else:
                self._records[record.key] = record
            if record.revision > compacted:
                self._events.append(event)
                self.past_bytes += past_bytes(event)
            else:
                forgotten.append(event)
        self._keys = SortedKeys(self._records)
        self.compacted, self.gaps = compacted, gaps
        self.revision = self.published = revision
        return unreachable(forgotten)

    def get(self, key: str) -> Record | None:
        return self._records.get(key)

    def page(self, prefix: str, *, limit: int, after: str, revision: int) -> Page:
        revision = revision or self.revision
        past = self._past(prefix, revision)
        if not past and not self._keys.has(prefix):
            return Page([], revision, 0)
        keys: Iterator[str] = self._keys.under(prefix, after)
        if past:
            kept = (key for key in keys if key not in past)
            keys = merge(kept, sorted(key for key, record in past.items() if record is not None and key > after))
        now = self._records
        chosen = islice(keys, limit) if limit else keys
        records = [past.get(key) or now[key] for key in chosen] if past else [now[key] for key in chosen]
        remaining = self._count(prefix, after, past) - len(records) if limit else 0
        return Page(records, revision, remaining)

    def create(self, key: str, encode: Encode) -> Event:
        if key in self._records:
            raise Exists(f"{key} exists")
        revision = self.revision + 1
        event = Event(EventType.ADDED, Record(key, encode(revision), revision, revision), None)
        self._keys.add(key)
        return self._apply(event)

    def update(self, key: str, encode: Encode, expect: int) -> Event:
        previous = self._expected(key, expect)
        revision = self.revision + 1
        record = Record(key, encode(revision), previous.created, revision)
        return self._apply(Event(EventType.MODIFIED, record, previous))

    def delete(self, key: str, encode: Encode | None, expect: int) -> Event:
        previous = self._expected(key, expect)
        revision = self.revision + 1
        value = encode(revision) if encode else previous.value
        event = Event(EventType.DELETED, Record(key, value, previous.created, revision), previous)
        self._keys.remove(key)
        return self._apply(event)

    def pending(self) -> list[Event]:
        return self._events[len(self._events) - (self.revision - self.published) :]

    def publish(self) -> None:
        self.published = self.revision

    def undo(self) -> tuple[int, int]:
        """Undoes pending writes. Returns the gap that this leaves."""
        pending = self.pending()
        for event in reversed(pending):
            self._restore_previous(event)
            self.past_bytes -= past_bytes(event)
        del self._events[len(self._events) - len(pending) :]
        gap = (self.published + 1, self.revision)
        self.gaps.append(gap)
        self.revision += 1
        self.published = self.revision
        return gap

    def since(self, prefix: str, after: int) -> list[Event]:
        """Returns the published events above a revision."""
        self._check(after)
        start = bisect_right(self._events, after, key=_revision)
        end = bisect_right(self._events, self.published, lo=start, key=_revision)
        return [event for event in self._events[start:end] if event.record.key.startswith(prefix)]

    def compact(self, revision: int) -> list[int]:
        """Compacts up to a revision. Returns the revisions of versions that are no longer needed, in order."""
        revision = min(revision, self.published)
        if revision <= self.compacted:
            return []
        end = bisect_right(self._events, revision, key=_revision)
        forgotten = self._events[:end]
        dropped = unreachable(forgotten)
        self.past_bytes -= sum(map(past_bytes, forgotten))
        del self._events[:end]
        self.gaps = [gap for gap in self.gaps if gap[1] >= revision]
        self.compacted = revision
        return dropped

    def oldest_within(self, most: int) -> int:
        """Returns the revision to compact to, so that old versions have at most `most` bytes."""
        excess = self.past_bytes - most
        for event in self._events:
            if excess <= 0:
                return event.record.revision - 1
            excess -= past_bytes(event)
        return self.published

    def _apply(self, event: Event) -> Event:
        record = event.record
        self.past_bytes += past_bytes(event)
        if event.type is EventType.DELETED:
            del self._records[record.key]
        else:
            self._records[record.key] = record
        self._events.append(event)
        self.revision = record.revision
        return event

    def _restore_previous(self, event: Event) -> None:
        key = event.record.key
        if event.previous is None:
            del self._records[key]
            self._keys.remove(key)
            return
        self._records[key] = event.previous
        if event.type is EventType.DELETED:
            self._keys.add(key)

    def _expected(self, key: str, expect: int) -> Record:
        current = self._records.get(key)
        if current is None:
            raise Missing(f"{key} does not exist")
        if expect and current.revision != expect:
            raise Conflict(current)
        return current

    def _past(self, prefix: str, revision: int) -> dict[str, Record | None]:
        """Returns the older records of keys that changed after a revision; None for keys that did not exist."""
        if revision == self.revision:
            return {}
        self._check(revision)
        past: dict[str, Record | None] = {}
        for event in self._events[bisect_right(self._events, revision, key=_revision) :]:
            if event.record.key.startswith(prefix):
                past.setdefault(event.record.key, event.previous)
        return past

    def _count(self, prefix: str, after: str, past: dict[str, Record | None]) -> int:
        count = self._keys.count_under(prefix, after)
        for key, record in past.items():
            if key > after:
                count += (record is not None) - (key in self._records)
        return count

    def _check(self, revision: int) -> None:
        if revision > self.revision:
            raise Ahead(f"revision {revision} has not been reached, the newest is {self.revision}")
        if revision < self.compacted:
            raise Compacted(f"revision {revision} is no longer kept, the oldest is {self.compacted}")
        if any(first <= revision <= last for first, last in self.gaps):
            raise Compacted(f"what was written at revision {revision} was not kept")


def past_bytes(event: Event) -> int:
    """Returns the bytes kept for an event besides the present state: the version before it, and a deleted record."""
    size = len(event.previous.value) if event.previous is not None else 0
    return size + len(event.record.value) if event.type is EventType.DELETED else size


def unreachable(events: Iterable[Event]) -> list[int]:
    """Returns the revisions of versions that nobody can read once these events, the oldest of the log, are dropped."""
    revisions = []
    for event in events:
        if event.previous is not None:
            revisions.append(event.previous.revision)
        if event.type is EventType.DELETED:
            revisions.append(event.record.revision)
    return sorted(revisions)


def _type(record: Record, deleted: bool) -> EventType:
    if deleted:
        return EventType.DELETED
    return EventType.ADDED if record.created == record.revision else EventType.MODIFIED


class SortedKeys(SortedList):  # type: ignore[misc] # the library has no types
    def has(self, prefix: str) -> bool:
        """Returns True if there is a key with the prefix."""
        first: str | None = next(self.irange(prefix), None)
        return first is not None and first.startswith(prefix)

    def under(self, prefix: str, after: str = "") -> Iterator[str]:
        """Yields the keys with the prefix and above `after`, in order."""
        found: Iterator[str] = self.irange(max(prefix, after), prefix + _LAST, inclusive=(after < prefix, True))
        return found

    def count_under(self, prefix: str, after: str = "") -> int:
        """Returns the number of keys with the prefix and above `after`."""
        low: int = self.bisect_left(prefix) if after < prefix else self.bisect_right(after)
        return max(0, int(self.bisect_right(prefix + _LAST)) - low)
