"""Groups of `scheduling.x-k8s.io`, the API of the coscheduling plugin: PodGroup, which a pod names by a label.

The plugin places pods one by one, and each keeps its node for `scheduleTimeoutSeconds` while it waits for the others.
Here all pods of a group are placed at once. The timeout only changes the order: a group that could not be placed for so
long moves behind the other groups.
"""

from __future__ import annotations

from typing import Any, Final

from dray.api.objects import Object, bounded, key_of, mapping, text
from dray.api.pod_requests import amounts
from dray.api.quantity import INT32_MAX
from dray.scheduling.cluster.topologies import Topologies
from dray.scheduling.groups.group_api import FrontEnd, GroupApi
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
    """The group that a pod names."""
    labels = pod["metadata"].get("labels")
    name = labels.get(LABEL) if labels else None
    return GroupKey(API_GROUP, text(pod["metadata"].get("namespace")), name) if name else None


API: Final = GroupApi(
    api_group=API_GROUP,
    group_of=group_of,
    kinds={f"{KIND}.{API_GROUP}": FrontEnd(API_GROUP, KIND, PLURAL, read)},
    pod_marks=frozenset((LABEL,)),
)
