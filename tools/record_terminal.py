"""Records a terminal session of dray as an animated SVG: python tools/record_terminal.py docs/session.svg

The commands run for real, one after the other, in an empty home directory; what they print is what the picture shows.
`dray up` also gets `--port 0`, so that it does not disturb a cluster that already runs. Paths in the temporary home
directory are shown as paths in ~. Each line appears when it was printed; waits are shortened to LONGEST_WAIT. The
picture needs no script: CSS shows the lines one by one, and a viewer without CSS animation shows all of them.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from html import escape
from pathlib import Path

COMMANDS = (
    "dray up --simulate p4d.24xlarge --detach",
    "dray run --gpu 2 --match pcieRoot -- nvidia-smi -L",
    "dray run --gpu 4 --detach --name training -- sleep 600",
    "dray top",
    "dray run --gpu 6 --timeout 0 -- nvidia-smi",
    "dray down --pods",
)
COLUMNS = 136
LONGEST_WAIT = 1.5
TYPING = 0.9
CHARACTER, LINE, MARGIN = 7.25, 18, 16


@dataclass(frozen=True)
class Line:
    """A line of the terminal and the second at which it appears."""

    text: str
    at: float
    is_command: bool = False


def record(commands: tuple[str, ...] = COMMANDS) -> list[Line]:
    """Runs the commands; raises RuntimeError if `dray up` or `dray down` fails."""
    lines: list[Line] = []
    clock = 0.0
    with tempfile.TemporaryDirectory() as home:
        environment = {**os.environ, "HOME": home, "COLUMNS": str(COLUMNS), "XDG_DATA_HOME": f"{home}/.local/share"}
        environment.pop("KUBECONFIG", None)
        for command in commands:
            lines.append(Line(f"$ {command}", clock, is_command=True))
            clock += TYPING
            for text, waited in _run(command, home, environment):
                clock += min(waited, LONGEST_WAIT)
                lines += [Line(part, clock) for part in _folded(text.replace(home, "~"))]
            clock += TYPING
    return lines


def _run(command: str, home: str, environment: dict[str, str]) -> list[tuple[str, float]]:
    """Returns the lines that the command printed, each with the seconds since the one before."""
    words = [sys.executable, "-c", "from dray.cli import main; main(prog_name='dray')", *shlex.split(command)[1:]]
    if words[3] == "up":
        words += ["--port", "0"]
    process = subprocess.Popen(
        words, cwd=home, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    assert process.stdout is not None
    printed, last = [], time.monotonic()
    for line in process.stdout:
        now = time.monotonic()
        printed.append((line.rstrip("\n"), now - last))
        last = now
    if process.wait() and words[3] in ("up", "down"):
        raise RuntimeError(f"{command} ended with status {process.returncode}: {printed}")
    return printed


def _folded(text: str) -> list[str]:
    """Breaks a line as a terminal of COLUMNS columns does."""
    return [text[start : start + COLUMNS] for start in range(0, max(len(text), 1), COLUMNS)]


def as_svg(lines: list[Line]) -> str:
    width = round(COLUMNS * CHARACTER + 2 * MARGIN)
    height = len(lines) * LINE + 2 * MARGIN
    rows = [
        f'<text x="{MARGIN}" y="{MARGIN + LINE * number + 13}" class="{"c" if line.is_command else "o"}" '
        f'style="animation-delay:{line.at:.1f}s">{escape(line.text)}</text>'
        for number, line in enumerate(lines)
    ]
    size = f'width="{width}" height="{height}"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} viewBox="0 0 {width} {height}" xml:space="preserve">',
            "<style>",
            "text { font: 12px ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace; white-space: pre;",
            "  animation: appear 0.01s backwards; }",
            ".c { fill: #8ab4f8; font-weight: bold; } .o { fill: #e8eaed; }",
            "@keyframes appear { from { visibility: hidden; } to { visibility: visible; } }",
            "</style>",
            f'<rect {size} rx="8" fill="#202124"/>',
            *rows,
            "</svg>\n",
        ]
    )


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(as_svg(record()))
