"""The control plane as a process of its own, started by `dray up`: see `dray.control_plane.child`."""

from __future__ import annotations

import asyncio
import logging
import os
import pickle
import signal
import socket
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from dray.cli.metrics import MetricsAddress, MetricsError, serving_metrics
from dray.cli.part_logs import CONTROLLER_MANAGER, SCHEDULER, PartLogs
from dray.cli.serving import log_to_stderr, run, stopping

if TYPE_CHECKING:
    from dray.api.gates import FeatureGates
    from dray.control_plane.child import Child, Report
    from dray.control_plane.control_plane import ControlPlane, PlaneOptions
    from dray.process.loop_watch import Stall

# Nothing takes as long; what does has no end.
_HUNG: Final = 20.0
_HUNG_STATUS: Final = 70
_SCHEDULER_LOGGER: Final = "dray.scheduler"
_logger = logging.getLogger("dray.control_plane")


@dataclass(frozen=True, slots=True)
class Orders:
    """What was asked on the command line; what follows from it is loaded in the child alone."""

    scheduler: dict[str, Any]
    """What `scheduler_options` takes."""
    controllers: tuple[str, ...]
    gates: FeatureGates
    metrics: MetricsAddress
    logs: PartLogs | None = None
    """Where scheduler and controllers write what they do."""

    def options(self) -> PlaneOptions:
        from dray.cli.components import scheduler_options
        from dray.control_plane.control_plane import PlaneOptions

        return PlaneOptions(scheduler_options(**self.scheduler, gates=self.gates), self.controllers, gates=self.gates)


def child(orders: Orders) -> Child:
    from dray.control_plane.child import Child

    return Child(("-c", f"from {__name__} import main; main()"), pickle.dumps(orders))


def main() -> None:
    log_to_stderr()
    # An interrupt from the keyboard reaches both processes; the other one ends this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    orders = pickle.load(sys.stdin.buffer)
    end = socket.socket(fileno=int(sys.argv[1]))
    if orders.logs is not None:
        orders.logs.open(SCHEDULER, [_SCHEDULER_LOGGER])
        orders.logs.open(CONTROLLER_MANAGER, but=_SCHEDULER_LOGGER)
    sys.exit(run(_run(orders, end)))


async def _run(orders: Orders, end: socket.socket) -> int:
    from dray.client.api import ApiClient
    from dray.client.link import LinkTransport
    from dray.control_plane.child import Report
    from dray.control_plane.control_plane import ControlPlane

    stop = stopping(signal.SIGTERM)
    transport = await LinkTransport.connect(end)
    plane = ControlPlane(ApiClient(transport), orders.options())
    plane.watch.limit(_HUNG, _end)
    logging.getLogger(_SCHEDULER_LOGGER).info("places the pods of %s", orders.scheduler["scheduler_name"])
    _logger.info("runs the controllers %s", ", ".join(orders.controllers))
    try:
        async with serving_metrics(orders.metrics, plane.metrics, plane.obstacles, plane.plugins) as url:
            working = asyncio.create_task(plane.run())
            reporting = asyncio.create_task(_report(plane, url))
            waiting = [asyncio.create_task(each.wait()) for each in (stop, transport.lost)]
            await asyncio.wait((working, *waiting), return_when=asyncio.FIRST_COMPLETED)
            for task in (working, reporting, *waiting):
                task.cancel()
            (ended, *_) = await asyncio.gather(working, reporting, *waiting, return_exceptions=True)
    except MetricsError as error:
        _say(Report(refused=str(error)))
        return 2
    finally:
        await transport.close()
    if isinstance(ended, Exception):
        _logger.error("the control plane failed", exc_info=ended)
        return 1
    return 0


async def _report(plane: ControlPlane, metrics: str) -> None:
    from dray.control_plane.child import Report
    from dray.process.memory import collect_rarely

    await plane.ready.wait()
    collect_rarely()
    ready = True
    with plane.watch.watching():
        while True:
            plane.changed.clear()
            _say(Report(ready, metrics, {part.name: part.problem for part in plane.parts}, plane.plugins()))
            ready = False
            await plane.changed.wait()


def _end(stall: Stall) -> None:
    """In a thread: the loop does not come back."""
    _logger.critical("the control plane is ended, since its event loop computed without a turn for %s", stall)
    os._exit(_HUNG_STATUS)


def _say(report: Report) -> None:
    import msgspec

    sys.stdout.buffer.write(msgspec.json.encode(report) + b"\n")
    sys.stdout.buffer.flush()
