"""A simulated fleet as a process of its own, started by `dray up --fleet`: see `dray.control_plane.child`.

It is neither in the server nor with scheduler and controllers: thousands of pods that start and end at the same moment
would make every request, or every decision, wait for their statuses. As a process it competes with them for a core
alone, and when it ends or hangs, the cluster notices what it would notice of nodes: that nothing happens on them.
"""

from __future__ import annotations

import logging
import pickle
import signal
import socket
import sys
from typing import TYPE_CHECKING

from dray.cli import child_process
from dray.cli.serving import log_to_stderr, run

if TYPE_CHECKING:
    from dray.client.api import ApiClient
    from dray.control_plane.child import Child
    from dray.fleet.choice import Chosen

_logger = logging.getLogger("dray.fleet")


def child(chosen: Chosen) -> Child:
    from dray.control_plane.child import Child

    return Child(("-c", f"from {__name__} import main; main()"), pickle.dumps(chosen), called="fleet")


def main() -> None:
    log_to_stderr()
    # An interrupt from the keyboard reaches both processes; the other one ends this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    chosen = pickle.load(sys.stdin.buffer)
    end = socket.socket(fileno=int(sys.argv[1]))
    sys.exit(run(_run(chosen, end)))


async def _run(chosen: Chosen, end: socket.socket) -> int:
    from dray.fleet.simulation import Simulation

    made: list[Simulation] = []

    def make(client: ApiClient) -> Simulation:
        made.append(Simulation(client, chosen))
        return made[0]

    return await child_process.work(make, end, _logger, lambda: made[0].published)
