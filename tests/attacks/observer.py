"""Observers of a server, in processes of their own, so that the attacker's work does not delay what they measure.

A measurement that has not ended when the observer is stopped counts with the time it has taken so far. What the
cluster and the observer waited for a CPU meanwhile is taken off: that is the time other work on the machine took.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NoReturn

from tests.attacks.processes import Starvation, tree
from tests.cli.running import PATIENCE


@dataclass
class Report:
    """What an observer saw: how many measurements, the longest in seconds and when it ended, and what failed."""

    measured: int = 0
    longest: float = 0.0
    """Without the time in which there was no CPU."""
    when: str = ""
    by_the_clock: float = 0.0
    """The longest with it."""
    failures: list[str] = field(default_factory=list)

    def add(self, seconds: float, starved: float) -> None:
        self.measured += 1
        self.by_the_clock = max(self.by_the_clock, seconds)
        if seconds - starved > self.longest:
            self.longest, self.when = seconds - starved, time.strftime("%H:%M:%S")

    def failed(self, error: Exception, seconds: float) -> None:
        if len(self.failures) < 20:
            self.failures.append(f"after {seconds:.2f} s: {error!r}")


class Observer:
    """A module of this package that observes the server at a URL, with the process `pid`, until it is stopped."""

    module: str

    def __init__(self, url: str, pid: int) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", self.module, url, str(pid)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        self._first = self._process.stdout.readline()

    def stop(self) -> Report:
        self._process.send_signal(signal.SIGTERM)
        said, complaints = self._process.communicate(timeout=PATIENCE)
        assert self._process.returncode == 0, f"{self.module}: {self._first}{said}{complaints}"
        return Report(**json.loads(said))


class Probe(Observer):
    """Asks /livez and /readyz, again and again."""

    module = "tests.attacks.probe"


class Canary(Observer):
    """Creates small pods, one after the other, without and with a claim, and waits for each to be bound."""

    module = "tests.attacks.canary"


class Stopped(BaseException):
    pass


class Measurement:
    """Begins when it is made."""

    def __init__(self, pids: list[int]) -> None:
        """Of what these processes and the present one do."""
        self._starvation = Starvation([*pids, os.getpid()])
        self._began = time.monotonic()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began

    @property
    def starved(self) -> float:
        return self._starvation.seconds


def observe(
    measure: Callable[[], object], pid: int, *, pause: float, after: Callable[[], object] = lambda: None
) -> None:
    """Measures until SIGTERM, then prints the report; what happens after a measurement is not part of it."""

    def stop(*_: object) -> NoReturn:
        raise Stopped

    report = Report()
    current: Measurement | None = None
    signal.signal(signal.SIGTERM, stop)
    print("observing", flush=True)
    try:
        while True:
            current = Measurement(tree(pid))
            try:
                measure()
            except Exception as error:
                report.failed(error, current.seconds)
            report.add(current.seconds, current.starved)
            current = None
            try:
                after()
            except Exception as error:
                report.failed(error, 0.0)
            time.sleep(pause)
    except Stopped:
        if current is not None:
            report.add(current.seconds, current.starved)
    print(json.dumps(vars(report)), flush=True)
