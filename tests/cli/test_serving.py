"""What servers print: warnings, and at a terminal only those that somebody can act on."""

from __future__ import annotations

import os
import pty
import subprocess
import sys

import pytest

PROGRAM = """
import logging
from dray.cli.serving import log_to_stderr

log_to_stderr()
logging.getLogger("dray.process.loop").warning("the event loop stood still for 1 s")
logging.getLogger("dray.node").warning("no control groups")
"""


@pytest.mark.parametrize("terminal", [True, False])
def test_a_slow_event_loop_is_noted_in_logs_and_not_at_a_terminal(terminal: bool) -> None:
    ours, theirs = pty.openpty() if terminal else os.pipe()
    subprocess.run([sys.executable, "-c", PROGRAM], stderr=theirs, check=True)
    os.close(theirs)
    said = os.read(ours, 1 << 16).decode()
    os.close(ours)
    assert "no control groups" in said
    assert ("stood still" in said) != terminal
