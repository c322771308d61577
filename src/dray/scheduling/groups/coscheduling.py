"""Groups of `scheduling.x-k8s.io`, as the coscheduling plugin has them: PodGroup, to which a pod belongs by a label.

Where the plugin places pods one by one and lets them wait, with what they need, for `scheduleTimeoutSeconds`, here none
is placed before all can be. What is left of the time-out is the order: a group that could not be placed for so long
goes behind the others.
"""

from __future__ import annotations

from typing import Any, Final

from dray.api.objects import Object, bounded, key_of, mapping, text
from dray.api.pod_requests import amounts
from dray.api.quantity import INT32_MAX
from dray.scheduling.cluster.topologies import Topologies
from dray.scheduling.model.group import ANYWHERE, Group, GroupKey

API_GROUP: Final = "scheduling.x-k8s.io"
KIND: Final = "PodGroup"
PLURAL: Final = "podgroups"
LABEL: Final = "scheduling.x-k8s.io/pod-group"
_TIMEOUT: Final = 60


def read(document: Object, _known: Topologies) -> list[Group]:
    spec = mapping(document.get("spec"))
    group = Group(
        GroupKey(API_GROUP, *key_of(document)),
        text(document["metadata"].get("uid")),
        bounded(spec.get("minMember"), 0, INT32_MAX),
        None,
        ANYWHERE,
        False,
        document,
        bounded(spec.get("scheduleTimeoutSeconds"), 0, INT32_MAX) or _TIMEOUT,
        amounts(spec.get("minResources")),
    )
    return [group]


def group_of(pod: Any) -> GroupKey | None:
    """The group that a pod says it belongs to."""
    labels = pod["metadata"].get("labels")
    name = labels.get(LABEL) if labels else None
    return GroupKey(API_GROUP, text(pod["metadata"].get("namespace")), name) if name else None
