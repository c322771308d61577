"""What ends an attempt: Kubernetes gives up on the pod, not only on the node."""

from __future__ import annotations


class AllocationError(Exception):
    """The claims cannot be judged: an expression failed, a class is missing, a pool is unfinished."""
