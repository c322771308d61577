"""The node agents of this machine as a process of their own, started by `dray up`: busy pods slow nobody."""

from __future__ import annotations

import logging
import socket
from typing import TYPE_CHECKING

from dray.cli import child_process
from dray.cli.machine import MachineOptions, Machines, load, quiet_grpc

if TYPE_CHECKING:
    from dray.control_plane.child import Child


def child() -> Child:
    return child_process.child(__name__, "node")


def main(end: int) -> None:
    quiet_grpc()
    child_process.main(_run, end, name="dray node", load=load)


async def _run(options: list[MachineOptions], end: socket.socket) -> int:
    return await child_process.work(lambda client: Machines(client, options), end, logging.getLogger("dray.node"))
