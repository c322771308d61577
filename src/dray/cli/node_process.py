"""The node agents of this machine as a process of their own, started by `dray up`: busy pods slow nobody."""

from __future__ import annotations

import logging
import pickle
import signal
import socket
import sys
from typing import TYPE_CHECKING

from dray.cli import child_process
from dray.cli.machine import MachineOptions, Machines, quiet_grpc
from dray.cli.serving import log_to_stderr, run

if TYPE_CHECKING:
    from dray.control_plane.child import Child


def child(options: list[MachineOptions]) -> Child:
    from dray.control_plane.child import Child

    return Child(("-c", f"from {__name__} import main; main()"), pickle.dumps(options), called="node")


def main() -> None:
    log_to_stderr()
    quiet_grpc()
    # An interrupt from the keyboard reaches both processes; the other one ends this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    options: list[MachineOptions] = pickle.load(sys.stdin.buffer)
    end = socket.socket(fileno=int(sys.argv[1]))
    sys.exit(run(child_process.work(lambda client: Machines(client, options), end, logging.getLogger("dray.node"))))
