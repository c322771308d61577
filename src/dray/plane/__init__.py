"""The control plane: scheduler and controllers on one connection to an API server, sharing what they watch."""

from dray.plane.plane import ControlPlane, Lease, PlaneOptions

__all__ = ["ControlPlane", "Lease", "PlaneOptions"]
