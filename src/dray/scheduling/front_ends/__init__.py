"""Front ends: one module for each API that describes groups of pods; each translates its objects into the one model.

A module has the `API_GROUP` of its objects, `read` for one of them, and `group_of` for the group that a pod names.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Any, Final

from dray.scheduling.front_ends import coscheduling, native
from dray.scheduling.group_model import GroupKey

FRONT_ENDS: Final[Mapping[str, ModuleType]] = {
    native.KIND: native,
    f"{coscheduling.KIND}.{coscheduling.API_GROUP}": coscheduling,
}
"""By the name under which objects are given to the scheduler, in the order in which a pod's words count."""
CONTRADICTION: Final = ""
"""In place of the API group where a pod names several groups."""


def group_of(pod: Any) -> GroupKey | None:
    """The group that a pod says it belongs to; of several the api is CONTRADICTION."""
    found = native.group_of(pod)
    other = coscheduling.group_of(pod)
    if found is None or other is None:
        return found or other
    return GroupKey(CONTRADICTION, found.namespace, f"{native.API_GROUP}/{found.name}, {other.api}/{other.name}")
