"""dray: Dynamic Resource Allocation, the Kubernetes API for claiming devices, in Python."""

__version__ = "0.1.0"
