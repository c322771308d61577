"""A simulated fleet as a process of its own, started by `dray up --fleet`: see `dray.control_plane.child`.

It is neither in the server nor with scheduler and controllers: thousands of pods that start and end at the same moment
would make every request, or every decision, wait for their statuses. As a process it competes with them for a core
alone, and when it ends or hangs, the cluster notices what it would notice of nodes: that nothing happens on them.
"""

from __future__ import annotations

import logging
import socket
from typing import TYPE_CHECKING

from dray.cli import child_process

if TYPE_CHECKING:
    from dray.client.api import ApiClient
    from dray.control_plane.child import Child
    from dray.fleet.choice import Chosen

_logger = logging.getLogger("dray.fleet")


def child() -> Child:
    return child_process.child(__name__, "fleet")


def main(end: int) -> None:
    child_process.main(_run, end, name="dray fleet", load=_load)


def _load() -> None:
    import dray.fleet.simulation  # noqa: F401


async def _run(chosen: Chosen, end: socket.socket) -> int:
    from dray.fleet.simulation import Simulation

    made: list[Simulation] = []

    def make(client: ApiClient) -> Simulation:
        made.append(Simulation(client, chosen))
        return made[0]

    return await child_process.work(make, end, _logger, lambda: made[0].published)
