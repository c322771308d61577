"""The tour of `make demo`, and that the README shows what it prints."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def steady(text: str) -> str:
    """Without what differs from one run or machine to the next: generated names, ports, times, CPUs, the host."""
    text = re.sub(r"(-devices)-[bcdfghjklmnpqrstvwxz2456789]{5}\b", r"\1-*****", text)
    text = re.sub(r"MIG-[0-9a-f-]{36}", "MIG-*", text)
    text = re.sub(r"(Cpus_allowed_list:)\s*\d+", r"\1 *", text)
    text = re.sub(rf"\b({re.escape(socket.gethostname().lower())}|vm)\b", "HOST", text)
    return re.sub(r"ready in \d+\.\d s at https://127\.0\.0\.1:\d+", "ready", text)


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="two pods with a CPU each need two")
def test_the_readme_shows_what_the_demo_prints() -> None:
    # As anybody who has no kubectl.
    environment = {**os.environ, "PATH": "/nowhere:/bin:/usr/bin"}
    command = [sys.executable, "examples/demo.py"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=150)
    assert done.returncode == 0, done.stdout + done.stderr
    # A machine that is busy with other things lets the event loop stand still, which is said and no fault.
    assert not [line for line in done.stderr.splitlines() if "the event loop stood still" not in line]
    printed = steady(done.stdout)
    readme = (ROOT / "README.md").read_text()
    demo = readme.partition("## The demo")[2].partition("\n## ")[0]
    blocks = re.findall(r"```\n(.*?)\n```", demo, re.DOTALL)
    assert len(blocks) == 5
    for block in blocks:
        assert steady(block) in printed


def test_every_manifest_of_the_demo_and_the_lab_is_good() -> None:
    program = "from dray.cli import main; main()"
    demo = sorted(map(str, (ROOT / "examples/demo").glob("[1-9]-*.yaml")))
    ignored = ("--ignore", "missing-class")
    for paths in (("examples/lab", "examples/claims"), (*ignored, *demo)):
        command = [sys.executable, "-c", program, "lint", *paths]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        assert re.fullmatch(r"nothing found in \d+ objects\n", done.stdout), done.stdout
