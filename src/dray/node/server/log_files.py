"""Log files of one run of a container: NAME.log and those that were rotated away, NAME.log.1 and on, read as one.

A file is known by its inode: it gets another name when it is rotated. A follower looks for a newer file before it reads
to the end of its present file, so that no line between them is lost. Files are looked at several times a second while a
client follows; only the piece that is being sent is in memory.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Iterator
from pathlib import Path
from typing import BinaryIO, Final

from dray.node.server.log_entries import LogOptions, Rendering, ends_line
from dray.process.beneath import open_regular

_CHUNK: Final = 64 * 1024
_LOOK_SECONDS: Final = 0.2


class LogFiles:
    def __init__(self, path: Path) -> None:
        self._path = path

    async def read(self, options: LogOptions, ended: Callable[[], bool]) -> AsyncGenerator[bytes, None]:
        """Yields the log to its end; with `follow`, until the run has `ended` and all of its log was read."""
        rendering = Rendering(options)
        current = await asyncio.to_thread(self._first, options.tail)
        try:
            while not rendering.full:
                over = not options.follow or ended()
                newer = self._after(current)
                if current is not None:
                    async for piece in _pieces(current):
                        if made := rendering.render(piece):
                            yield made
                        if rendering.full:
                            return
                if newer is not None:
                    if current is not None:
                        current.close()
                    current = newer
                elif over:
                    return
                else:
                    await asyncio.sleep(_LOOK_SECONDS)
        finally:
            if current is not None:
                current.close()

    def _open(self) -> list[BinaryIO]:
        """Opens all files and returns them oldest first.

        The newest is opened first, so that a file that is rotated meanwhile is met twice and not missed.
        """
        found: dict[int, BinaryIO] = {}
        for path in self._paths():
            try:
                file = open_regular(path)
            except FileNotFoundError:
                continue
            inode = _inode(file)
            if inode in found:
                file.close()
            else:
                found[inode] = file
        return list(reversed(found.values()))

    def _paths(self) -> Iterator[Path]:
        yield self._path
        try:
            names = os.listdir(self._path.parent)
        except FileNotFoundError:
            return
        start = f"{self._path.name}."
        numbers = [name[len(start) :] for name in names if name.startswith(start)]
        for number in sorted(int(number) for number in numbers if number.isascii() and number.isdigit()):
            yield self._path.with_name(f"{start}{number}")

    def _after(self, current: BinaryIO | None) -> BinaryIO | None:
        """Opens the next newer file; the oldest one if the current file is gone."""
        if current is not None and _same(current, self._path):
            return None
        files = self._open()
        inodes = [_inode(file) for file in files]
        at = inodes.index(_inode(current)) + 1 if current is not None and _inode(current) in inodes else 0
        return _keep(files, at)

    def _first(self, tail: int | None) -> BinaryIO | None:
        """Opens the file to begin with, at the offset to begin at."""
        files = self._open()
        if tail is None or not files:
            return _keep(files, 0)
        at, offset = _start_of_tail(files, tail)
        chosen = _keep(files, at)
        if chosen is not None:
            chosen.seek(offset)
        return chosen


def _keep(files: list[BinaryIO], at: int) -> BinaryIO | None:
    for index, file in enumerate(files):
        if index != at:
            file.close()
    return files[at] if at < len(files) else None


def _inode(file: BinaryIO) -> int:
    return os.fstat(file.fileno()).st_ino


def _same(file: BinaryIO, path: Path) -> bool:
    try:
        return path.stat().st_ino == _inode(file)
    except FileNotFoundError:
        # A rotation is in progress: look again later.
        return True


async def _pieces(file: BinaryIO) -> AsyncGenerator[list[bytes], None]:
    """Yields whole entries up to the end of the file; the file stays at the end of the last entry."""
    rest = b""
    while block := file.read(_CHUNK):
        *entries, rest = (rest + block).split(b"\n")
        if entries:
            yield entries
        # Let other tasks run while a long log is read.
        await asyncio.sleep(0)
    if rest:
        file.seek(-len(rest), os.SEEK_CUR)


def _start_of_tail(files: list[BinaryIO], lines: int) -> tuple[int, int]:
    """Returns the index of the file and the offset in it at which the last `lines` lines begin."""
    newest = len(files) - 1
    start = (newest, files[newest].seek(0, os.SEEK_END))
    if lines == 0:
        return start
    counted, last = 0, True
    for index in range(newest, -1, -1):
        for offset, entry in _backwards(files[index]):
            if last or ends_line(entry):
                counted, last = counted + 1, False
                if counted > lines:
                    return start
            start = (index, offset)
    return start


def _backwards(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Yields entries with their offsets, the last one first."""
    at = file.seek(0, os.SEEK_END)
    rest = b""
    while at > 0:
        step = min(_CHUNK, at)
        at = file.seek(at - step)
        block = file.read(step) + rest
        rest, *entries = block.split(b"\n")
        end = at + len(block)
        for entry in reversed(entries):
            begin = end - len(entry)
            if entry:
                yield begin, entry
            end = begin - 1
    if rest:
        yield 0, rest
