"""A `dray up` under attack: a process with data of its own, observed while somebody misuses it.

    def test_it_withstands(tmp_path):
        def attack(cluster):
            cluster.create("/api/v1/namespaces/default/pods", pod)

        withstands(tmp_path, attack)

`withstands` starts a cluster, attacks it with a probe and a canary beside it, and does the same after a restart on the
same data, without the attack. Times are bounded by READYZ and BOUND, without what the cluster waited for a CPU because
other work had them all. Where only they are missed, the whole is tried again, three times at most: a busy machine also
has slow disks and cold caches.
"""

from __future__ import annotations

import contextlib
import json
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.attacks.canary import ROOM
from tests.attacks.observer import Canary, Probe
from tests.attacks.processes import is_running, resident, tree
from tests.attacks.requests import Answer, request
from tests.cli.running import Running, eventually

EXAMPLES = Path(__file__).parents[2] / "examples"
LAB = EXAMPLES / "lab"
# Seconds within which /readyz answers and a canary pod is bound, whatever happens.
READYZ = 1.0
BOUND = 2.0
ATTEMPTS = 3


class TooSlow(AssertionError):
    """A bound in time was missed, and nothing else."""


class Cluster:
    """`dray up` on a folder; the canary's node and devices are always among its manifests."""

    def __init__(self, folder: Path, *manifests: Path, arguments: Sequence[str] = ()) -> None:
        self._folder = folder
        self._arguments = arguments
        room = folder / "canary.json"
        room.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": ROOM}))
        self.url = ""
        self._start(room, *manifests)

    def request(self, method: str, path: str, body: Any = None, **options: Any) -> Answer:
        """Options: headers, timeout."""
        return request(self.url, method, path, body, **options)

    def get(self, path: str) -> Any:
        answer = self.request("GET", path)
        assert answer.status == 200, f"{path}: {answer.status} {answer.body[:1000]!r}"
        return answer.json()

    def create(self, path: str, body: Any) -> Any:
        answer = self.request("POST", path, body)
        assert answer.status == 201, f"{path}: {answer.status} {answer.body[:1000]!r}"
        return answer.json()

    @property
    def pid(self) -> int:
        return self._running.process.pid

    @property
    def alive(self) -> bool:
        return self._running.process.poll() is None

    @property
    def log(self) -> str:
        """What all processes on this data have written to their standard error."""
        return (self._folder / "log").read_text(errors="replace")

    @property
    def memory(self) -> int:
        """The resident bytes of the process and its children."""
        return sum(resident(each) for each in tree(self.pid))

    def stop(self, number: int = signal.SIGTERM) -> None:
        """SIGKILL ends its children as well, as a loss of power would."""
        pids = tree(self.pid)
        if self.alive:
            self._running.stop(number)
        eventually(lambda: not [each for each in pids if is_running(each, number)])
        self._running.process.communicate()

    def restart(self, number: int = signal.SIGTERM) -> None:
        self.stop(number)
        self._start()

    @contextlib.contextmanager
    def undisturbed(self, settle: float = 0.0) -> Iterator[None]:
        """Observes what is done within, and for some seconds after it; raises where others would have noticed it."""
        already = len(self.log)
        probe, canary = Probe(self.url, self.pid), Canary(self.url, self.pid)
        try:
            yield
            time.sleep(settle)
        finally:
            readyz, bound = probe.stop(), canary.stop()
        log = self.log[already:]
        assert self.alive, f"ended with {self._running.process.returncode}: {log[-3000:]}"
        assert "Traceback (most recent call last)" not in log, log[-5000:]
        assert not readyz.failures, (readyz, log[-3000:])
        assert not bound.failures, (bound, log[-3000:])
        if readyz.longest > READYZ or bound.longest > BOUND:
            raise TooSlow(f"/readyz {readyz}, canary {bound}, log: {log[-3000:]}")
        assert readyz.measured
        assert bound.measured

    def _start(self, *manifests: Path) -> None:
        with (self._folder / "log").open("a") as log:
            arguments = ["up", "--port", "0", "--plain", "--data", str(self._folder / "data"), *self._arguments]
            self._running = Running(*arguments, *map(str, manifests), log=log)
        while not (line := self._running.line()).startswith("export "):
            assert line, f"it did not start: {self.log[-3000:]}"
            if line.startswith("ready in "):
                self.url = line.split(" at ")[1].split()[0]


@contextlib.contextmanager
def started(folder: Path, *manifests: Path, arguments: Sequence[str] = ()) -> Iterator[Cluster]:
    """A cluster on a folder that is made for it."""
    folder.mkdir(parents=True, exist_ok=True)
    cluster = Cluster(folder, *manifests, arguments=arguments)
    try:
        yield cluster
    finally:
        cluster.stop(signal.SIGKILL)


def withstands(
    folder: Path,
    attack: Callable[[Cluster], object],
    *manifests: Path,
    settle: float = 1.0,
    arguments: Sequence[str] = (),
) -> None:
    """The attack disturbs nobody, neither when it happens nor after a restart on the data that it left."""

    def attempt(own: Path) -> None:
        with started(own, *manifests or (LAB,), arguments=arguments) as cluster:
            with cluster.undisturbed(settle):
                attack(cluster)
            cluster.restart()
            with cluster.undisturbed(settle):
                pass

    retried(folder, attempt)


def retried(folder: Path, attempt: Callable[[Path], object]) -> None:
    """Makes attempts, each in a folder of its own, until one is not too slow."""
    for number in range(1, ATTEMPTS + 1):
        try:
            attempt(folder / str(number))
        except TooSlow:
            if number == ATTEMPTS:
                raise
        else:
            return
