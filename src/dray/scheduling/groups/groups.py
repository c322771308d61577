"""Groups of pods: how many of them start together, where, and with which claims.

`Group` is the one model that the scheduler works on. Manifests reach it through front ends (`scheduling.front_ends`),
each of which reads the objects of one API and says to which group a pod belongs. `Groups` keeps them with their
members: pods that wait, pods on nodes (decided ones too), and pods that ended well, which count towards the minimum.
Groups of groups are placed as one unit, which is the tree: a group with children counts once enough of them do.

A claim that a pod names just as its group does is the group's: it is reserved for the group, once for all its pods.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from dray.api.gates import FeatureGates
from dray.api.objects import Object, bounded, is_deleting, key_of
from dray.api.pods import has_entry
from dray.api.quantity import INT32_MAX, INT32_MIN
from dray.scheduling.cluster.topologies import Topologies
from dray.scheduling.groups import jobs, kai, native
from dray.scheduling.groups import kueue as kueue_groups
from dray.scheduling.groups.forest import Flawed, GroupForest
from dray.scheduling.groups.front_ends import FRONT_ENDS
from dray.scheduling.model.group import Group, GroupKey
from dray.scheduling.model.pod import Pod, own_priority, start_of
from dray.scheduling.model.reasons import ObjectRef

_NOBODY: Final[dict[str, Pod]] = {}
_ELASTIC: Final = frozenset({kai.API_GROUP, jobs.API_GROUP})
"""API groups whose groups lose the pods beyond their minimum before they are removed as a whole."""


@dataclass(slots=True)
class Members:
    """Pods by uid."""

    waiting: dict[str, Pod] = field(default_factory=dict)
    ready: set[str] = field(default_factory=set)
    """Of those that wait the ones that nothing keeps from being tried."""
    placed: dict[str, Pod] = field(default_factory=dict)
    deleting: set[str] = field(default_factory=set)
    """Placed pods that are being deleted. They do not count as running, so that the new pods of an evicted gang start
    as a whole while the old ones still end."""
    succeeded: set[str] = field(default_factory=set)

    def __bool__(self) -> bool:
        return bool(self.waiting or self.placed or self.succeeded)

    @property
    def started(self) -> int:
        """How many count as running already."""
        return len(self.placed) - len(self.deleting) + len(self.succeeded - self.placed.keys())

    @property
    def number(self) -> int:
        # The smaller of both is gone through: mostly all wait, or hardly anybody does.
        return self.started + len(self.waiting) - len(self.waiting.keys() & self.placed.keys())


class Groups:
    def __init__(self, gates: FeatureGates) -> None:
        self.served: set[str] = set()
        """The API groups that can have groups; of others, what a pod says of its group means nothing."""
        self.forest = GroupForest()
        self._have_claims = gates["DRAWorkloadResourceClaims"]
        self._members: dict[GroupKey, Members] = {}
        self._parts: dict[tuple[str, str, str], set[GroupKey]] = {}
        """By kind, namespace and name of an object, the groups that it stands for."""
        self._said: dict[GroupKey, Mapping[str, str]] = {}
        """Annotations of pods about topology, by their group."""
        self.topologies: Topologies = Topologies()
        self._priorities: dict[str, int] = {}
        """The values of PriorityClasses."""
        self._complete: dict[GroupKey, bool] = {}
        """Of groups in trees, until pods of one come, go or are placed: then what is said of those above is dropped."""
        self._counted = 0
        """The revision of the forest that it holds for."""

    # Groups

    def put(self, kind: str, document: Object) -> list[Group]:
        """Those that say something else than before; `kind` is one of those that front ends read."""
        front_end = FRONT_ENDS[kind]
        found = front_end.read(document, self.topologies)
        self.served.add(front_end.api_group)
        now = {each.key for each in found}
        for key in self._parts.get((kind, *key_of(document)), set()) - now:
            self.forest.remove(key)
        self._parts[(kind, *key_of(document))] = now
        return [each for each in found if self.forest.put(self._as_pods_say(each))]

    def remove(self, kind: str, document: Object) -> list[GroupKey]:
        found = self._parts.pop((kind, *key_of(document)), set())
        for key in found:
            self.forest.remove(key)
        return list(found)

    def put_topology(self, kind: str, document: Object) -> list[Group]:
        """The groups that are to be placed otherwise now."""
        return self.read_again() if self.topologies.put(kind, document) else []

    def remove_topology(self, kind: str, document: Object) -> list[Group]:
        self.topologies.remove(kind, document)
        return self.read_again()

    def put_priority_class(self, document: Object) -> list[Group]:
        """The groups whose pods have another priority now."""
        return self._prioritize(document["metadata"]["name"], bounded(document.get("value"), INT32_MIN, INT32_MAX))

    def remove_priority_class(self, document: Object) -> list[Group]:
        return self._prioritize(document["metadata"]["name"], None)

    def _prioritize(self, name: str, value: int | None) -> list[Group]:
        if self._priorities.get(name) == value:
            return []
        if value is None:
            del self._priorities[name]
        else:
            self._priorities[name] = value
        return [each for each in self.forest.all() if each.priority_class == name]

    def value_of(self, priority_class: str) -> int | None:
        """None where there is no such class."""
        return self._priorities.get(priority_class, kai.PRIORITIES.get(priority_class))

    def priority_of(self, pod: Pod) -> int:
        """That of the PriorityClass of its group, or else its own."""
        group = self.of(pod) if pod.group is not None else None
        value = self.value_of(group.priority_class) if group is not None and group.priority_class else None
        return value if value is not None else own_priority(pod.document)

    def read_again(self) -> list[Group]:
        documents = {
            (kind, key): group.document
            for (kind, *_), keys in self._parts.items()
            for key in keys
            if (group := self.forest.get(key)) is not None and group.key.kind == FRONT_ENDS[kind].kind
        }
        found = [each for (kind, _), document in documents.items() for each in self.put(kind, document)]
        pods = [
            pod
            for key, members in self._members.items()
            if key.api == kueue_groups.API_GROUP
            for pod in (*members.waiting.values(), *members.placed.values())
        ]
        return found + [each for pod in pods if (each := self._imply(pod)) is not None]

    def _hear(self, pod: Pod) -> None:
        """What a pod says of topology counts for its group, unless that says so itself."""
        if pod.group is None or pod.group.api in (kueue_groups.API_GROUP, jobs.API_GROUP):
            return
        if pod.group not in self._said and kueue_groups.speaks_of_topology(pod.annotations):
            self._said[pod.group] = pod.annotations
            if (group := self.forest.get(pod.group)) is not None:
                self.forest.put(self._as_pods_say(group))

    def _as_pods_say(self, group: Group) -> Group:
        said = self._said.get(group.key)
        if said is None or group.topology:
            return group
        topology, unknown = kueue_groups.topology_of(said, self.topologies)
        return replace(group, topology=topology, unknown=unknown)

    def _imply(self, pod: Pod) -> Group | None:
        """The group that has no object of its own, if the pod makes it other than it was."""
        if pod.group is None or pod.group.api != kueue_groups.API_GROUP or pod.group.api not in self.served:
            return None
        group = kueue_groups.read_pod(pod.document, self.topologies)
        known = self.forest.get(pod.group)
        if group is None or (known is not None and (known.topology or known.unknown) and not group.topology):
            return None
        return group if self.forest.put(group) else None

    def of(self, pod: Pod) -> Group | None:
        """The group of the pod, if it has one that exists."""
        if pod.group is None:
            return None
        found = self.forest.get(pod.group)
        if found is None and pod.group.api == kueue_groups.API_GROUP and pod.group in self._members:
            # It came before it was known that there are such groups.
            self._imply(pod)
            found = self.forest.get(pod.group)
        return found

    def is_missing(self, pod: Pod) -> bool:
        """Whether the pod has to wait for its group."""
        return pod.group is not None and pod.group.api in self.served and self.of(pod) is None

    def consumer(self, pod: Pod, entry: Object) -> Object:
        """Whom the claim of an entry of the pod is reserved for, as it stands in `reservedFor`."""
        native_group = pod.group is not None and pod.group.api == native.API_GROUP
        group = self.of(pod) if self._have_claims and native_group else None
        if group is not None and has_entry(group.document, entry):
            return {"apiGroup": group.key.api, "resource": native.PLURAL, "name": group.key.name, "uid": group.uid}
        return {"resource": "pods", "name": pod.key[1], "uid": pod.uid}

    # Trees

    def root(self, group: Group) -> Group | Flawed:
        """What the group is placed with."""
        return self.forest.root(group)

    def leaves(self, group: Group) -> list[Group]:
        """Those at and below the group that have pods."""
        if group.parent is None and not self.forest.children(group):
            return [group]
        return [each for each in self.forest.below(group) if not self.forest.children(each)]

    def waiting(self, group: Group) -> Iterator[Pod]:
        for each in self.leaves(group):
            yield from self.members(each.key).waiting.values()

    def placed(self, group: Group) -> Iterator[Pod]:
        for each in self.leaves(group):
            yield from self.members(each.key).placed.values()

    def disruption_unit(self, pod: Pod) -> Group | None:
        """The highest of its groups whose pods are removed together; None where the pod goes by itself."""
        group = self.of(pod)
        whole = [each for each in self.forest.lineage(group) if each.whole] if group is not None else []
        return whole[-1] if whole else None

    def unit(self, pod: Pod) -> Group | None:
        """The highest of its groups whose pods are removed together, or start together: what a queue lets in as a
        whole; None where the pod is by itself."""
        group = self.of(pod)
        lineage = self.forest.lineage(group) if group is not None else ()
        found = [each for each in lineage if each.whole or max(each.min_count, each.kept) > 1 or each.min_groups]
        return found[-1] if found else None

    def known(self, api: str) -> list[Group]:
        """Those that objects of an API describe."""
        return [each for each in self.forest.all() if each.key.api == api]

    def spare(self, group: Group) -> set[str]:
        """The uids of pods beyond the minimum of an elastic group of KAI: the least important, then the youngest."""
        placed = self.members(group.key).placed
        number = len(placed) - group.min_count
        if group.key.api not in _ELASTIC or number <= 0 or not group.min_count:
            return set()
        order = sorted(placed.values(), key=start_of, reverse=True)
        return {each.uid for each in sorted(order, key=lambda each: each.priority)[:number]}

    # How many

    def need(self, group: Group) -> int:
        """How many more pods have to be placed at once, at least: one if the minimum is reached."""
        return max(1, self._need(group))

    def _need(self, group: Group) -> int:
        children = self.forest.children(group)
        if not children:
            return max(0, max(1, group.min_count) - self.members(group.key).started)
        needs = sorted(map(self._need, children))
        return sum(needs[: max(1, group.min_groups)])

    def company(self, pod: Pod) -> int:
        """How many pods are let in with the first of them that comes, itself included."""
        group = self.of(pod) if pod.group is not None else None
        return group.expected if group is not None and group.expected and not self.is_started(group) else 1

    def can_start(self, group: Group, more: Callable[[Group], int]) -> bool:
        """Whether it counts as started with so many more pods for each group that has pods."""
        children = self.forest.children(group)
        if not children:
            return self.members(group.key).started + more(group) >= max(1, group.min_count)
        enough = sum(self.can_start(each, more) for each in children)
        return enough >= max(1, group.min_groups)

    def is_started(self, group: Group) -> bool:
        return self.can_start(group, lambda _: 0)

    def is_started_without(self, group: Group, pods: Iterable[Pod]) -> bool:
        """Whether enough pods are left once these are gone."""
        lost = Counter(pod.group for pod in pods if pod.group is not None and self._runs(pod.group, pod.uid))
        return self.can_start(group, lambda leaf: -lost[leaf.key])

    def _runs(self, key: GroupKey, uid: str) -> bool:
        members = self.members(key)
        return uid in members.placed and uid not in members.deleting

    def is_ready(self, group: Group) -> bool:
        """Whether there are enough pods that could be tried now."""
        return self.can_start(group, self._ready_number)

    def _ready_number(self, group: Group) -> int:
        members = self.members(group.key)
        return len(members.ready - members.placed.keys())

    def is_complete(self, group: Group) -> bool:
        """Whether there are as many pods as must start together."""
        if group.parent is None and not self.forest.children(group):
            return self._is_leaf_complete(group)
        # Every pod of a tree asks this of all of the tree.
        if self._counted != self.forest.revision:
            self._counted = self.forest.revision
            self._complete.clear()
        known = self._complete.get(group.key)
        if known is None:
            children = self.forest.children(group)
            known = self._complete[group.key] = (
                sum(map(self.is_complete, children)) >= max(1, group.min_groups)
                if children
                else self.can_start(group, self._unplaced_number)
            )
        return known

    def _unplaced_number(self, group: Group) -> int:
        members = self.members(group.key)
        return members.number - members.started

    def _is_leaf_complete(self, group: Group) -> bool:
        members, least = self.members(group.key), group.min_count
        staying = len(members.placed) - len(members.deleting)
        # What is counted exactly takes a look at each.
        return len(members.waiting) >= least or staying >= least or members.number >= least

    # Members

    def members(self, key: GroupKey) -> Members:
        return self._members.get(key) or Members()

    def wait(self, pod: Pod) -> ObjectRef | None:
        """The pod has come; gives what others may have waited for."""
        if pod.group is None:
            return None
        self._changed(pod.group).waiting[pod.uid] = pod
        self._imply(pod)
        self._hear(pod)
        group = self.of(pod)
        root = self.root(group) if group is not None else None
        return reference(root.key) if isinstance(root, Group) and self.is_complete(root) else None

    def succeeded(self, pod: Pod) -> ObjectRef | None:
        if pod.group is None:
            return None
        self._changed(pod.group).succeeded.add(pod.uid)
        group = self.of(pod)
        root = self.root(group) if group is not None else None
        return reference(root.key if isinstance(root, Group) else pod.group)

    def place(self, pod: Pod) -> None:
        if pod.group is not None:
            members = self._changed(pod.group)
            members.placed[pod.uid] = pod
            if is_deleting(pod.document):
                members.deleting.add(pod.uid)
            if pod.group.api == kueue_groups.API_GROUP and self.forest.get(pod.group) is None:
                self._imply(pod)

    def displace(self, pod: Pod) -> None:
        if pod.group is not None:
            members = self._changed(pod.group)
            members.placed.pop(pod.uid, None)
            members.deleting.discard(pod.uid)
            self._tidy(pod.group)

    def ready(self, pod: Pod, *, is_ready: bool) -> None:
        if pod.group is not None:
            ready = self._of(pod.group).ready
            (ready.add if is_ready else ready.discard)(pod.uid)
            self._tidy(pod.group)

    def forget(self, pod: Pod) -> Group | None:
        """It does not wait any more; gives what it was to be placed with, if too few are left for that."""
        if pod.group is None:
            return None
        group = self.of(pod)
        root = self.root(group) if group is not None else None
        complete = isinstance(root, Group) and self.is_complete(root)
        members = self._changed(pod.group)
        members.waiting.pop(pod.uid, None)
        members.ready.discard(pod.uid)
        self._tidy(pod.group)
        return root if isinstance(root, Group) and complete and not self.is_complete(root) else None

    def gone(self, key: GroupKey, uid: str) -> None:
        """A pod that ended well is deleted."""
        if key in self._members:
            self._changed(key).succeeded.discard(uid)
            self._tidy(key)

    def _of(self, key: GroupKey) -> Members:
        return self._members.setdefault(key, Members())

    def _changed(self, key: GroupKey) -> Members:
        if self._complete and (group := self.forest.get(key)) is not None:
            for each in self.forest.lineage(group):
                self._complete.pop(each.key, None)
        return self._of(key)

    def _tidy(self, key: GroupKey) -> None:
        if not self._members[key]:
            del self._members[key]
            self._said.pop(key, None)
            if key.api == kueue_groups.API_GROUP:
                self.forest.remove(key)


def reference(key: GroupKey) -> ObjectRef:
    return ObjectRef(f"{key.kind}.{key.api}", key.namespace, key.name)
