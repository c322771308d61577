"""The state of a running `dray up`, in a file of its data directory, for those who ask about it or end it.

It is there while the cluster runs. What a cluster left that was killed is told by the process: another one of the same
number started at another moment.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import msgspec

from dray.process.identity import started_at

_FILE: Final = "up.json"
LOG: Final = "up.log"


class UpNode(msgspec.Struct, frozen=True):
    name: str
    root: str
    runtime: str


class UpState(msgspec.Struct, frozen=True):
    pid: int
    started: str
    """When the process did, as the kernel counts it."""
    since: str
    """The same for people."""
    url: str
    kubeconfig: str
    nodes: tuple[UpNode, ...] = ()
    """That this machine is."""
    keeps_pods: bool = True


def default_data() -> Path:
    """Where a cluster is kept that runs in the background, unless it is told otherwise."""
    home = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(home).expanduser() / "dray"


def read(data: Path) -> UpState | None:
    """Of the cluster that runs with this directory; None where none does."""
    try:
        state = msgspec.json.decode((data / _FILE).read_bytes(), type=UpState)
    except (FileNotFoundError, NotADirectoryError, msgspec.DecodeError):
        return None
    return state if is_running(state) else None


def is_running(state: UpState) -> bool:
    return started_at(state.pid) == state.started


@contextmanager
def kept(data: Path | None, state: UpState) -> Iterator[None]:
    """While the block lasts; without a directory nobody can ask."""
    if data is None:
        yield
        return
    path = data / _FILE
    made = path.with_suffix(".new")
    made.write_bytes(msgspec.json.encode(state))
    made.rename(path)
    try:
        yield
    finally:
        with suppress(OSError):
            path.unlink()
