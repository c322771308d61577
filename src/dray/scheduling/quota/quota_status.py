"""The status of a pod whose queue lacks quota on a node."""

from __future__ import annotations

from dray.scheduling.model.reasons import Code, Reason
from dray.scheduling.model.status import Status
from dray.scheduling.quota.queue_policy import PLUGIN


def quota_status(reason: Reason) -> Status:
    """Returns the status for one node. If no flavor of the queue has the node, removing pods from it does not help."""
    return Status(PLUGIN, (reason,), resolvable=reason.code is not Code.NO_FLAVOR)
