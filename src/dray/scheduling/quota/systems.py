"""The queue systems that the scheduler knows. A system is listed here, and named nowhere else in the scheduler."""

from __future__ import annotations

from collections.abc import Callable

from dray.scheduling.quota.kai.policy import KaiQueues
from dray.scheduling.quota.kueue.policy import KueueQueues
from dray.scheduling.quota.queue_context import QueueContext
from dray.scheduling.quota.queue_policy import QueuePolicy

SYSTEMS: tuple[Callable[[QueueContext], QueuePolicy], ...] = (KueueQueues, KaiQueues)
"""What makes each system. Of several that a pod names the first one decides."""
