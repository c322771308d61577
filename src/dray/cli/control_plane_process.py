"""The control plane as a process of its own, started by `dray up`: see `dray.control_plane.child`."""

from __future__ import annotations

import logging
import os
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from dray.cli import child_process
from dray.cli.metrics import MetricsAddress, MetricsError, serving_metrics
from dray.cli.part_logs import CONTROLLER_MANAGER, SCHEDULER, PartLogs

if TYPE_CHECKING:
    from dray.api.gates import FeatureGates
    from dray.control_plane.child import Child
    from dray.control_plane.control_plane import ControlPlane, PlaneOptions
    from dray.controllers.notifications.options import NotificationOptions
    from dray.process.loop_watch import Stall

# Nothing takes as long; what does has no end.
_HUNG: Final = 20.0
_HUNG_STATUS: Final = 70
_SCHEDULER_LOGGER: Final = "dray.scheduler"
_logger = logging.getLogger("dray.control_plane")


@dataclass(frozen=True, slots=True)
class Orders:
    """Command-line options for the control plane; the child process derives the rest from them."""

    scheduler: dict[str, Any]
    """Arguments of `scheduler_options`."""
    controllers: tuple[str, ...]
    gates: FeatureGates
    metrics: MetricsAddress
    notifications: NotificationOptions
    logs: PartLogs | None = None
    """Log files of scheduler and controllers."""

    def options(self) -> PlaneOptions:
        from dray.cli.components import scheduler_options
        from dray.control_plane.control_plane import PlaneOptions

        return PlaneOptions(
            scheduler_options(**self.scheduler, gates=self.gates),
            self.controllers,
            gates=self.gates,
            notifications=self.notifications,
        )


def child() -> Child:
    return child_process.child(__name__, "control plane")


def main(end: int) -> None:
    child_process.main(_run, end, name="dray control", load=_load)


def _load() -> None:
    import dray.control_plane.control_plane  # noqa: F401


async def _run(orders: Orders, end: socket.socket) -> int:
    from dray.client.api import ApiClient
    from dray.client.link import LinkTransport
    from dray.control_plane.child import Report
    from dray.control_plane.control_plane import ControlPlane

    if orders.logs is not None:
        orders.logs.open(SCHEDULER, [_SCHEDULER_LOGGER])
        orders.logs.open(CONTROLLER_MANAGER, but=_SCHEDULER_LOGGER)
    transport = await LinkTransport.connect(end)
    plane = ControlPlane(ApiClient(transport), orders.options())
    plane.watch.limit(_HUNG, _end)
    logging.getLogger(_SCHEDULER_LOGGER).info("places the pods of %s", orders.scheduler["scheduler_name"])
    _logger.info("runs the controllers %s", ", ".join(orders.controllers))
    try:
        async with serving_metrics(orders.metrics, plane.metrics, plane.obstacles, plane.plugins) as url:
            return await child_process.until_stopped(plane, _report(plane, url), transport, _logger)
    except MetricsError as error:
        child_process.tell(Report(refused=str(error)))
        await transport.close()
        return 2


async def _report(plane: ControlPlane, metrics: str) -> None:
    from dray.control_plane.child import Report
    from dray.process.memory import collect_rarely

    await plane.ready.wait()
    collect_rarely()
    ready = True
    with plane.watch.watching():
        while True:
            plane.changed.clear()
            child_process.tell(
                Report(ready, metrics, {part.name: part.problem for part in plane.parts}, plane.plugins())
            )
            ready = False
            await plane.changed.wait()


def _end(stall: Stall) -> None:
    """In a thread: the loop does not come back."""
    _logger.critical("the control plane is stopped, because its event loop was blocked for %s", stall)
    os._exit(_HUNG_STATUS)
