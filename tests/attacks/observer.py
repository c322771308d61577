"""Observers of a server, in processes of their own, so that the attacker's work does not delay what they measure.

A measurement that has not ended when the observer is stopped counts with the time it has taken so far.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NoReturn

from tests.cli.running import PATIENCE


@dataclass
class Report:
    """What an observer saw: how many measurements, the longest in seconds and when it ended, and what failed."""

    measured: int = 0
    longest: float = 0.0
    when: str = ""
    failures: list[str] = field(default_factory=list)

    def add(self, seconds: float) -> None:
        self.measured += 1
        if seconds > self.longest:
            self.longest, self.when = seconds, time.strftime("%H:%M:%S")

    def failed(self, error: Exception, seconds: float) -> None:
        if len(self.failures) < 20:
            self.failures.append(f"after {seconds:.2f} s: {error!r}")


class Observer:
    """A module of this package that observes the server at a URL until it is stopped."""

    module: str

    def __init__(self, url: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", self.module, url], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        self._first = self._process.stdout.readline()

    def stop(self) -> Report:
        self._process.send_signal(signal.SIGTERM)
        said, complaints = self._process.communicate(timeout=PATIENCE)
        assert self._process.returncode == 0, f"{self.module}: {self._first}{said}{complaints}"
        return Report(**json.loads(said))


class Probe(Observer):
    """Asks /readyz, again and again."""

    module = "tests.attacks.probe"


class Canary(Observer):
    """Creates small pods, one after the other, without and with a claim, and waits for each to be bound."""

    module = "tests.attacks.canary"


class Stopped(BaseException):
    pass


def observe(measure: Callable[[], object], *, pause: float, after: Callable[[], object] = lambda: None) -> None:
    """Measures until SIGTERM, then prints the report; what happens after a measurement is not part of it."""

    def stop(*_: object) -> NoReturn:
        raise Stopped

    report = Report()
    began: float | None = None
    signal.signal(signal.SIGTERM, stop)
    print("observing", flush=True)
    try:
        while True:
            began = time.monotonic()
            try:
                measure()
            except Exception as error:
                report.failed(error, time.monotonic() - began)
            report.add(time.monotonic() - began)
            began = None
            try:
                after()
            except Exception as error:
                report.failed(error, 0.0)
            time.sleep(pause)
    except Stopped:
        if began is not None:
            report.add(time.monotonic() - began)
    print(json.dumps(vars(report)), flush=True)
