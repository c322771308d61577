"""Kueue as a queue system of the loop."""

from __future__ import annotations

from functools import partial
from typing import Final

from dray.client.foreign_kinds import KUEUE, KUEUE_TOPOLOGY
from dray.scheduling.groups.kueue import TOPOLOGY_KIND
from dray.scheduling.quota.kueue import objects
from dray.scheduling_loop.queue_systems.kueue_feed import KueueFeed
from dray.scheduling_loop.queue_systems.optional_kind import foreign
from dray.scheduling_loop.queue_systems.queue_system import QueueSystem

_QUEUES: Final = KUEUE["ClusterQueue"]

SYSTEM: Final = QueueSystem(
    _QUEUES.group,
    "Kueue",
    queues=_QUEUES,
    kinds={
        TOPOLOGY_KIND: foreign(KUEUE_TOPOLOGY, KUEUE_TOPOLOGY),
        **{
            name: foreign(resource, _QUEUES, quiet=True, ignored=partial(objects.ignored, name))
            for name, resource in KUEUE.items()
        },
    },
    queue_kinds=frozenset(KUEUE),
    groups=KUEUE_TOPOLOGY,
    feeds=(KueueFeed,),
)
