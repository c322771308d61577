"""Groups of pods: how many of them start together, where, and with which claims.

`Group` is the one model that the scheduler works on. Manifests reach it through front ends (`scheduling.front_ends`),
each of which reads the objects of one API and says to which group a pod belongs. `Groups` keeps them with their
members: pods that wait, pods on nodes (decided ones too), and pods that ended well, which count towards the minimum.

A claim that a pod names just as its group does is the group's: it is reserved for the group, once for all its pods.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from dray.api.gates import FeatureGates
from dray.api.objects import Object
from dray.api.pods import has_entry
from dray.scheduling.front_ends import FRONT_ENDS, native
from dray.scheduling.group_model import Group, GroupKey
from dray.scheduling.model import Pod
from dray.scheduling.reasons import ObjectRef

_NOBODY: Final[dict[str, Pod]] = {}


@dataclass(slots=True)
class Members:
    """Pods by uid."""

    waiting: dict[str, Pod] = field(default_factory=dict)
    ready: set[str] = field(default_factory=set)
    """Of those that wait the ones that nothing keeps from being tried."""
    placed: dict[str, Pod] = field(default_factory=dict)
    succeeded: set[str] = field(default_factory=set)

    def __bool__(self) -> bool:
        return bool(self.waiting or self.placed or self.succeeded)

    @property
    def started(self) -> int:
        """How many count as running already."""
        return len(self.placed) + len(self.succeeded - self.placed.keys())

    @property
    def number(self) -> int:
        return self.started + len(self.waiting.keys() - self.placed.keys())


class Groups:
    def __init__(self, gates: FeatureGates) -> None:
        self.served: set[str] = set()
        """The API groups that can have groups; of others, what a pod says of its group means nothing."""
        self._have_claims = gates["DRAWorkloadResourceClaims"]
        self._known: dict[GroupKey, Group] = {}
        self._members: dict[GroupKey, Members] = {}

    # Groups

    def put(self, kind: str, document: Object) -> Group | None:
        """The group, if it says something else than before; `kind` is one of those that front ends read."""
        group: Group = FRONT_ENDS[kind].read(document)
        self.served.add(group.key.api)
        before = self._known.get(group.key)
        self._known[group.key] = group
        return group if before != group else None

    def remove(self, kind: str, document: Object) -> GroupKey:
        key: GroupKey = FRONT_ENDS[kind].read(document).key
        self._known.pop(key, None)
        return key

    def of(self, pod: Pod) -> Group | None:
        """The group of the pod, if it has one that exists."""
        return self._known.get(pod.group) if pod.group is not None else None

    def is_missing(self, pod: Pod) -> bool:
        """Whether the pod has to wait for its group."""
        return pod.group is not None and pod.group.api in self.served and pod.group not in self._known

    def consumer(self, pod: Pod, entry: Object) -> Object:
        """Whom the claim of an entry of the pod is reserved for, as it stands in `reservedFor`."""
        group = self.of(pod) if self._have_claims else None
        if group is not None and has_entry(group.document, entry):
            return {"apiGroup": group.key.api, "resource": native.PLURAL, "name": group.key.name, "uid": group.uid}
        return {"resource": "pods", "name": pod.key[1], "uid": pod.uid}

    # Members

    def members(self, key: GroupKey) -> Members:
        return self._members.get(key) or Members()

    def need(self, group: Group) -> int:
        """How many more pods have to be placed at once: one if the minimum is reached."""
        return max(1, group.min_count - self.members(group.key).started)

    def ready_number(self, group: Group) -> int:
        """How many pods could be tried now."""
        members = self.members(group.key)
        return len(members.ready - members.placed.keys())

    def is_complete(self, group: Group) -> bool:
        """Whether there are as many pods as must start together."""
        members, least = self.members(group.key), group.min_count
        # What is counted exactly takes a look at each.
        return len(members.waiting) >= least or len(members.placed) >= least or members.number >= least

    def wait(self, pod: Pod) -> ObjectRef | None:
        """The pod has come; gives what others may have waited for."""
        return self._add(pod, "waiting")

    def succeeded(self, pod: Pod) -> ObjectRef | None:
        if pod.group is None:
            return None
        self._of(pod.group).succeeded.add(pod.uid)
        return reference(pod.group)

    def _add(self, pod: Pod, member: str) -> ObjectRef | None:
        if pod.group is None:
            return None
        getattr(self._of(pod.group), member)[pod.uid] = pod
        group = self.of(pod)
        return reference(pod.group) if group is not None and self.is_complete(group) else None

    def place(self, pod: Pod) -> None:
        if pod.group is not None:
            self._add(pod, "placed")

    def displace(self, pod: Pod) -> None:
        if pod.group is not None:
            self._of(pod.group).placed.pop(pod.uid, None)
            self._tidy(pod.group)

    def ready(self, pod: Pod, *, is_ready: bool) -> None:
        if pod.group is not None:
            ready = self._of(pod.group).ready
            (ready.add if is_ready else ready.discard)(pod.uid)
            self._tidy(pod.group)

    def forget(self, pod: Pod) -> None:
        """It does not wait any more."""
        if pod.group is not None:
            members = self._of(pod.group)
            members.waiting.pop(pod.uid, None)
            members.ready.discard(pod.uid)
            self._tidy(pod.group)

    def gone(self, key: GroupKey, uid: str) -> None:
        """A pod that ended well is deleted."""
        if key in self._members:
            self._members[key].succeeded.discard(uid)
            self._tidy(key)

    def _of(self, key: GroupKey) -> Members:
        return self._members.setdefault(key, Members())

    def _tidy(self, key: GroupKey) -> None:
        if not self._members[key]:
            del self._members[key]


def reference(key: GroupKey) -> ObjectRef:
    return ObjectRef(f"{native.KIND}.{key.api}", key.namespace, key.name)
