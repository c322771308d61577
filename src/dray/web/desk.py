"""Desk: has heavy questions of viewers answered by processes beside the server, few at a time and not for ever.

A question is answered from what its viewer may list. A viewer has one question worked on at a time, and few that wait.
A process that takes too long is ended; one that has nothing to do for a while ends.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from dray.client.errors import ApiError
from dray.snapshot.in_memory import stored
from dray.snapshot.taking import take
from dray.web.access import Identity
from dray.web.answerer import LENGTH_BYTES, Answered, Asked, encoded, frame, too_little
from dray.web.turns import Turns
from dray.web.view import BadCall

# -P: modules of the current directory are not for it.
_COMMAND: Final = ("-P", "-c", "from dray.web.answerer import main; main()")
_IDLE_SECONDS: Final = 300.0
_TOGETHER_SECONDS: Final = 0.05
"""Questions that come so shortly one after the other are about the same cluster."""
_MOST_ANSWER: Final = 16 * 2**20
_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DeskLimits:
    processes: int = 2
    questions_of_viewer: int = 4
    """Of one user, at work and waiting."""
    seconds: float = 45.0
    """For one answer, from when it is worked on."""


class Desk:
    def __init__(self, limits: DeskLimits | None = None) -> None:
        self._limits = limits or DeskLimits()
        self._turns = Turns(self._limits.processes)
        self._idle: list[_Answerer] = []
        self._clusters: dict[str, tuple[float, bytes]] = {}
        self._ending: asyncio.TimerHandle | None = None

    async def ask(self, viewer: Identity, question: str, arguments: dict[str, Any]) -> Any:
        """Raises BadCall with a text for the viewer, and ClientError."""
        key, came = viewer.key, time.monotonic()
        if self._turns.asked(key) >= self._limits.questions_of_viewer:
            raise BadCall("you have asked much at once; wait for the answers, then ask again")
        try:
            async with self._turns.turn(key):
                return await self._answer(Asked(question, arguments, await self._cluster(viewer, came)))
        finally:
            if not self._turns.asked(key):
                self._clusters.pop(key, None)

    async def close(self) -> None:
        if self._ending is not None:
            self._ending.cancel()
        idle, self._idle = self._idle, []
        self._clusters.clear()
        for each in idle:
            await each.end()

    async def _cluster(self, viewer: Identity, came: float) -> bytes:
        """What the viewer may list since the question came; questions often come in pairs."""
        now = time.monotonic()
        kept = self._clusters.get(viewer.key)
        if kept is not None and kept[0] >= came - _TOGETHER_SECONDS:
            return kept[1]
        try:
            taken = await take(viewer.client, time.time(), "default")
        except ApiError as error:
            if not error.is_forbidden:
                raise
            raise BadCall(too_little(error)) from None
        data = await asyncio.to_thread(lambda: encoded(stored(taken)))
        self._clusters[viewer.key] = now, data
        return data

    async def _answer(self, asked: Asked) -> Any:
        answerer = self._idle.pop() if self._idle else await _Answerer.start()
        try:
            async with asyncio.timeout(self._limits.seconds):
                found = await answerer.ask(asked)
        except TimeoutError:
            await answerer.end()
            raise BadCall(
                f"no answer within {self._limits.seconds:.0f} s: the cluster is large or busy; try again later"
            ) from None
        except (OSError, asyncio.IncompleteReadError, msgspec.MsgspecError):
            await answerer.end()
            _logger.error("the process that answers %s failed", asked.question)
            raise BadCall("this question could not be answered; the log of the server says why") from None
        except BaseException:
            # The viewer has left: the answer would be taken for that to the next question.
            await answerer.end()
            raise
        self._idle.append(answerer)
        self._end_later()
        if found.problem:
            raise BadCall(found.problem)
        return found.answer

    def _end_later(self) -> None:
        if self._ending is not None:
            self._ending.cancel()
        self._ending = asyncio.get_running_loop().call_later(_IDLE_SECONDS, self._end_idle)

    def _end_idle(self) -> None:
        idle, self._idle = self._idle, []
        for each in idle:
            each.leave()


class _Answerer:
    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._process = process
        self._input, self._output = process.stdin, process.stdout

    @classmethod
    async def start(cls) -> _Answerer:
        pipe = asyncio.subprocess.PIPE
        return cls(await asyncio.create_subprocess_exec(sys.executable, *_COMMAND, stdin=pipe, stdout=pipe))

    async def ask(self, asked: Asked) -> Answered:
        self._input.write(frame(asked))
        await self._input.drain()
        length = int.from_bytes(await self._output.readexactly(LENGTH_BYTES))
        if length > _MOST_ANSWER:
            raise OSError("the answer is too long")
        return msgspec.msgpack.decode(await self._output.readexactly(length), type=Answered)

    def leave(self) -> None:
        """It ends by itself when its input does."""
        self._input.close()

    async def end(self) -> None:
        with suppress(ProcessLookupError):
            self._process.kill()
        self._input.close()
        await self._process.wait()
