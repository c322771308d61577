"""Following: one pod from waiting to its end, as `dray run` and `dray attach` show it.

It prints what the pod waits for, copies the output of its command, connects this process's input where that is asked
for, and returns the exit status.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from dray.answers.explaining.pod_progress import (
    cannot_start,
    exit_status,
    has_started,
    is_unschedulable,
    termination_cause,
    waits_for,
)
from dray.api.objects import status_of
from dray.api.pods import is_terminal
from dray.cli.attachment import Attachment, path_of
from dray.cli.pod_log import PodLog
from dray.client.errors import ApiError
from dray.process.tasks import end_tasks

if TYPE_CHECKING:
    from dray.cli.cluster import Cluster
    from dray.cli.pod_watch import PodWatch
    from dray.cli.status_line import StatusLine

GAVE_UP: Final = 124
CANNOT_START: Final = 127
SIGNALLED: Final = 128


@dataclass(frozen=True, slots=True)
class Streams:
    """Says whether the input of this process, and a terminal, are connected to the container."""

    input: bool = False
    terminal: bool = False


@dataclass(eq=False, slots=True)
class Following:
    cluster: Cluster
    watch: PodWatch
    line: StatusLine
    container: str
    streams: Streams = Streams()
    leaves_on: frozenset[int] = frozenset({signal.SIGHUP, signal.SIGPIPE})
    """Signals at which this process leaves at once; at others it waits for the pod to end."""
    signals: list[int] = field(default_factory=list)
    """Signals that arrived; SIGPIPE if nobody reads this process's output any more."""
    is_abandoned: bool = False
    """Whether the process leaves although the pod is there, since it could not be deleted."""

    async def until_started(self, timeout: float | None) -> bool:
        """Returns False if the pod did not start in time; with 0, if the scheduler refused it."""
        watch, impatient = self.watch, timeout == 0

        def decided() -> bool:
            if not (watch.gone or has_started(watch.pod) or self.signals):
                passing = not (is_unschedulable(watch.pod) or watch.warning)
                self.line.show(f"{watch.name}: {waits_for(watch.pod, watch.warning)}", passing=passing)
            refused = impatient and is_unschedulable(watch.pod)
            return watch.gone or has_started(watch.pod) or cannot_start(watch.pod) or refused or self.left

        try:
            async with asyncio.timeout(timeout or None):
                await watch.until(decided)
        except TimeoutError:
            reason = waits_for(watch.pod, watch.warning)
            self.line.say(f"{watch.name}: gave up after {timeout:g} s: {reason}")
            return False
        if impatient and is_unschedulable(watch.pod):
            self.line.say(f"{watch.name}: {waits_for(watch.pod)}")
            return False
        return not (self.signals and (watch.gone or self.left))

    async def until_ended(self) -> int:
        """Copies the output until the command has ended; returns its exit status."""
        watch = self.watch
        if cannot_start(watch.pod):
            self.line.say(f"{watch.name}: {waits_for(watch.pod, watch.warning)}")
            return CANNOT_START
        if not watch.gone:
            await self._copy()
            await watch.until(lambda: watch.gone or is_terminal(watch.pod) or self.left)
        if self.signals:
            return SIGNALLED + self.signals[0]
        why = termination_cause(watch.pod)
        if why:
            self.line.say(f"{watch.name}: {why}")
        # A pod that was deleted while its command ran has no exit status.
        return exit_status(watch.pod) or (1 if watch.gone and not is_terminal(watch.pod) else 0)

    @property
    def left(self) -> bool:
        return self.is_abandoned or any(number in self.leaves_on for number in self.signals)

    def abandon(self) -> None:
        self.is_abandoned = True
        self.watch.stir()

    def signalled(self, number: int) -> None:
        self.signals.append(number)
        self.watch.stir()

    async def _copy(self) -> None:
        if not status_of(self.watch.pod).get("containerStatuses"):
            return
        copying = asyncio.create_task(self._copy_output())
        leaving = asyncio.create_task(self.watch.until(lambda: self.left))
        try:
            await asyncio.wait((copying, leaving), return_when=asyncio.FIRST_COMPLETED)
        finally:
            await end_tasks((copying, leaving))
        if copying.done() and not copying.cancelled():
            copying.result()

    async def _copy_output(self) -> None:
        path = path_of(self.watch.namespace, self.watch.name)
        attachment = Attachment(self.cluster, path, self.container, terminal=self.streams.terminal)
        if self.streams.terminal:
            await attachment.run()
            return
        async with attachment.connected() if self.streams.input else contextlib.nullcontext():
            await self._copy_log()

    async def _copy_log(self) -> None:
        log = PodLog(self.cluster.client, self.watch.namespace, self.watch.name, self.container, self._say_lost)
        try:
            await log.copy()
            if log.unread:
                # The process ends as a program of a shell does whose reader has left.
                self.signalled(signal.SIGPIPE)
        except ApiError as error:
            if not self.watch.gone and not self.signals:
                self.line.say(f"{self.watch.name}: its output cannot be read: {error}")

    def _say_lost(self) -> None:
        if not self.signals:
            self.line.say(f"{self.watch.name}: the connection to the server is lost; trying to connect again")


@contextlib.contextmanager
def handling(numbers: Iterable[int], handler: Callable[[int], None]) -> Iterator[None]:
    """Calls the handler with the number of a signal that arrives meanwhile."""
    loop = asyncio.get_running_loop()
    for number in numbers:
        loop.add_signal_handler(number, handler, number)
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)
