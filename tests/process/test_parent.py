"""Processes that end with their parent, however that ends."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys

import pytest

from dray.process.identity import started_at
from dray.process.parent import maker_of
from tests.cli.running import eventually

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")
CHILD = """
import os, signal, sys, time
from dray.process.parent import die_with_parent
for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
    signal.signal(number, signal.SIG_IGN)
die_with_parent(int(sys.argv[1]))
print(os.getpid(), flush=True)
time.sleep(1000)
"""
PARENT = """
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", sys.argv[1], str(os.getpid())])
time.sleep(1000)
"""


def test_a_child_ends_with_a_parent_that_is_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT, CHILD], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        os.kill(child, signal.SIGSTOP)
        parent.kill()
        parent.wait()
        eventually(lambda: not started_at(child))


def test_a_child_whose_parent_has_ended_before_ends_at_once() -> None:
    with subprocess.Popen(["true"]) as other:
        other.wait()
    ended = subprocess.run([sys.executable, "-c", CHILD, str(other.pid)], capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stdout) == (1, "")


def test_the_maker_of_a_pair_of_sockets_is_known_to_a_child() -> None:
    here, there = socket.socketpair()
    with here, there:
        program = "import socket, sys; from dray.process.parent import maker_of; " + (
            "print(maker_of(socket.socket(fileno=int(sys.argv[1]))))"
        )
        command = [sys.executable, "-c", program, str(there.fileno())]
        told = subprocess.run(command, pass_fds=(there.fileno(),), capture_output=True, text=True, check=True)
        assert int(told.stdout) == maker_of(here) == os.getpid()
