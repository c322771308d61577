"""Descriptors that the event loop owns are closed once, whichever loop it is."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import pytest

from dray.process.descriptors import LoopPipe


def loops() -> list[Any]:
    try:
        import uvloop
    except ImportError:
        return [asyncio.run]
    return [asyncio.run, uvloop.run]


@pytest.mark.parametrize("loop", loops())
def test_a_file_with_the_number_of_a_closed_pipe_stays_open(loop: Any) -> None:
    """A thread may open a file at the moment between the closing of the descriptor and the end of the transport."""
    reused: list[int] = []

    class Watched(LoopPipe):
        def close(self) -> None:
            try:
                os.fstat(self.fileno())
            except OSError:
                # The loop has closed it: the next file that is opened gets the number.
                reused.append(os.open(os.devnull, os.O_RDONLY))
                assert reused == [self.fileno()]
            super().close()

    async def read() -> None:
        ours, theirs = os.pipe()
        os.write(theirs, b"text")
        os.close(theirs)
        reader = asyncio.StreamReader()
        protocol = asyncio.StreamReaderProtocol(reader)
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, Watched(ours))
        assert await reader.read() == b"text"
        transport.close()
        for _ in range(10):
            await asyncio.sleep(0)
        if reused:
            os.close(ours)
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(ours)

    loop(read())
