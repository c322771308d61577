"""A driver in a process of its own, in whatever language: started, killed, frozen and started again.

Its output goes to a file, and the end of it into every complaint about the process.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_PATIENCE: Final = 10.0
_SHOWN: Final = 4000


class DriverProcess:
    """A driver process; `environment` is added to that of this process."""

    def __init__(self, command: Sequence[str | Path], log: Path, environment: Mapping[str, str] | None = None) -> None:
        self._command = [str(word) for word in command]
        self._environment = {**os.environ, **(environment or {})}
        self.log = log
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        return self._running.pid

    @property
    def is_alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> DriverProcess:
        assert not self.is_alive, f"{self} runs already"
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                self._command, env=self._environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )
        return self

    def kill(self) -> None:
        """Kills the driver with SIGKILL: its sockets and files stay."""
        self._running.kill()
        self._running.wait()

    def stop(self, within: float = _PATIENCE) -> int:
        """Ends the driver with SIGTERM, as a kubelet does with a driver's pod. Returns its exit status."""
        self._running.terminate()
        try:
            return self._running.wait(within)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"{self} did not end within {within:g} s of SIGTERM\n{self.output()}") from None

    def restart(self) -> None:
        """Kills the driver and starts it again."""
        if self.is_alive:
            self.kill()
        self.start()

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Suspends the driver within the block: its sockets accept connections, but it does not answer."""
        self._running.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._running.send_signal(signal.SIGCONT)

    def output(self) -> str:
        """Returns the end of the driver's output."""
        return self.log.read_text(errors="replace")[-_SHOWN:] if self.log.exists() else ""

    def close(self) -> None:
        if self.is_alive:
            self.kill()

    @property
    def _running(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, f"{self} was never started"
        return self._process

    def __str__(self) -> str:
        return f"driver process {' '.join(self._command)}"
