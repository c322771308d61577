"""A simulated fleet as a process of its own, started by `dray up --fleet`: see `dray.control_plane.child`.

It is neither in the server nor with scheduler and controllers: thousands of pods that start and end at the same moment
would make every request, or every decision, wait for their statuses. As a process it competes with them for a core
alone, and when it ends or hangs, the cluster notices what it would notice of nodes: that nothing happens on them.
"""

from __future__ import annotations

import asyncio
import logging
import pickle
import signal
import socket
import sys
from typing import TYPE_CHECKING

from dray.cli.serving import log_to_stderr, run, stopping

if TYPE_CHECKING:
    from dray.control_plane.child import Child
    from dray.fleet.choice import Chosen
    from dray.fleet.simulation import Simulation

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
    from dray.client.api import ApiClient
    from dray.client.link import LinkTransport
    from dray.fleet.simulation import Simulation

    stop = stopping(signal.SIGTERM)
    transport = await LinkTransport.connect(end)
    simulation = Simulation(ApiClient(transport), chosen)
    try:
        working = asyncio.create_task(simulation.run())
        reporting = asyncio.create_task(_report(simulation))
        waiting = [asyncio.create_task(each.wait()) for each in (stop, transport.lost)]
        await asyncio.wait((working, *waiting), return_when=asyncio.FIRST_COMPLETED)
        for task in (working, reporting, *waiting):
            task.cancel()
        (ended, *_) = await asyncio.gather(working, reporting, *waiting, return_exceptions=True)
    finally:
        await transport.close()
    if isinstance(ended, Exception):
        _logger.error("the fleet failed", exc_info=ended)
        return 1
    return 0


async def _report(simulation: Simulation) -> None:
    import msgspec

    from dray.control_plane.child import Report
    from dray.process.memory import collect_rarely

    await simulation.ready.wait()
    collect_rarely()
    report = Report(ready=True, made=simulation.published)
    sys.stdout.buffer.write(msgspec.json.encode(report) + b"\n")
    sys.stdout.buffer.flush()
