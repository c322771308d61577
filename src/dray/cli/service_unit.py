"""systemd unit of a cluster: its text, and where systemd looks for it."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

MARK: Final = "# Written by dray service install; dray service remove deletes it."
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,100}")
SYSTEM: Final = Path("/etc/systemd/system")
_PLAIN: Final = re.compile(r"[A-Za-z0-9_@+=:,./-]+")
_TEXT: Final = """\
{mark}
[Unit]
Description=dray cluster in {data}
Documentation=https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/
Wants=network-online.target
After=network-online.target nvidia-persistenced.service

[Service]
Type=exec
ExecStart={command}
Environment={path}
Restart=on-failure
RestartSec=5
TimeoutStopSec=90
# Pods keep running while the cluster restarts; dray down --pods ends them.
KillMode=process
# A pod that runs out of memory does not end the cluster.
OOMPolicy=continue
LimitNOFILE=65536
TasksMax=infinity

[Install]
WantedBy={target}
"""


@dataclass(frozen=True, slots=True)
class ServiceUnit:
    """`for_user` is a service of the user that installs it, without root."""

    name: str
    for_user: bool

    @property
    def path(self) -> Path:
        if not self.for_user:
            return SYSTEM / f"{self.name}.service"
        home = Path(os.environ.get("XDG_CONFIG_HOME") or "~/.config").expanduser()
        return home / "systemd/user" / f"{self.name}.service"

    def systemctl(self, *arguments: str) -> list[str]:
        return ["systemctl", *(("--user",) if self.for_user else ()), *arguments]

    def text(self, data: Path, options: Sequence[str]) -> str:
        """Returns the unit that runs `dray up` with these options."""
        command = [program(), "up", "--data", str(data), *options]
        return _TEXT.format(
            mark=MARK,
            data=str(data).replace("%", "%%"),
            command=" ".join(map(quoted, command)),
            # Pods that are processes look for programs there.
            path=quoted(f"PATH={os.environ.get('PATH', os.defpath)}"),
            target="default.target" if self.for_user else "multi-user.target",
        )


def program() -> str:
    """Returns the absolute path of the command dray of this installation."""
    beside = Path(sys.executable).with_name("dray")
    return str(beside) if beside.exists() else os.path.abspath(shutil.which("dray") or sys.argv[0])


def quoted(word: str) -> str:
    """Returns a word as a command line in a unit has it: specifiers and variables are not expanded."""
    if _PLAIN.fullmatch(word):
        return word
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{escaped}"'
