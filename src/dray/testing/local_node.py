"""LocalNode: this machine as a node of a cluster in process, whose pods run as processes.

The node agent is a process of its own, `dray node`, which reaches the cluster over HTTP.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

_PROGRAM: Final = "from dray.cli import main; main()"
_STOP_SECONDS: Final = 30.0


class LocalNode:
    """A node agent, started by its constructor; `stop` ends it. Delete its pods first, or they go on running."""

    def __init__(self, kubeconfig: Path) -> None:
        self.name = socket.gethostname().lower()
        # It holds the sockets of drivers, whose paths must be short.
        self._root = Path(tempfile.mkdtemp(prefix="dray-"))
        self._log = (self._root / "node.log").open("wb")
        options = ("--kubeconfig", str(kubeconfig), "--root", str(self._root / "node"), "--port", "0")
        self._process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, "node", *options], stdout=self._log, stderr=self._log
        )

    def problem(self) -> str:
        """Returns the agent's error output if it has ended; empty while it runs."""
        if self._process.poll() is None:
            return ""
        return (self._root / "node.log").read_text(errors="replace") or f"status {self._process.returncode}"

    def stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()
        shutil.rmtree(self._root, ignore_errors=True)
