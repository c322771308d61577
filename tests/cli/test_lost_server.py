"""`dray run`, `dray attach` and `dray logs -f` whose server was killed: they end with the first signal they get."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from dray.process import up_state
from tests.cli.reboots import kill_all, kill_server
from tests.cli.running import DRAY, PATIENCE, eventually

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
SCRIPT = ("sh", "-c", "echo hi; exec sleep 999")


class Box:
    """One machine whose cluster runs in the background."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "KUBECONFIG": f"{folder}/lab/kubeconfig"}
        self.started: dict[str, subprocess.Popen[str]] = {}

    def dray(self, *arguments: str) -> str:
        done = subprocess.run(
            [*DRAY, *arguments],
            cwd=self.folder,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def start(self, name: str, *arguments: str) -> None:
        """Its standard input stays open."""
        pipe, said = subprocess.PIPE, (self.folder / name).open("w")
        with said:
            self.started[name] = subprocess.Popen(
                [*DRAY, *arguments], env=self._environment, stdin=pipe, stdout=said, stderr=said, text=True
            )

    def said(self, name: str) -> str:
        return (self.folder / name).read_text()

    def end(self, name: str, number: int) -> int:
        self.started[name].send_signal(number)
        return self.started[name].wait(PATIENCE)


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Box]:
    made = Box(tmp_path)
    yield made
    for process in made.started.values():
        process.kill()
        process.communicate()
    state = up_state.last(tmp_path / "lab")
    kill_all(tmp_path, *([state.pid] if state is not None else []))


def test_every_signal_ends_a_command_whose_server_is_gone(box: Box) -> None:
    box.dray("up", "--detach", "--node", "--data", "lab", "--port", "0")
    box.dray("run", "--detach", "--name", "other", "--", *SCRIPT)
    box.start("impatient", "run", "-i", "--name", "impatient", "--", *SCRIPT)
    box.start("waits", "run", "--name", "waits", "--node", "nowhere", "--", *SCRIPT)
    box.start("logs", "logs", "-f", "other")
    for number in SIGNALS:
        box.start(f"run-{number}", "run", "-i", "--name", f"r{number}", "--", *SCRIPT)
        box.start(f"attach-{number}", "attach", "-i", "other")
    eventually(lambda: "nodes are available" in box.said("waits"))
    eventually(lambda: all("hi" in box.said(name) for name in box.started if name != "waits"))
    state = up_state.read(box.folder / "lab")
    assert state is not None

    # A server that accepts connections and does not answer: the third interrupt ends the command.
    os.kill(state.pid, signal.SIGSTOP)
    for count in (1, 2):
        box.started["impatient"].send_signal(signal.SIGINT)
        eventually(lambda: box.said("impatient").count("impatient: interrupted") == count)  # noqa: B023
    assert box.end("impatient", signal.SIGINT) == 130
    assert "impatient: was not deleted and may keep running; `dray attach impatient`" in box.said("impatient")

    kill_server(state.pid)
    # There is no more to print.
    assert box.started["logs"].wait(PATIENCE) == 2
    assert "the server closed the connection" in box.said("logs")
    eventually(lambda: "r15: the connection to the server is lost; trying to connect again" in box.said("run-15"))
    assert box.end("waits", signal.SIGTERM) == 128 + signal.SIGTERM
    for number in SIGNALS:
        assert box.end(f"run-{number}", number) == 128 + number
        said = box.said(f"run-{number}")
        if number == signal.SIGHUP:
            assert f"r{number}: keeps running without this terminal; `dray attach r{number}` follows it" in said
        else:
            assert f"r{number}: cannot be deleted: " in said
            assert f"r{number}: was not deleted and may keep running; `dray attach r{number}` follows it" in said
        assert box.end(f"attach-{number}", number) == 128 + number
        assert "other: keeps running; `dray attach other` follows it again" in box.said(f"attach-{number}")
    assert not any("Traceback" in box.said(name) for name in box.started)
