"""SYSTEMS: the queue systems of the scheduler. A new system is added here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from dray.scheduling.quota.kai import queue as kai
from dray.scheduling.quota.kai.policy import KaiQueues
from dray.scheduling.quota.kueue import kinds as kueue
from dray.scheduling.quota.kueue.policy import KueueQueues
from dray.scheduling.quota.queue_context import QueueContext
from dray.scheduling.quota.queue_policy import QueuePolicy

SYSTEMS: tuple[Callable[[QueueContext], QueuePolicy], ...] = (KueueQueues, KaiQueues)
"""The factories of the systems. If a pod names queues of several systems, the first system decides."""
NAMED_KINDS: Final = {kueue.QUEUE_LABEL: ("LocalQueue", "ClusterQueue"), kai.QUEUE_LABEL: (kai.KIND,)}
"""The kinds of objects that a pod with a label names."""
