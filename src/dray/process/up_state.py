"""The state of a running `dray up`: a file in its data directory, and one in a directory of the user.

`dray status` and `dray down` read the first, which stays when the cluster has ended: its pods may still run. Commands
that are given no kubeconfig look for the second. A file of a cluster that was killed is recognized by the process: a
later process of the same number started at another moment.
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
    """Start time of the process, as the kernel counts it."""
    since: str
    """The same for people."""
    url: str
    kubeconfig: str
    nodes: tuple[UpNode, ...] = ()
    """Nodes that run on this machine."""
    keeps_pods: bool = True
    """Whether pods go on running when the cluster ends."""


def default_data() -> Path:
    """Returns the default data directory of a background cluster."""
    home = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(home).expanduser() / "dray"


def running_directory() -> Path:
    """Returns the directory that lists the running clusters of the user."""
    home = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(home).expanduser() / "dray/running"


def read(data: Path) -> UpState | None:
    """Returns the state of the cluster that runs with this directory; None if none does."""
    state = last(data)
    return state if state is not None and is_running(state) else None


def last(data: Path) -> UpState | None:
    """Returns the state of the cluster that ran with this directory last, whether it still runs or not."""
    return _read(data / _FILE)


def running() -> list[UpState]:
    """Returns the clusters of this user that run on this machine."""
    try:
        files = sorted(running_directory().glob("*.json"))
    except OSError:
        return []
    states = [state for file in files if (state := _read(file)) is not None]
    return [state for state in states if is_running(state)]


def _read(path: Path) -> UpState | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=UpState)
    except (OSError, msgspec.DecodeError):
        return None


def is_running(state: UpState) -> bool:
    return started_at(state.pid) == state.started


@contextmanager
def kept(data: Path | None, state: UpState) -> Iterator[None]:
    """Writes the state for as long as the block lasts; a data directory keeps it afterwards."""
    listed = running_directory() / f"{state.pid}.json"
    if data is not None:
        _write(data / _FILE, state)
    # A user without a home directory that can be written to names the kubeconfig with each command.
    with suppress(OSError):
        listed.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _write(listed, state)
    try:
        yield
    finally:
        with suppress(OSError):
            listed.unlink()


def _write(path: Path, state: UpState) -> None:
    made = path.with_suffix(".new")
    made.write_bytes(msgspec.json.encode(state))
    made.rename(path)
