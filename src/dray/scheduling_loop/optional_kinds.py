"""Kinds that a server may not have, or not yet, and that the scheduler reads where they are.

They are those of other systems, and those of Kubernetes that not every server has. By some of them another system
decides where it is at work: `kind_owners` tells whether it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from dray.client.foreign_kinds import COMPUTE_CLASS, GROUPS, NODE_POOL
from dray.scheduling.cluster import compute_class
from dray.scheduling.groups import jobs
from dray.scheduling.groups.front_ends import FRONT_ENDS
from dray.scheduling_loop.queue_systems.optional_kind import OptionalKind, foreign
from dray.scheduling_loop.queue_systems.systems import SYSTEMS

QUEUES: Final = {each.queues.kind: each.queues for each in SYSTEMS}
"""The kinds that have quota, by the names under which objects are given to the scheduler."""
QUEUE_KINDS: Final = frozenset(kind for each in SYSTEMS for kind in each.queue_kinds)
"""Names of all kinds that decide on quota."""

KINDS: Final[Mapping[str, OptionalKind]] = {
    "DeviceTaintRule": OptionalKind("resource.k8s.io", "devicetaintrules"),
    **{
        name: OptionalKind(
            front_end.api_group,
            front_end.plural,
            GROUPS.get(name),
            tuple(each.groups for each in SYSTEMS) if name == jobs.KIND else (),
            ignored=front_end.ignored,
            told_everywhere=True,
        )
        for name, front_end in FRONT_ENDS.items()
    },
    **{name: kind for each in SYSTEMS for name, kind in each.kinds.items()},
    COMPUTE_CLASS.kind: foreign(COMPUTE_CLASS, ignored=compute_class.ignored),
    NODE_POOL.kind: foreign(NODE_POOL),
}
"""The optional kinds by the name under which their objects are given to the scheduler."""
