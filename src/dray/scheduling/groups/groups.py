"""Groups: the groups of pods that objects of several APIs describe, and the pods that belong to them.

`Group` is the one model that the scheduler works with. A front end (`groups.front_ends`) reads the objects of one API
into it and finds the group that a pod names. Groups of some APIs have no object: the labels and annotations of their
pods describe them. Groups of groups form a tree, which is placed as one unit. `GroupMembers` counts the pods.

A claim that both a pod and its group name belongs to the group: it is reserved for the group, once for all its pods.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from dray.api.gates import FeatureGates
from dray.api.objects import Object, bounded, is_deleting, key_of
from dray.api.pods import has_entry
from dray.api.quantity import INT32_MAX, INT32_MIN
from dray.scheduling.cluster.topologies import Topologies
from dray.scheduling.groups import native
from dray.scheduling.groups.forest import Flawed
from dray.scheduling.groups.front_ends import APIS, FRONT_ENDS, PRIORITIES, WITHOUT_OBJECTS
from dray.scheduling.groups.members import GroupMembers, Members
from dray.scheduling.model.group import Group, GroupKey, Topology
from dray.scheduling.model.pod import Pod, own_priority, start_of
from dray.scheduling.model.reasons import ObjectRef


class Groups(GroupMembers):
    def __init__(self, gates: FeatureGates) -> None:
        super().__init__()
        self.served: set[str] = set()
        """The API groups that the server has. Groups of other APIs are ignored if a pod names them."""
        self._have_claims = gates["DRAWorkloadResourceClaims"]
        self._described: dict[tuple[str, str, str], set[GroupKey]] = {}
        """The groups that an object describes, by its kind, namespace and name."""
        self._pod_topology: dict[GroupKey, Mapping[str, str]] = {}
        """Annotations of a pod of the group that request a topology."""
        self.topologies: Topologies = Topologies()
        self._priorities: dict[str, int] = {}
        """The values of PriorityClasses, by name."""

    # Objects

    def put(self, kind: str, document: Object) -> list[Group]:
        """Reads an object of a kind in FRONT_ENDS; returns the groups that differ from what was known."""
        front_end = FRONT_ENDS[kind]
        groups = front_end.read(document, self.topologies)
        self.served.add(front_end.api_group)
        described, name = {group.key for group in groups}, (kind, *key_of(document))
        for key in self._described.get(name, set()) - described:
            self.forest.remove(key)
        self._described[name] = described
        return [group for group in groups if self.forest.put(self._with_pod_topology(group))]

    def remove(self, kind: str, document: Object) -> list[GroupKey]:
        """Forgets an object; returns the groups that it described."""
        keys = self._described.pop((kind, *key_of(document)), set())
        for key in keys:
            self.forest.remove(key)
        return list(keys)

    def put_topology(self, kind: str, document: Object) -> list[Group]:
        """Reads a Topology; returns the groups that changed with it."""
        return self.read_again() if self.topologies.put(kind, document) else []

    def remove_topology(self, kind: str, document: Object) -> list[Group]:
        """Forgets a Topology; returns the groups that changed with it."""
        self.topologies.remove(kind, document)
        return self.read_again()

    def put_priority_class(self, document: Object) -> list[Group]:
        """Reads a PriorityClass; returns the groups whose pods have another priority now."""
        return self._prioritize(document["metadata"]["name"], bounded(document.get("value"), INT32_MIN, INT32_MAX))

    def remove_priority_class(self, document: Object) -> list[Group]:
        """Forgets a PriorityClass; returns the groups whose pods have another priority now."""
        return self._prioritize(document["metadata"]["name"], None)

    def _prioritize(self, name: str, value: int | None) -> list[Group]:
        if self._priorities.get(name) == value:
            return []
        if value is None:
            del self._priorities[name]
        else:
            self._priorities[name] = value
        return [group for group in self.forest.all() if group.priority_class == name]

    def value_of(self, priority_class: str) -> int | None:
        """The value of a PriorityClass; None if it does not exist."""
        return self._priorities.get(priority_class, PRIORITIES.get(priority_class))

    def priority_of(self, pod: Pod) -> int:
        """The value of the PriorityClass that the pod's group names; the pod's own priority if it names none."""
        group = self.of(pod) if pod.group is not None else None
        value = self.value_of(group.priority_class) if group is not None and group.priority_class else None
        return value if value is not None else own_priority(pod.document)

    def read_again(self) -> list[Group]:
        """Reads all groups again, after topologies or queues changed; returns the groups that differ."""
        documents = {
            (kind, key): group.document
            for (kind, *_), keys in self._described.items()
            for key in keys
            if (group := self.forest.get(key)) is not None and group.key.kind == FRONT_ENDS[kind].kind
        }
        changed = [group for (kind, _), document in documents.items() for group in self.put(kind, document)]
        pods = [
            pod
            for key, members in self._members.items()
            if key.api in WITHOUT_OBJECTS
            for pod in (*members.waiting.values(), *members.placed.values())
        ]
        return changed + [group for pod in pods if (group := self._read_pod(pod)) is not None]

    # Groups that pods describe

    def _read_pod_topology(self, pod: Pod) -> None:
        """Applies the topology that a pod requests to its group, unless the group requests one itself."""
        if pod.group is None or (api := APIS.get(pod.group.api)) is None or api.has_topology:
            return
        if pod.group not in self._pod_topology and self._topology_of(pod.annotations) is not None:
            self._pod_topology[pod.group] = pod.annotations
            if (group := self.forest.get(pod.group)) is not None:
                self.forest.put(self._with_pod_topology(group))

    def _topology_of(self, annotations: Mapping[str, str]) -> tuple[Topology, str] | None:
        """Returns the topology that annotations of a pod request, and the name of a missing Topology or level. Returns
        None if they request no topology. The first API that knows the annotations reads them."""
        readers = [api.pod_topology for api in APIS.values() if api.pod_topology is not None] if annotations else []
        return next((found for read in readers if (found := read(annotations, self.topologies)) is not None), None)

    def _with_pod_topology(self, group: Group) -> Group:
        annotations = self._pod_topology.get(group.key)
        requested = self._topology_of(annotations) if annotations is not None and not group.topology else None
        if requested is None:
            return group
        topology, unknown = requested
        return replace(group, topology=topology, unknown=unknown)

    def _read_pod(self, pod: Pod) -> Group | None:
        """Reads the group without an object that a pod describes; returns it if it differs from what was known."""
        if pod.group is None or pod.group.api not in WITHOUT_OBJECTS or pod.group.api not in self.served:
            return None
        read = APIS[pod.group.api].read_pod
        group = read(pod.document, self.topologies) if read is not None else None
        known = self.forest.get(pod.group)
        if group is None or (known is not None and (known.topology or known.unknown) and not group.topology):
            return None
        return group if self.forest.put(group) else None

    def of(self, pod: Pod) -> Group | None:
        """The group of the pod, if it has one that exists."""
        if pod.group is None:
            return None
        group = self.forest.get(pod.group)
        if group is None and pod.group.api in WITHOUT_OBJECTS and pod.group in self._members:
            # The pod came before the server was known to have the API.
            self._read_pod(pod)
            group = self.forest.get(pod.group)
        return group

    def is_missing(self, pod: Pod) -> bool:
        """Whether the pod names a group that does not exist."""
        return pod.group is not None and pod.group.api in self.served and self.of(pod) is None

    def consumer(self, pod: Pod, entry: Object) -> Object:
        """The entry in `reservedFor` of a claim of the pod: the pod, or its group if the claim is the group's."""
        native_group = pod.group is not None and pod.group.api == native.API_GROUP
        group = self.of(pod) if self._have_claims and native_group else None
        if group is not None and has_entry(group.document, entry):
            return {"apiGroup": group.key.api, "resource": native.PLURAL, "name": group.key.name, "uid": group.uid}
        return {"resource": "pods", "name": pod.key[1], "uid": pod.uid}

    # Trees

    def root(self, group: Group) -> Group | Flawed:
        """The root of the tree that the group belongs to. A tree is placed as a whole."""
        return self.forest.root(group)

    def disruption_unit(self, pod: Pod) -> Group | None:
        """The topmost group of the pod whose pods are evicted together; None if the pod is evicted alone."""
        group = self.of(pod)
        evicted_whole = [above for above in self.forest.lineage(group) if above.whole] if group is not None else []
        return evicted_whole[-1] if evicted_whole else None

    def unit(self, pod: Pod) -> Group | None:
        """The topmost group of the pod that starts together or is evicted together, which a queue admits as a whole;
        None if the pod is admitted alone."""
        group = self.of(pod)
        lineage = self.forest.lineage(group) if group is not None else ()
        units = [above for above in lineage if above.whole or max(above.min_count, above.kept) > 1 or above.min_groups]
        return units[-1] if units else None

    def known(self, api: str) -> list[Group]:
        """Returns the groups of an API group."""
        return [group for group in self.forest.all() if group.key.api == api]

    def is_elastic(self, group: Group) -> bool:
        """Whether pods beyond the minimum of the group are placed last and evicted first."""
        api = APIS.get(group.key.api)
        return api is not None and api.is_elastic

    def stage(self, pod: Pod) -> int:
        """Returns a sort key for waiting pods of elastic groups: 0 if the group has not started, 1 if it has started
        with its minimum, 2 if it has pods beyond the minimum."""
        api = APIS.get(pod.group.api) if pod.group is not None else None
        group = self.of(pod) if api is not None and api.is_elastic else None
        root = self.root(group) if group is not None else None
        if not isinstance(root, Group) or not self.is_started(root):
            return 0
        leaves = self.leaves(root)
        if not any(leaf.min_count for leaf in leaves):
            # Each pod is placed by itself.
            return 0
        return 2 if any(self.members(leaf.key).started > leaf.min_count for leaf in leaves) else 1

    def next_to_place(self, group: Group, pods: Iterable[Pod]) -> list[Pod]:
        """Returns the waiting pods of an elastic group that are placed next. These are the first pods of each
        sub-group, as many as the sub-group lacks; a single pod if no sub-group lacks pods, of the sub-group that has
        the fewest for its minimum. Other groups are placed with all pods."""
        found = list(pods)
        if not self.is_elastic(group):
            return found
        wanted = {
            leaf.key: max(0, max(1, leaf.min_count) - self.members(leaf.key).started) for leaf in self.leaves(group)
        }
        if not any(wanted.values()):
            fullness = {key: self.fullness(key) for key in {pod.group for pod in found}}
            return [min(found, key=lambda pod: fullness[pod.group])] if found else []
        placed_next = []
        for pod in found:
            if pod.group is not None and wanted.get(pod.group, 0) > 0:
                wanted[pod.group] -= 1
                placed_next.append(pod)
        return placed_next

    def surplus(self, group: Group) -> set[str]:
        """Returns the uids of pods beyond the minimum of an elastic group: pods of low priority first, then young
        pods."""
        if not self.is_elastic(group) or not group.min_count:
            return set()
        members = self.members(group.key)
        running = [pod for uid, pod in members.placed.items() if uid not in members.deleting]
        number = max(0, len(running) - group.min_count)
        youngest_first = sorted(running, key=start_of, reverse=True)
        return {pod.uid for pod in sorted(youngest_first, key=lambda pod: pod.priority)[:number]}

    def number_to_admit(self, pod: Pod) -> int:
        """Returns how many pods the queue must have quota for when it admits this pod, including the pod itself."""
        group = self.of(pod) if pod.group is not None else None
        return group.expected if group is not None and group.expected and not self.is_started(group) else 1

    # Pods

    def wait(self, pod: Pod) -> None:
        """Adds a waiting pod."""
        if pod.group is not None:
            self._members_to_change(pod.group).waiting[pod.uid] = pod
            self._read_pod(pod)
            self._read_pod_topology(pod)

    def succeeded(self, pod: Pod) -> None:
        """Notes that a pod succeeded."""
        if pod.group is not None:
            self._members_to_change(pod.group).succeeded.add(pod.uid)

    def completed(self, pod: Pod) -> ObjectRef | None:
        """Returns what pods wait for that were known before this pod, if the group has all its pods now."""
        group = self.of(pod) if pod.group is not None else None
        root = self.root(group) if group is not None else None
        return reference(root.key) if isinstance(root, Group) and self.is_complete(root) else None

    def place(self, pod: Pod) -> None:
        """Notes that the pod is on a node, assumed or bound."""
        if pod.group is not None:
            members = self._members_to_change(pod.group)
            members.placed[pod.uid] = pod
            if is_deleting(pod.document):
                members.deleting.add(pod.uid)
            if pod.group.api in WITHOUT_OBJECTS and self.forest.get(pod.group) is None:
                self._read_pod(pod)

    def displace(self, pod: Pod) -> None:
        """Notes that the pod is no longer on its node."""
        if pod.group is not None:
            members = self._members_to_change(pod.group)
            members.placed.pop(pod.uid, None)
            members.deleting.discard(pod.uid)
            self._tidy(pod.group)

    def mark_evicted(self, pods: Iterable[Pod]) -> None:
        """Notes that the pods are to be evicted: they do not count as running any more."""
        for pod in pods:
            if pod.group is not None and pod.uid in self.members(pod.group).placed:
                self._members_to_change(pod.group).deleting.add(pod.uid)

    def unmark_evicted(self, pods: Iterable[Pod]) -> bool:
        """Notes that the pods could not be evicted. Returns whether others may have counted on some of them to end."""
        marked = [pod for pod in pods if self.is_evicted(pod) and not is_deleting(pod.document)]
        for pod in marked:
            if pod.group is not None:
                self._members_to_change(pod.group).deleting.discard(pod.uid)
        return bool(marked)

    def is_evicted(self, pod: Pod) -> bool:
        """Tells whether the pod is in a group and was chosen for eviction, or is being deleted."""
        return pod.group is not None and pod.uid in self.members(pod.group).deleting

    def ready(self, pod: Pod, *, is_ready: bool) -> None:
        """Notes whether a waiting pod can be tried."""
        if pod.group is not None:
            ready = self._members.setdefault(pod.group, Members()).ready
            (ready.add if is_ready else ready.discard)(pod.uid)
            self._tidy(pod.group)

    def forget(self, pod: Pod) -> Group | None:
        """Removes a waiting pod; returns the root of its group if too few pods are left to start it."""
        if pod.group is None:
            return None
        group = self.of(pod)
        root = self.root(group) if group is not None else None
        complete = isinstance(root, Group) and self.is_complete(root)
        members = self._members_to_change(pod.group)
        members.waiting.pop(pod.uid, None)
        members.ready.discard(pod.uid)
        self._tidy(pod.group)
        return root if isinstance(root, Group) and complete and not self.is_complete(root) else None

    def pod_removed(self, key: GroupKey, uid: str) -> None:
        """Notes that a pod that succeeded was deleted."""
        if key in self._members:
            self._members_to_change(key).succeeded.discard(uid)
            self._tidy(key)

    def _tidy(self, key: GroupKey) -> None:
        """Forgets the members of a group if none is left."""
        if not self._members[key]:
            del self._members[key]
            self._pod_topology.pop(key, None)
            if key.api in WITHOUT_OBJECTS:
                self.forest.remove(key)


def reference(key: GroupKey) -> ObjectRef:
    """The object that pods of an incomplete or missing group wait for."""
    return ObjectRef(f"{key.kind}.{key.api}", key.namespace, key.name)
