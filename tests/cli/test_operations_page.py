"""docs/operations.md: every command that the page shows works, and prints what the page says."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs/operations.md"
_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_CHANGING = re.compile(r"\d[\d:.TZ-]*")


def commands() -> list[tuple[str, list[str]]]:
    """Commands of the page in their order, with the lines that they print; none where the page shows none."""
    found: list[tuple[str, list[str]]] = []
    for block in _BLOCK.findall(PAGE.read_text()):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append((line.removeprefix("$ "), []))
            else:
                found[-1][1].append(line)
    return found


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    for data in ("lab", "restored"):
        _run(tmp_path, f"dray down --pods --data {data}")


def _run(home: Path, command: str) -> subprocess.CompletedProcess[str]:
    keep = {name: value for name, value in os.environ.items() if not name.startswith(("XDG_", "KUBECONFIG"))}
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**keep, "HOME": str(home), "USER": "ann", "PATH": path}
    return subprocess.run(
        ["sh", "-c", command], cwd=home, env=environment, capture_output=True, text=True, timeout=120, check=False
    )


def test_commands_of_the_page_work_and_print_what_it_says(home: Path) -> None:
    has_systemd = Path("/run/systemd/system").is_dir()
    all_of_it = commands()
    assert len(all_of_it) > 15
    for command, printed in all_of_it:
        if has_systemd and command.startswith("dray service"):
            # It would change the services of this machine; test_service has these commands.
            continue
        done = _run(home, command)
        # On some machines, such as a container, a check of the machine fails.
        allowed = (0, 1) if command.startswith("dray doctor") else (0,)
        assert done.returncode in allowed, f"{command}\n{done.stdout}{done.stderr}"
        assert "Traceback" not in done.stderr
        if printed:
            assert _same(done.stdout, home) == _same("\n".join(printed) + "\n", home), command


def _same(text: str, home: Path) -> str:
    """Returns the text without what differs from machine to machine."""
    text = text.replace(str(home), "/home/ann").replace(f"node {socket.gethostname().lower()}", "node vm")
    return _CHANGING.sub("0", text)
