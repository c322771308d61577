"""GroupApi: what an API that describes groups of pods tells the scheduler. Its module declares one, as `API`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from dray.api.objects import Object
from dray.scheduling.cluster.topologies import Topologies
from dray.scheduling.model.group import Group, GroupKey, Topology


@dataclass(frozen=True, slots=True)
class FrontEnd:
    """A kind of objects that describe groups."""

    api_group: str
    kind: str
    plural: str
    read: Callable[[Object, Topologies], list[Group]]
    """Returns the group that an object describes, and its sub-groups."""
    ignored: Callable[[Object], list[str]] = lambda _: []
    """Returns the fields of an object that have no effect here, each with an explanation."""
    has_priority: bool = False
    """Whether groups name the PriorityClass of their pods."""


def _never(group: Group) -> float | None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupApi:
    api_group: str
    group_of: Callable[[Any], GroupKey | None]
    """Returns the group that a pod names."""
    kinds: Mapping[str, FrontEnd] = field(default_factory=dict)
    """Kinds of objects, by the kind under which the scheduler receives them."""
    pod_marks: frozenset[str] = frozenset()
    """Labels and annotations by which pods name groups of this API; empty if pods name their group otherwise."""
    named_kinds: Callable[[Object], Iterable[str]] | None = None
    """Returns the kinds of the objects that a pod of such a group names. None: the pod names only its group."""
    read_pod: Callable[[Object, Topologies], Group | None] | None = None
    """Returns the group that the labels and annotations of a pod describe, if groups have no objects."""
    topology_api: str = ""
    """The API group of the Topology objects that its groups and pods name."""
    pod_topology: Callable[[Mapping[str, str], Topologies], tuple[Topology, str] | None] | None = None
    """Returns the topology that annotations of a pod request for its group, and the name of a missing Topology or level
    (empty if all exist); None if the annotations request no topology. The group may be of another API."""
    pod_problem: Callable[[Object, Topologies], str] | None = None
    """Returns what is wrong with the topology that a pod requests, whatever its group; empty if nothing is."""
    has_topology: bool = False
    """Whether groups request a topology themselves, so that annotations of their pods are not read for that."""
    is_elastic: bool = False
    """Whether pods beyond the minimum of a group are evicted before the group is evicted as a whole."""
    priorities: Mapping[str, int] = field(default_factory=dict)
    """Values of the PriorityClasses that the API installs, used if there are no objects of these names."""
    unsupported_annotations: tuple[str, ...] = ()
    """Annotations that are not supported: pods with them are rejected."""
    run_time_label: str = ""
    """A label of pods that limits how many seconds they run."""
    sub_group_label: str = ""
    """A label of pods that names their sub-group."""
    stale_after: Callable[[Group], float | None] = _never
    """Returns the number of seconds that a group may run with fewer pods than its minimum, before all its pods are
    evicted; None if they are never evicted for this."""
