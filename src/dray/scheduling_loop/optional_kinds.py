"""Kinds that a server may not have, or not yet, and that the scheduler reads where they are.

They are those of other systems, and those of Kubernetes that not every server has. By some of them another system
decides where it is at work: `kind_owners` tells whether it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from dray.api.objects import Object
from dray.client.discovery import ServedResource
from dray.client.foreign_kinds import COMPUTE_CLASS, GROUPS, KAI_GROUP, KAI_QUEUE, KUEUE, KUEUE_TOPOLOGY, NODE_POOL
from dray.scheduling.attempts.group_events import PRIORITY_CLASS
from dray.scheduling.cluster import compute_class
from dray.scheduling.groups import jobs
from dray.scheduling.groups.front_ends import FRONT_ENDS, TOPOLOGIES
from dray.scheduling.groups.kueue import TOPOLOGY_KIND as TOPOLOGY_OF_KUEUE
from dray.scheduling.quota.kueue import objects as kueue_objects

QUEUES: Final = {"ClusterQueue": KUEUE["ClusterQueue"], KAI_QUEUE.kind: KAI_QUEUE}
"""The kinds that have quota, by the names under which objects are given to the scheduler."""
QUEUE_KINDS: Final = frozenset((*KUEUE, KAI_QUEUE.kind))
"""Names of all kinds that decide on quota."""

Ignored = Callable[[Object], Iterable[str]]


@dataclass(frozen=True, slots=True)
class OptionalKind:
    group: str
    plural: str
    resource: ServedResource | None = None
    """The version to read. If None, as for kinds of Kubernetes, the newest served version is read."""
    owned: tuple[ServedResource, ...] = ()
    """The kind is read only if one of these is served and its system does not run in the cluster."""
    beside: ServedResource | None = None
    """The kind is read only if this other kind, which needs it, is served too."""
    quiet: bool = False
    """Whether changes of the status are ignored. The scheduler itself writes most of them."""
    ignored: Ignored = lambda _: ()
    """Returns the members of an object that dray ignores."""
    told_everywhere: bool = False
    """Whether events about ignored members are also written if another system serves the kind."""


def _foreign(
    resource: ServedResource, *owned: ServedResource, quiet: bool = False, ignored: Ignored = lambda _: ()
) -> OptionalKind:
    return OptionalKind(resource.group, resource.plural, resource, owned, quiet=quiet, ignored=ignored)


KINDS: Final[Mapping[str, OptionalKind]] = {
    "DeviceTaintRule": OptionalKind("resource.k8s.io", "devicetaintrules"),
    PRIORITY_CLASS: OptionalKind("scheduling.k8s.io", "priorityclasses", beside=KAI_GROUP),
    **{
        name: OptionalKind(
            front_end.api_group,
            front_end.plural,
            GROUPS.get(name),
            (KUEUE_TOPOLOGY, KAI_GROUP) if name == jobs.KIND else (),
            ignored=front_end.ignored,
            told_everywhere=True,
        )
        for name, front_end in FRONT_ENDS.items()
    },
    **{name: _foreign(GROUPS[name], *([KUEUE_TOPOLOGY] if name == TOPOLOGY_OF_KUEUE else [])) for name in TOPOLOGIES},
    **{
        name: _foreign(resource, KUEUE["ClusterQueue"], quiet=True, ignored=partial(kueue_objects.ignored, name))
        for name, resource in KUEUE.items()
    },
    KAI_QUEUE.kind: _foreign(KAI_QUEUE, KAI_QUEUE, quiet=True),
    COMPUTE_CLASS.kind: _foreign(COMPUTE_CLASS, ignored=compute_class.ignored),
    NODE_POOL.kind: _foreign(NODE_POOL),
}
"""The optional kinds by the name under which their objects are given to the scheduler."""
