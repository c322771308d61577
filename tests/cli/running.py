"""Commands that run until they are told to stop, as processes of their own."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

PATIENCE = 90.0
DRAY = (sys.executable, "-c", "from dray.cli import main; main()")


class Running:
    """What it says about errors goes to `log` where one is given; `prefix` stands in front of the command."""

    def __init__(
        self, *arguments: str, cwd: Path | None = None, log: IO[str] | None = None, prefix: tuple[str, ...] = ()
    ) -> None:
        environment = {name: value for name, value in os.environ.items() if name != "KUBECONFIG"}
        self.process = subprocess.Popen(
            [*prefix, *DRAY, *arguments],
            stdout=subprocess.PIPE,
            stderr=log or subprocess.PIPE,
            text=True,
            cwd=cwd,
            env={**environment, "PYTHONUNBUFFERED": "1"},
        )

    def line(self) -> str:
        """The next line of its output; empty when there will be no more."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().rstrip("\n")

    def stop(self, number: int = signal.SIGTERM) -> tuple[int, float]:
        """Its status, and the seconds it took."""
        began = time.monotonic()
        self.process.send_signal(number)
        return self.process.wait(PATIENCE), time.monotonic() - began

    def end(self) -> tuple[int, str]:
        """The status with which it ended by itself, and what it said about that."""
        _, said = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, said


@contextlib.contextmanager
def running(*arguments: str, cwd: Path | None = None) -> Iterator[Running]:
    started = Running(*arguments, cwd=cwd)
    try:
        yield started
    finally:
        if started.process.poll() is None:
            started.process.kill()
        started.process.communicate()


def eventually(question: Callable[[], Any]) -> Any:
    """What the question gives once that is something."""
    end = time.monotonic() + PATIENCE
    while not (answer := question()):
        assert time.monotonic() < end, f"still {answer!r}"
        time.sleep(0.05)
    return answer
