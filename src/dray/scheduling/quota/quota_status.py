"""The status that pods get from the queue of which they lack quota."""

from __future__ import annotations

from dray.scheduling.model.reasons import Code, Reason
from dray.scheduling.model.status import Status
from dray.scheduling.quota.queue_policy import PLUGIN


def quota_status(reason: Reason) -> Status:
    """On one node. A node of no flavor of the queue helps as little when pods leave it."""
    return Status(PLUGIN, (reason,), resolvable=reason.code is not Code.NO_FLAVOR)
