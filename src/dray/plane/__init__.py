"""The control plane: scheduler and controllers on one connection to an API server, sharing what they watch."""

from dray.plane.plane import ControlPlane, Lease, PlaneOptions
from dray.scheduler.loop import Sharing

__all__ = ["ControlPlane", "Lease", "PlaneOptions", "Sharing"]
