"""Errors of the scheduler that nobody expected: logged with where they came from once for each cause, and counted.

Each concerns one object. Objects of a watch that cannot be taken in are left out, and an event about them says so.
"""

from __future__ import annotations

import logging
from typing import Final

from prometheus_client import Counter

from dray.allocation.node_selectors import NodeSelectorError
from dray.api.catalogue import KindVersion
from dray.client.cache import Change
from dray.client.events import EventRecorder
from dray.scheduling.faults import text

_MOST_CAUSES: Final = 1000
_logger = logging.getLogger("dray.scheduler")


class Faults:
    def __init__(self, events: EventRecorder, counter: Counter) -> None:
        self._events = events
        self._counter = counter
        self._causes: set[tuple[str, str, int]] = set()

    def report(self, what: str, error: Exception) -> None:
        """`what` was being done when it came up."""
        self._counter.inc()
        cause = _cause(error)
        if cause in self._causes:
            _logger.debug("%s failed again: %s", what, text(error))
            return
        if len(self._causes) < _MOST_CAUSES:
            self._causes.add(cause)
        _logger.error("%s failed; everything else goes on", what, exc_info=error)

    def set_aside(self, resource: KindVersion, change: Change, error: Exception) -> None:
        """The scheduler cannot take in what changed."""
        namespace, name = change.key
        what = f"{resource.kind} {namespace + '/' if namespace else ''}{name}"
        if isinstance(error, NodeSelectorError):
            _logger.warning("%s is left out of account: %s", what, error)
        else:
            self.report(f"reading {what}", error)
        if change.type != "DELETED":
            about = {"apiVersion": resource.api_version, "kind": resource.kind, **change.object}
            message = f"the scheduler cannot read this {resource.kind} and leaves it out of account: {text(error)}"
            self._events.warning(about, "SchedulerError", message, action="Scheduling")


def _cause(error: Exception) -> tuple[str, str, int]:
    """What was raised, and where."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return type(error).__name__, "", 0
    return type(error).__name__, trace.tb_frame.f_code.co_filename, trace.tb_lineno
