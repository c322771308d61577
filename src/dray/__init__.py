"""dray: Dynamic Resource Allocation, the Kubernetes API for claiming devices, in Python.

The functions below answer questions about manifests and clusters without a server of dray: docs/python.md. They are
imported when they are used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from dray.answers.allocate import Allocations, allocate
    from dray.answers.cluster import Cluster
    from dray.answers.devices import Devices, devices
    from dray.answers.errors import InvalidInput, NotThere
    from dray.answers.explain import explain
    from dray.answers.explaining.explanations import Explanation
    from dray.answers.lint import Report, lint
    from dray.answers.plan import PlanAnswer, plan
    from dray.answers.queue import QueueTree, queue
    from dray.answers.snapshots import take_snapshot
    from dray.answers.topology import Topology, topology
    from dray.client.errors import ApiError, ClientError

_MODULES: Final = {
    "Allocations": "dray.answers.allocate",
    "ApiError": "dray.client.errors",
    "ClientError": "dray.client.errors",
    "Cluster": "dray.answers.cluster",
    "Devices": "dray.answers.devices",
    "Explanation": "dray.answers.explaining.explanations",
    "InvalidInput": "dray.answers.errors",
    "NotThere": "dray.answers.errors",
    "PlanAnswer": "dray.answers.plan",
    "QueueTree": "dray.answers.queue",
    "Report": "dray.answers.lint",
    "Topology": "dray.answers.topology",
    "allocate": "dray.answers.allocate",
    "devices": "dray.answers.devices",
    "explain": "dray.answers.explain",
    "lint": "dray.answers.lint",
    "plan": "dray.answers.plan",
    "queue": "dray.answers.queue",
    "take_snapshot": "dray.answers.snapshots",
    "topology": "dray.answers.topology",
}

__all__ = [
    "Allocations",
    "ApiError",
    "ClientError",
    "Cluster",
    "Devices",
    "Explanation",
    "InvalidInput",
    "NotThere",
    "PlanAnswer",
    "QueueTree",
    "Report",
    "Topology",
    "allocate",
    "devices",
    "explain",
    "lint",
    "plan",
    "queue",
    "take_snapshot",
    "topology",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'dray' has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return __all__
