"""The end of a machine: every process of a cluster is killed at once, as a power failure does."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

from tests.cli.networks import processes_below
from tests.cli.running import eventually


def kill_all(folder: Path, *pids: int) -> None:
    """Kills these processes, those with the folder on their command line (shims), and all that these started."""
    doomed = {*pids, *processes_below(folder)} - {os.getpid()}
    doomed |= set(_below(doomed))
    for pid in doomed:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    eventually(lambda: not any(_is_alive(pid) for pid in doomed))


def kill_server(pid: int) -> None:
    """Kills `dray up` and its parts. The pods go on."""
    parts = {child for child, parent in _parents().items() if parent == pid}
    for each in (pid, *parts):
        with contextlib.suppress(ProcessLookupError):
            os.kill(each, signal.SIGKILL)
    eventually(lambda: not any(_is_alive(each) for each in (pid, *parts)))


def _below(pids: set[int]) -> Iterator[int]:
    parents = _parents()
    for pid in parents:
        ancestor = pid
        while ancestor in parents:
            ancestor = parents[ancestor]
            if ancestor in pids:
                yield pid
                break


def _parents() -> dict[int, int]:
    return {int(path.parent.name): int(words[1]) for path, words in _stats()}


def _is_alive(pid: int) -> bool:
    return any(int(path.parent.name) == pid and words[0] != "Z" for path, words in _stats())


def _stats() -> Iterator[tuple[Path, list[str]]]:
    """Yields what the kernel tells about each process: its state, its parent, and more."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            yield path, path.read_text().rpartition(")")[2].split()
