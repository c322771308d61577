"""Shim server: forks the shim of each container, so that the interpreter is loaded once and its memory shared.

A shim of its own took 5.5 MB and 30 ms of computing. The server reads the directory of a container from its standard
input, a socket, with two open files: the lock of the directory, and a pipe on which the shim tells how it went. It
ends when the agent closes its end; the shims go on.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import socket

from dray.node.runtimes.shim import system
from dray.node.runtimes.shim.supervisor import Supervisor

_LONGEST_PATH = 4096


def main() -> None:
    # Files that the agent has open, such as connections to the API server, must not reach a container.
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    end = socket.socket(fileno=os.dup(0))
    if os.fork():
        os._exit(0)
    # A new session: the agent does not have to wait for this process.
    os.setsid()
    system.name_process("dray-shims")
    _forget(0)
    # Objects that are loaded now stay shared: the garbage collector of a shim does not touch them.
    gc.collect()
    gc.freeze()
    # Nothing waits for shims that end.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        message, files, _, _ = socket.recv_fds(end, _LONGEST_PATH, 2)
        if not message:
            return
        if os.fork() == 0:
            end.close()
            _supervise(os.fsdecode(message), *files)
        for file in files:
            os.close(file)


def _supervise(directory: str, lock: int, told: int) -> None:
    """Becomes the shim and never returns. The shim keeps the lock open; the container does not inherit it."""
    code = 1
    try:
        os.setsid()
        system.name_process("dray-shim")
        os.set_inheritable(lock, False)
        os.dup2(told, 1)
        os.close(told)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.chdir(directory)
        with open("spec.json") as file:
            spec = json.load(file)
        code = Supervisor(spec).run()
    finally:
        os._exit(code)


def _forget(descriptor: int) -> None:
    null = os.open("/dev/null", os.O_RDWR)
    os.dup2(null, descriptor)
    os.close(null)
