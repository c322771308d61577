"""Front ends: the APIs that describe groups of pods, one module each. A new API is added to FRONT_ENDS.

`read` translates one object into groups of the model, `group_of` finds the group that a pod names.
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
    """Returns the group that an object describes, and its sub-groups."""
    ignored: Callable[[Object], list[str]] = lambda _: []
    """Returns the fields of an object that have no effect here, each with an explanation."""


FRONT_ENDS: Final[Mapping[str, FrontEnd]] = {
    native.KIND: FrontEnd(native.API_GROUP, native.KIND, native.PLURAL, native.read),
    native.COMPOSITE: FrontEnd(native.API_GROUP, native.COMPOSITE, native.COMPOSITE_PLURAL, native.read_composite),
    f"{coscheduling.KIND}.{coscheduling.API_GROUP}": FrontEnd(
        coscheduling.API_GROUP, coscheduling.KIND, coscheduling.PLURAL, coscheduling.read
    ),
    f"{kai.KIND}.{kai.API_GROUP}": FrontEnd(kai.API_GROUP, kai.KIND, kai.PLURAL, kai.read, kai.ignored),
    jobs.KIND: FrontEnd(jobs.API_GROUP, jobs.KIND, jobs.PLURAL, jobs.read, jobs.ignored),
}
"""By the kind under which the scheduler receives objects."""
CONTRADICTION: Final = ""
"""The API group in the key of a pod that names several groups."""


_LABELS: Final = frozenset((coscheduling.LABEL, kueue.POD_GROUP_LABEL))
_MEMBERSHIPS: Final = (native.group_of, coscheduling.group_of, kai.group_of, kueue_groups.group_of)


def group_of(pod: Any) -> GroupKey | None:
    """The group that a pod names. If it names several with different names, the API group is CONTRADICTION."""
    metadata = pod["metadata"]
    # Most pods name no group: this check takes 1 µs for them, and asking all front ends 3 µs.
    if _LABELS.isdisjoint(metadata.get("labels") or ()) and kai.ANNOTATION not in (metadata.get("annotations") or ()):
        named = native.group_of(pod) if "schedulingGroup" in (pod.get("spec") or ()) else None
        return named or (jobs.group_of(pod) if metadata.get("ownerReferences") else None)
    named_groups = [key for front_end in _MEMBERSHIPS if (key := front_end(pod)) is not None]
    if not named_groups:
        return jobs.group_of(pod)
    if len({key.name for key in named_groups}) == 1:
        return named_groups[0]
    names = ", ".join(f"{key.api}/{key.name}" for key in named_groups)
    return GroupKey(CONTRADICTION, named_groups[0].namespace, names)
