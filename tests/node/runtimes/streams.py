"""The other end of exec and attach, and what logs hold."""

import asyncio
from pathlib import Path


class Recorder:
    """Streams that keep what they get."""

    def __init__(self, *inputs: bytes, ends: bool = True) -> None:
        self.outputs = {1: b"", 2: b""}
        self._inputs = list(inputs)
        self._ends = ends
        self.resizes: asyncio.Queue[tuple[int, int]] = asyncio.Queue()
        self.changed = asyncio.Event()

    async def output(self, stream: int, data: bytes) -> None:
        self.outputs[stream] += data
        self.changed.set()

    async def read_input(self) -> bytes:
        if self._inputs:
            return self._inputs.pop(0)
        if not self._ends:
            await asyncio.Event().wait()
        return b""

    async def until(self, text: bytes) -> None:
        while text not in self.outputs[1] + self.outputs[2]:
            self.changed.clear()
            async with asyncio.timeout(20):
                await self.changed.wait()


def lines(path: Path) -> list[tuple[str, str, str]]:
    """Of a log: stream, tag, text."""
    found = []
    for line in path.read_text().splitlines():
        _, stream, tag, text = line.split(" ", 3)
        found.append((stream, tag, text))
    return found


def said(path: Path) -> list[str]:
    return [text for _, _, text in lines(path)]


async def until_said(path: Path, text: str) -> None:
    async with asyncio.timeout(20):
        while not path.exists() or text not in said(path):
            await asyncio.sleep(0.05)
