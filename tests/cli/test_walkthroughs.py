"""docs/walkthroughs.md: every command that the page shows is run as written, against the `dray up` that it starts with.

Names of pods and claims are generated, so a name on the page stands for the pod with the same beginning. The outputs
of the first three walk-throughs come from pods that run as processes: these are run once more on such machines.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import PATIENCE, eventually

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/walkthroughs.md").read_text()
SECTIONS = dict(re.findall(r"^## (\d) [^\n]*\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL))
PODS = {"1": 2, "2": 2, "3": 3, "4": 2, "5": 3, "6": 3, "7": 2}
"""How many pods each walk-through starts."""
UPS = re.findall(r"dray up --data d [^\n`]*", PAGE)
_POD = re.compile(r"\b([a-z][a-z0-9-]*)-[0-9a-f]{8,10}-[a-z0-9]{5}\b")
_CHANGING = re.compile(
    r"\b([a-z][a-z0-9-]*)-[0-9a-f]{8,10}-[a-z0-9]{5}(-[a-z]+-[a-z0-9]{5})?\b|\d+\.\d+\.\d+\.\d+|\b\d+s\b"
)


def commands(number: str) -> list[tuple[str, str]]:
    """Commands of a walk-through, with what the page shows of their output."""
    blocks = re.findall(r"^```\n(\$ .*?)^```$", SECTIONS[number], re.MULTILINE | re.DOTALL)
    parts = [part for block in blocks for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]]
    return [(command, output) for command, _, output in (part.partition("\n") for part in parts)]


class Walker:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "examples").symlink_to(ROOT / "examples")
        tools = folder / "bin"
        tools.mkdir()
        for name, words in {"dray": "-c 'from dray.cli import main; main()'", "python": ""}.items():
            (tools / name).write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {words} "$@"\n')
            (tools / name).chmod(0o755)
        path = f"{tools}:{os.environ['PATH']}"
        # The commands find the running cluster by themselves.
        self._environment = {"PATH": path, "HOME": str(folder)}
        self._background: list[subprocess.Popen[str]] = []

    def start(self, command: str) -> None:
        self._background.append(
            subprocess.Popen(["sh", "-c", f"exec env {command}"], cwd=self.folder, env=self._environment, text=True)
        )

    def run(self, command: str) -> str:
        done = subprocess.run(
            ["sh", "-c", command],
            cwd=self.folder,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        return done.stdout

    def pods(self) -> list[dict[str, Any]]:
        return list(json.loads(self.run("dray get pods -o json"))["items"])

    def until_running(self, count: int) -> None:
        eventually(lambda: [pod["status"].get("phase") for pod in self.pods()] == ["Running"] * count)

    def spellings(self, command: str) -> list[str]:
        """Returns the command with the names that pods have here: once for each pod that the name may stand for."""
        shown = _POD.search(command)
        if shown is None:
            return [command]
        names = [str(pod["metadata"]["name"]) for pod in self.pods()]
        return [command.replace(shown[0], name) for name in names if _POD.sub(r"\1", name) == shown[1]]

    def prints(self, command: str, output: str) -> bool:
        """Returns whether the command prints the lines that the page shows, for one of the pods."""
        wanted = [steady(line) for line in output.splitlines()]
        for spelling in self.spellings(command):
            said = [steady(line) for line in self.run(spelling).splitlines()]
            if all(line in said for line in wanted):
                return True
        return False

    def end(self) -> None:
        for process in self._background:
            process.send_signal(signal.SIGTERM)
        for process in self._background:
            process.wait(PATIENCE)


@pytest.fixture
def walker(tmp_path: Path) -> Iterator[Walker]:
    made = Walker(tmp_path)
    yield made
    made.end()
    made.run("dray down --pods --data d 2>&1 || true")


def steady(line: str) -> list[str]:
    """Returns the words of a line without what differs from run to run."""
    return _CHANGING.sub(r"\1", line).split()


def follow(walker: Walker, numbers: str, *, has_logs: bool) -> int:
    """Runs the commands of these walk-throughs and waits for the output of the page; returns the number of pods."""
    pods = 0
    for number in numbers:
        pods += PODS[number]
        for command, output in commands(number):
            if command.endswith(" &"):
                walker.start(command.removesuffix(" &"))
            elif command.startswith("dray apply"):
                said = walker.run(command)
                assert not output or said == output
            elif has_logs or not command.startswith("dray logs"):
                walker.until_running(pods)
                eventually(lambda: walker.prints(command, output))  # noqa: B023
        walker.until_running(pods)
    return pods


def test_every_walk_through_runs_as_it_is_written(walker: Walker) -> None:
    walker.start(f"{UPS[0]} --port 0 --plain")
    eventually(lambda: (walker.folder / "d/up.json").exists())
    assert sorted(SECTIONS) == sorted(PODS)
    pods = follow(walker, "".join(sorted(SECTIONS)), has_logs=False)
    # As the page says of the seventh.
    images = [str(pod["spec"]["containers"][0]["image"]) for pod in walker.pods()]
    assert sorted(image for image in images if "server" in image) == [
        "example.com/server:cpu",
        "example.com/server:gpu",
    ]
    # Clean up, as the page says at its beginning.
    walker.run("dray delete -f examples/walkthroughs/1-time-slicing/time-slicing.yaml")
    eventually(lambda: len(walker.pods()) == pods - PODS["1"])


def test_outputs_of_pods_that_run_as_processes(walker: Walker) -> None:
    walker.start(f"{UPS[1]} --port 0 --plain")
    eventually(lambda: (walker.folder / "d/up.json").exists())
    follow(walker, "123", has_logs=True)
