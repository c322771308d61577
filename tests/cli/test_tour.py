"""The tour of `make demo`, and that the README shows what it prints."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def steady(text: str) -> str:
    """Without what differs from one run to the next: generated names, ports, and how long it took."""
    text = re.sub(r"(-devices)-[bcdfghjklmnpqrstvwxz2456789]{5}\b", r"\1-*****", text)
    return re.sub(r"ready in \d+\.\d s at https://127\.0\.0\.1:\d+", "ready", text)


def test_the_readme_shows_what_the_tour_prints() -> None:
    command = [sys.executable, "examples/tour.py"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=90)
    assert done.returncode == 0, done.stdout + done.stderr
    # A machine that is busy with other things lets the event loop stand still, which is said and no fault.
    assert not [line for line in done.stderr.splitlines() if "the event loop stood still" not in line]
    printed = steady(done.stdout)
    readme = (ROOT / "README.md").read_text()
    demo = readme.partition("`make demo` starts")[2].partition("\n## ")[0]
    blocks = re.findall(r"```\n(.*?)\n```", demo, re.DOTALL)
    assert len(blocks) == 5
    for block in blocks:
        assert steady(block) in printed


def test_every_manifest_of_the_tour_is_good() -> None:
    program = "from dray.cli import main; main()"
    command = [sys.executable, "-c", program, "lint", "examples/lab", "examples/tour"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.stdout == "nothing found in 33 objects\n"
