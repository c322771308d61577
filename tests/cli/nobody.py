"""Commands of a user who is not root, in a directory of this user."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import dray
from tests.cli.running import PATIENCE

NOBODY = 65534


@dataclass(frozen=True)
class Nobody:
    folder: Path
    program: tuple[str, ...]
    """The command `dray`, with an interpreter that this user may run."""
    options: dict[str, Any]
    """Arguments of `subprocess.Popen`."""

    def own(self, path: Path) -> None:
        """Gives the files in a directory to this user."""
        for found in (path, *path.rglob("*")):
            os.chown(found, NOBODY, NOBODY, follow_symlinks=False)

    @contextlib.contextmanager
    def running(self, *arguments: str, **environment: str) -> Iterator[subprocess.Popen[str]]:
        options = {**self.options, "env": {**self.options["env"], **environment}}
        command = [*self.program, *arguments]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
        try:
            yield process
        finally:
            process.terminate()
            process.communicate(timeout=PATIENCE)


@contextlib.contextmanager
def nobody() -> Iterator[Nobody]:
    """Skips the test if this user cannot be had."""
    if os.geteuid() != 0:
        pytest.skip("only root starts processes of other users")
    own = f"python{sys.version_info.major}.{sys.version_info.minor}"
    packages = ":".join(
        [str(Path(dray.__file__).parent.parent), *(each for each in sys.path if "site-packages" in each)]
    )
    folder = Path(tempfile.mkdtemp(prefix="dray-"))
    os.chown(folder, NOBODY, NOBODY)
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "PYTHONPATH": packages, "PYTHONUNBUFFERED": "1"}
    options: dict[str, Any] = {"user": NOBODY, "group": NOBODY, "extra_groups": [], "cwd": folder, "env": environment}
    try:
        for python in (sys.executable, f"/usr/bin/{own}"):
            with contextlib.suppress(OSError):
                trial = [python, "-c", "import dray.cli"]
                if subprocess.run(trial, check=False, stderr=subprocess.DEVNULL, **options).returncode == 0:
                    yield Nobody(folder, (python, "-c", "from dray.cli import main; main()"), options)
                    return
        pytest.skip("no interpreter that nobody may run")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def needs_user_namespaces() -> None:
    trial = subprocess.run(["unshare", "-Um", "true"], user=NOBODY, group=NOBODY, check=False, capture_output=True)
    if trial.returncode:
        pytest.skip("this user may make no user namespaces")


def ready(process: subprocess.Popen[str]) -> list[str]:
    """Returns the lines that `dray up` prints until it is ready."""
    lines = []
    assert process.stdout is not None
    while not (line := process.stdout.readline()).startswith("export "):
        assert line, lines
        lines.append(line.rstrip("\n"))
    return lines


def address(lines: list[str]) -> str:
    return next(word for word in " ".join(lines).split() if word.startswith("http://"))
