"""Takes samples of the model for as long as the process runs, also while nobody looks.

A sample is made in a thread, every ten seconds, or less often where it takes long: at most a hundredth of the time is
spent on it. While somebody looks, the objects are those of the model, and events are noted as they come. Otherwise the
cluster is listed for each sample, so that a page at which nobody looks costs the server no memory and no work for each
change.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from heapq import nlargest
from typing import Final

from dray.api.objects import Object, key_of, mapping, text, uid_of
from dray.client.cache import Change
from dray.client.errors import ClientError
from dray.process.tasks import end_tasks
from dray.web.devices.known_layouts import KnownLayouts
from dray.web.history.excerpts import EXCERPTS
from dray.web.history.measures import KINDS, Idle, Measured, measure
from dray.web.history.samples import Samples
from dray.web.model import Model

_FIRST: Final = 5.0
STEP: Final = 10.0
"""Seconds between two samples, if they do not take long."""
_SHARE: Final = 100
_LONGEST_STEP: Final = 300.0
_MOST_EVENTS: Final = 500
_MOST_TEXT: Final = 300
"""Letters of each text that are kept of an event: whoever may write events may write a megabyte."""
_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Mark:
    """An event on the time axis."""

    uid: str
    namespace: str
    time: str
    type: str
    reason: str
    about: str
    message: str

    def document(self) -> Object:
        return {
            "time": self.time,
            "type": self.type,
            "reason": self.reason,
            "about": self.about,
            "message": self.message,
        }


@dataclass(slots=True)
class History:
    samples: Samples = field(default_factory=Samples)
    marks: deque[Mark] = field(default_factory=lambda: deque(maxlen=_MOST_EVENTS))
    idle: tuple[Idle, ...] = ()
    since: float = 0.0
    """When recording began, in seconds since 1970; 0 if it did not."""

    def take(self, measured: Measured, now: float) -> None:
        self.since = self.since or now
        self.samples.add(now, measured.sample)
        self.idle = measured.idle

    def merge(self, marks: Iterable[Mark]) -> None:
        """Takes the newest of events that were listed in any order."""
        known = {mark.uid: mark for mark in (*self.marks, *marks)}
        newest = nlargest(_MOST_EVENTS, known.values(), key=lambda mark: mark.time)
        self.marks = deque(reversed(newest), maxlen=_MOST_EVENTS)

    def note(self, event: Object) -> None:
        """An event that happens again counts once, with its newest time."""
        mark = mark_of(event)
        if mark is None or (self.marks and self.marks[-1] == mark):
            return
        known = next((each for each in self.marks if each.uid == mark.uid), None)
        if known is not None:
            self.marks.remove(known)
        self.marks.append(mark)


def mark_of(event: Object) -> Mark | None:
    times = ("lastTimestamp", "eventTime", "firstTimestamp")
    when = next((text(event.get(name)) for name in times if event.get(name)), "")
    about = mapping(event.get("involvedObject") or event.get("regarding"))
    if not when:
        return None
    name = "/".join(filter(None, (text(about.get("namespace")), text(about.get("name")))))
    about_text = f"{text(about.get('kind'))} {name}".strip()
    message = text(event.get("message") or event.get("note"))
    texts = (when, text(event.get("type")), text(event.get("reason")), about_text, message)
    return Mark(uid_of(event), key_of(event)[0], *(each[:_MOST_TEXT] for each in texts))


class Recorder:
    def __init__(
        self, model: Model, history: History, layouts: KnownLayouts, *, clock: Callable[[], float] = time.time
    ) -> None:
        self._model = model
        self._history = history
        self._layouts = layouts
        self._clock = clock

    def take(self, kind: str, change: Change) -> None:
        if kind == "events" and change.type != "DELETED":
            self._history.note(change.object)

    async def run(self) -> None:
        # An event that a viewer's visit brings into the model before the first sample counts too.
        self._model.listen(self.take)
        try:
            # A server that starts has enough to do.
            await asyncio.sleep(_FIRST)
            while True:
                spent = 0.0
                try:
                    spent = await self.sample()
                except ClientError as error:
                    _logger.debug("no sample for the history of the page: %s", error)
                except Exception:
                    _logger.exception("no sample for the history of the page")
                await asyncio.sleep(min(max(STEP, _SHARE * spent), _LONGEST_STEP))
        finally:
            self._model.forget(self.take)

    async def sample(self) -> float:
        """Returns about how many seconds of a processor it took to make."""
        if self._model.is_watched:
            await self._model.need((*KINDS, "events"))
        # The last viewer may have gone meanwhile.
        if self._model.is_watched:
            reading = 0.0
            objects = {kind: list(self._model.table(kind)) for kind in KINDS}
        else:
            began = time.monotonic()
            objects = {kind: [cut(each) async for each in self._model.read(kind)] for kind, cut in EXCERPTS.items()}
            self._history.merge([mark async for each in self._model.read("events") if (mark := mark_of(each))])
            reading = time.monotonic() - began
        now = self._clock()
        # Excerpts have no attributes to lay out devices by; layouts without a viewer would only take memory.
        laid_out = () if reading else objects["slices"]
        measured, spent = await asyncio.to_thread(self._measure, objects, laid_out, now)
        self._history.take(measured, now)
        return reading + spent

    def _measure(
        self, objects: Mapping[str, Sequence[Object]], laid_out: Iterable[Object], now: float
    ) -> tuple[Measured, float]:
        began = time.thread_time()
        found = measure(objects, now)
        self._layouts.renew(laid_out)
        return found, time.thread_time() - began


@asynccontextmanager
async def recording(model: Model, history: History, layouts: KnownLayouts) -> AsyncIterator[None]:
    task = asyncio.create_task(Recorder(model, history, layouts).run(), name="page: history")
    try:
        yield
    finally:
        await end_tasks([task])
