"""KAI as a queue system of the loop."""

from __future__ import annotations

from typing import Final

from dray.client.foreign_kinds import KAI_GROUP, KAI_QUEUE, KAI_TOPOLOGY
from dray.scheduling.attempts.group_events import PRIORITY_CLASS
from dray.scheduling_loop.queue_systems.kai_feed import KaiFeed
from dray.scheduling_loop.queue_systems.kai_groups import KaiGroups
from dray.scheduling_loop.queue_systems.optional_kind import OptionalKind, foreign
from dray.scheduling_loop.queue_systems.queue_system import QueueSystem

SYSTEM: Final = QueueSystem(
    KAI_QUEUE.group,
    "KAI",
    queues=KAI_QUEUE,
    kinds={
        PRIORITY_CLASS: OptionalKind("scheduling.k8s.io", "priorityclasses", beside=KAI_GROUP),
        f"{KAI_TOPOLOGY.kind}.{KAI_TOPOLOGY.group}": foreign(KAI_TOPOLOGY),
        KAI_QUEUE.kind: foreign(KAI_QUEUE, KAI_QUEUE, quiet=True),
    },
    queue_kinds=frozenset((KAI_QUEUE.kind,)),
    groups=KAI_GROUP,
    feeds=(KaiFeed, KaiGroups),
)
