"""Container as podman describes it: its state in the words of the contract, and where its parts are. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from signal import SIGTERM, Signals
from typing import Any, Final

from dray.node.cgroups import cgroup_at
from dray.node.runtimes.interface import ContainerState
from dray.node.runtimes.podman import labels

SCHEME: Final = "podman://"
_RUNNING: Final = ("running", "paused", "stopping")
_ENDED: Final = ("stopped", "exited")
# Exit code of a container that ran when the machine or its conmon went down: its own is unknown.
_LOST: Final = 255


@dataclass(frozen=True, slots=True)
class FoundContainer:
    """A container as podman reports it.

    `pid` is its first process and `monitor` its conmon, both 0 once it has ended; `sockets` is the directory of
    conmon's sockets. `directory` is the container's own, where conmon writes a file named oom when memory runs out.
    """

    state: ContainerState
    pid: int
    monitor: int
    sockets: Path
    directory: Path
    cgroup: str
    log_path: Path
    stop_signal: int
    tty: bool
    stdin_once: bool
    shares_cpus: bool = False
    """True if the container has no claimed CPUs, and runs on the shared CPUs."""

    @property
    def id(self) -> str:
        """Returns the container id that podman uses."""
        return self.state.id.removeprefix(SCHEME)

    def processes(self) -> set[int]:
        """Returns the processes in its control group; empty if podman reports no group of its own."""
        return cgroup_at(self.cgroup).members() if self.id in self.cgroup else set()


def found_container(inspected: dict[str, Any], image_id: str = "") -> FoundContainer | None:
    """Reads the output of `podman inspect`; returns None for a container that was made and never started."""
    state, config = inspected["State"], inspected["Config"]
    started_at = _seconds(state["StartedAt"])
    ended = state["Status"] not in _RUNNING
    if ended and not started_at:
        return None
    given = config["Labels"]
    seen = state["Status"] in _ENDED and state["ExitCode"] >= 0
    return FoundContainer(
        ContainerState(
            SCHEME + str(inspected["Id"]),
            str(given[labels.POD_UID]),
            str(given[labels.CONTAINER]),
            int(given[labels.ATTEMPT]),
            started_at,
            # Podman notes the start of a short run after its end.
            max(_seconds(state["FinishedAt"]), started_at) if ended else 0.0,
            (int(state["ExitCode"]) if seen else _LOST) if ended else None,
            oom_killed=ended and bool(state.get("OOMKilled")),
            image=str(inspected.get("ImageName") or ""),
            image_id=image_id or f"sha256:{inspected['Image']}",
        ),
        0 if ended else int(state.get("Pid") or 0),
        0 if ended else int(state.get("ConmonPid") or 0),
        Path(inspected["StaticDir"]),
        Path(given[labels.DIRECTORY]),
        str(state.get("CgroupPath") or ""),
        Path(given[labels.LOG]),
        _signal(config.get("StopSignal")),
        bool(config.get("Tty")),
        given.get(labels.STDIN_ONCE) == "true",
        labels.SHARED_CPUS in given,
    )


def _seconds(text: str) -> float:
    """Parses a time into seconds since the epoch; 0 for the year 1, by which podman means never."""
    return max(datetime.fromisoformat(text).timestamp(), 0.0)


def _signal(given: object) -> int:
    """Returns the number of a signal, given as a number or, since podman 5, as a name."""
    if isinstance(given, int):
        return given or SIGTERM
    text = str(given or "SIGTERM").upper()
    if text.isdigit():
        return int(text)
    name = text if text.startswith("SIG") else f"SIG{text}"
    return Signals[name] if name in Signals.__members__ else SIGTERM
