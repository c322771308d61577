"""Watching: events of a list of objects, from a revision on, as lines of JSON.

An object that begins to match the selection is ADDED for this watcher, one that ceases to is DELETED, whatever it was
for the store. A watcher that reads too slowly is told so (410) and has to list again; nothing is buffered without end.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from dray.api import errors
from dray.api.objects import Object
from dray.server import documents, parameters, representations, status
from dray.server.context import Context
from dray.server.fieldmanager.tracked_kinds import Unconvertible
from dray.server.negotiation import Form
from dray.server.reads import converted, list_prefix, read_version, selected
from dray.server.resources import Resource
from dray.server.selection import Selection, select
from dray.store.interface import Compacted, Event, EventType, Record, Watch

_Found = TypeVar("_Found", Event, Record)
_Bookmark: TypeAlias = Callable[[int, Object], bytes]

BOOKMARK_SECONDS = 60.0
_SHORTEST, _LONGEST = 1800, 3600
_BATCH = 100
_INITIAL_END = {"k8s.io/initial-events-end": "true"}
_PREFIXES = {kind: b'{"type":"' + kind.value.encode() + b'","object":' for kind in EventType}


@dataclass(frozen=True, slots=True)
class WatchOptions:
    selection: Selection
    revision: int
    # True to send existing objects first, as ADDED.
    initial: bool
    # True to send a bookmark after the existing objects.
    initial_end: bool
    bookmarks: bool
    timeout: float
    include: str


def watch_options(resource: Resource, query: Mapping[str, str]) -> WatchOptions:
    version = read_version(query.get("resourceVersion", ""))
    match = query.get("resourceVersionMatch", "")
    bookmarks = parameters.boolean(query, "allowWatchBookmarks") or False
    send_initial = parameters.boolean(query, "sendInitialEvents")
    _check_match(match, send_initial, query.get("continue", ""))
    parameters.whole_number(query, "limit")
    timeout = parameters.whole_number(query, "timeoutSeconds") or 0
    return WatchOptions(
        selection=select(query, resource.fields, resource.read),
        revision=version,
        initial=(not version and send_initial is None) or send_initial is True,
        initial_end=send_initial is True and bookmarks,
        bookmarks=bookmarks,
        timeout=float(timeout) if timeout > 0 else random.uniform(_SHORTEST, _LONGEST),
        include=query.get("includeObject", ""),
    )


def _check_match(match: str, send_initial: bool | None, token: str) -> None:
    problems, member = [], "resourceVersionMatch"
    if send_initial is not None and match != "NotOlderThan":
        detail = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        problems.append(errors.forbidden(member, detail))
    if match:
        if send_initial is None:
            detail = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
            problems.append(errors.forbidden(member, detail))
        if match != "NotOlderThan":
            problems.append(errors.not_supported(member, match, ["NotOlderThan"]))
        if token:
            problems.append(errors.forbidden(member, "resourceVersionMatch is forbidden when continue is provided"))
    if problems:
        raise status.invalid("ListOptions", "meta.k8s.io", "", problems)


def watch(
    context: Context, resource: Resource, namespace: str, query: Mapping[str, str], form: Form
) -> AsyncGenerator[bytes, None]:
    """Checks the query at once; events are read with the iterator."""
    options = watch_options(resource, query)
    if options.revision > context.store.revision:
        raise status.too_large_version(options.revision, context.store.revision)
    return _events(context, resource, namespace, options, form)


async def _events(
    context: Context, resource: Resource, namespace: str, options: WatchOptions, form: Form
) -> AsyncGenerator[bytes, None]:
    render = _renderer(context, resource, form, options.include)
    bookmark = _bookmarks(resource, form)
    prefix = list_prefix(resource, namespace)
    # The deadline counts from the first read.
    deadline = asyncio.get_running_loop().time() + options.timeout
    try:
        start = options.revision
        if options.initial:
            page = context.store.list(prefix)
            start = page.revision
        elif not start:
            start = context.store.revision
        events = context.store.watch(prefix, after=start)
    except Compacted:
        yield _gone(options.revision)
        return
    try:
        if options.initial:
            there = await selected(context, await converted(resource, page.records), options.selection)
            for some in _batches(there):
                yield b"".join([render(EventType.ADDED, record) for record in some])
                await asyncio.sleep(0)
            if options.initial_end:
                yield bookmark(start, _INITIAL_END)
        async for lines in _follow(resource, bookmark, events, options, deadline, render):
            yield lines
            # The next event may take long to arrive, and there may be thousands of watchers.
            del lines
    except Compacted:
        yield _gone(events.revision)
    except Unconvertible as error:
        # The client lists again, and gets the error there as long as it persists.
        yield _error(error)
    finally:
        events.close()


async def _follow(
    resource: Resource,
    bookmark: _Bookmark,
    events: Watch,
    options: WatchOptions,
    deadline: float,
    render: Callable[[EventType, Record], bytes],
) -> AsyncIterator[bytes]:
    """Yields events, all available ones as one piece, and bookmarks in between when they are due."""
    loop = asyncio.get_running_loop()
    # One timer a minute: a timeout around every wait would cost more than the event itself.
    timer = _nudge_later(loop, events, options, deadline)
    try:
        while True:
            taken = await events.take()
            if taken:
                for some in _batches(taken):
                    some = await _converted(resource, some, options.selection)
                    if lines := b"".join(_lines(some, options.selection, render)):
                        yield lines
                    del lines
                    if len(taken) > _BATCH:
                        await asyncio.sleep(0)
                continue
            if options.bookmarks:
                yield bookmark(events.revision, {})
            if loop.time() >= deadline:
                return
            timer = _nudge_later(loop, events, options, deadline)
    except StopAsyncIteration:
        return
    finally:
        timer.cancel()


def _batches(found: Sequence[_Found]) -> Iterator[Sequence[_Found]]:
    """Yields small batches, so that other tasks can run in between."""
    return (found[start : start + _BATCH] for start in range(0, len(found), _BATCH))


def _nudge_later(
    loop: asyncio.AbstractEventLoop, events: Watch, options: WatchOptions, deadline: float
) -> asyncio.TimerHandle:
    left = deadline - loop.time()
    return loop.call_later(min(left, BOOKMARK_SECONDS) if options.bookmarks else left, events.nudge)


async def _converted(resource: Resource, events: Sequence[Event], selection: Selection) -> Sequence[Event]:
    """Returns events with converted objects; the previous objects only if a selection needs them."""
    if not resource.converts:
        return events
    now = await converted(resource, [event.record for event in events])
    before = [] if selection.everything else [event.previous for event in events if event.previous is not None]
    found = {(record.key, record.revision): record for record in await converted(resource, before)}
    made = []
    for event, record in zip(events, now, strict=True):
        previous = event.previous and found.get((event.previous.key, event.previous.revision))
        made.append(Event(event.type, record, previous))
    return made


def _lines(
    events: Iterable[Event], selection: Selection, render: Callable[[EventType, Record], bytes]
) -> Iterator[bytes]:
    if selection.everything:
        return (render(event.type, event.record) for event in events)
    return (render(*seen) for event in events if (seen := _as_seen(event, selection)) is not None)


def _as_seen(event: Event, selection: Selection) -> tuple[EventType, Record] | None:
    """Returns an event of the store as a watcher with this selection sees it; None if it sees nothing."""
    before = event.previous is not None and selection.matches(event.previous.value)
    now = event.type is not EventType.DELETED and selection.matches(event.record.value)
    if now:
        return (EventType.MODIFIED if before else EventType.ADDED), event.record
    if not before:
        return None
    if event.type is EventType.DELETED or event.previous is None:
        return EventType.DELETED, event.record
    # The last form that matched, with the revision at which it no longer matched.
    obj = documents.decode(event.previous.value)
    obj["metadata"]["resourceVersion"] = str(event.record.revision)
    return EventType.DELETED, Record(
        event.record.key, documents.encode(obj), event.record.created, event.record.revision
    )


def _renderer(context: Context, resource: Resource, form: Form, include: str) -> Callable[[EventType, Record], bytes]:
    if form is not Form.TABLE:
        return lambda kind, record: (
            b"%b%b}\n" % (_PREFIXES[kind], representations.one(resource, record.value, form, ""))
        )
    first = True

    def render_table(kind: EventType, record: Record) -> bytes:
        nonlocal first
        obj = resource.read(record.value)
        head = {"resourceVersion": str(record.revision)}
        document = representations.table(resource, [obj], head, context.now(), include, headless=not first)
        first = False
        return b"%b%b}\n" % (_PREFIXES[kind], documents.encode(document))

    return render_table


def _bookmarks(resource: Resource, form: Form) -> _Bookmark:
    """Returns a function that makes bookmarks in the form of the other events."""

    def bookmark(revision: int, annotations: Object) -> bytes:
        metadata: Object = {"resourceVersion": str(revision), "creationTimestamp": None}
        if annotations:
            metadata["annotations"] = annotations
        shown: Object = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": metadata}
        if form is Form.METADATA:
            shown = representations.partial(shown)
        elif form is Form.TABLE:
            shown = representations.bookmark_table(resource, shown)
        return documents.encode({"type": "BOOKMARK", "object": shown}) + b"\n"

    return bookmark


def _gone(revision: int) -> bytes:
    return _error(status.expired(f"too old resource version: {revision}"))


def _error(error: status.ApiError) -> bytes:
    return documents.encode({"type": "ERROR", "object": error.document}) + b"\n"
