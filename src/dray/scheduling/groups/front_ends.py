"""Front ends: one module for each API that describes groups of pods; each translates its objects into the one model.

`read` gives the groups that one object stands for, `group_of` the group that a pod names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from dray.api.objects import Object
from dray.scheduling.cluster.topologies import Topologies
from dray.scheduling.groups import coscheduling, jobs, kai, native
from dray.scheduling.groups import kueue as kueue_groups
from dray.scheduling.model.group import Group, GroupKey
from dray.scheduling.quota.kueue import kinds as kueue


@dataclass(frozen=True, slots=True)
class FrontEnd:
    api_group: str
    kind: str
    plural: str
    read: Callable[[Object, Topologies], list[Group]]
    """The group of the object, and those that are parts of it."""
    ignored: Callable[[Object], list[str]] = lambda _: []
    """Members that nobody acts on."""


FRONT_ENDS: Final[Mapping[str, FrontEnd]] = {
    native.KIND: FrontEnd(native.API_GROUP, native.KIND, native.PLURAL, native.read),
    native.COMPOSITE: FrontEnd(native.API_GROUP, native.COMPOSITE, native.COMPOSITE_PLURAL, native.read_composite),
    f"{coscheduling.KIND}.{coscheduling.API_GROUP}": FrontEnd(
        coscheduling.API_GROUP, coscheduling.KIND, coscheduling.PLURAL, coscheduling.read
    ),
    f"{kai.KIND}.{kai.API_GROUP}": FrontEnd(kai.API_GROUP, kai.KIND, kai.PLURAL, kai.read, kai.ignored),
    jobs.KIND: FrontEnd(jobs.API_GROUP, jobs.KIND, jobs.PLURAL, jobs.read, jobs.ignored),
}
"""By the name under which objects are given to the scheduler."""
CONTRADICTION: Final = ""
"""In place of the API group where a pod names several groups."""


_LABELS: Final = frozenset((coscheduling.LABEL, kueue.POD_GROUP_LABEL))
_MEMBERSHIPS: Final = (native.group_of, coscheduling.group_of, kai.group_of, kueue_groups.group_of)


def group_of(pod: Any) -> GroupKey | None:
    """The group that a pod says it belongs to; of several with different names the api is CONTRADICTION."""
    metadata = pod["metadata"]
    # Most pods say nothing of it: 1 µs for them, and 3 if all were asked.
    if _LABELS.isdisjoint(metadata.get("labels") or ()) and kai.ANNOTATION not in (metadata.get("annotations") or ()):
        named = native.group_of(pod) if "schedulingGroup" in (pod.get("spec") or ()) else None
        return named or (jobs.group_of(pod) if metadata.get("ownerReferences") else None)
    found = [key for each in _MEMBERSHIPS if (key := each(pod)) is not None]
    if not found:
        return jobs.group_of(pod)
    if len({each.name for each in found}) == 1:
        return found[0]
    return GroupKey(CONTRADICTION, found[0].namespace, ", ".join(f"{each.api}/{each.name}" for each in found))
