"""Front ends: the APIs that describe groups of pods, one module each. A new API is added to APIS.

The APIs are listed here. Outside of this package the scheduler names only Kubernetes' own (`native`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from dray.scheduling.cluster.topologies import KIND as TOPOLOGY
from dray.scheduling.groups import coscheduling, jobs, kai, kueue, native
from dray.scheduling.groups.group_api import FrontEnd, GroupApi
from dray.scheduling.model.group import GroupKey

APIS: Final[Mapping[str, GroupApi]] = {
    api.api_group: api for api in (native.API, coscheduling.API, kai.API, kueue.API, jobs.API)
}
FRONT_ENDS: Final[Mapping[str, FrontEnd]] = {
    name: front_end for api in APIS.values() for name, front_end in api.kinds.items()
}
"""Front ends by the kind under which the scheduler receives objects."""
TOPOLOGIES: Final[Mapping[str, str]] = {
    f"{TOPOLOGY}.{api.topology_api}": api.topology_api for api in APIS.values() if api.topology_api
}
"""API groups of Topology objects, by the kind under which the scheduler receives these."""
WITHOUT_OBJECTS: Final = frozenset(api.api_group for api in APIS.values() if api.read_pod is not None)
"""API groups whose groups have no objects: the labels and annotations of pods describe them."""
PRIORITIES: Final = {name: value for api in APIS.values() for name, value in api.priorities.items()}
"""Values of PriorityClasses that need no object."""
RUN_TIME_LABELS: Final = tuple(api.run_time_label for api in APIS.values() if api.run_time_label)
"""Labels of pods that limit how many seconds they run."""
CONTRADICTION: Final = ""
"""The API group in the key of a pod that names several groups."""

_MARKED: Final = [api for api in APIS.values() if api.pod_marks]
_MARKS: Final = frozenset(mark for api in _MARKED for mark in api.pod_marks)


def group_of(pod: Any) -> GroupKey | None:
    """The group that a pod names. If it names several with different names, the API group is CONTRADICTION."""
    metadata = pod["metadata"]
    # Most pods name no group: this check takes 1 µs for them, and asking all APIs 3 µs.
    if _MARKS.isdisjoint(metadata.get("labels") or ()) and _MARKS.isdisjoint(metadata.get("annotations") or ()):
        named = native.group_of(pod) if "schedulingGroup" in (pod.get("spec") or ()) else None
        return named or (jobs.group_of(pod) if metadata.get("ownerReferences") else None)
    named_groups = [key for api in (native.API, *_MARKED) if (key := api.group_of(pod)) is not None]
    if not named_groups:
        return jobs.group_of(pod)
    if len({key.name for key in named_groups}) == 1:
        return named_groups[0]
    names = ", ".join(f"{key.api}/{key.name}" for key in named_groups)
    return GroupKey(CONTRADICTION, named_groups[0].namespace, names)
