"""State: the cluster as the scheduler knows it, updated by events and by the scheduler's own decisions.

Nothing is copied for a pod. Two logs list the nodes that changed; their readers remember how far they have read. Code
that keeps answers by node reads in `touched` which nodes to filter again. `helped` has only the nodes where something
became free or possible, which waiting pods are woken for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any
from zlib import crc32

from dray.allocation import Inventory, node_selectors
from dray.allocation.devices import DeviceID
from dray.allocation.node_selectors import NodeSelectorError
from dray.allocation.usage import device_of
from dray.api.gates import ALL_GATES, FeatureGates
from dray.api.objects import Key, Object, labels_of, mapping, walk
from dray.scheduling.cluster.affinity_index import AffinityIndex
from dray.scheduling.cluster.claim_assume_cache import ClaimAssumeCache
from dray.scheduling.cluster.cluster_capacity import ClusterCapacity
from dray.scheduling.cluster.device_demand import DeviceDemands
from dray.scheduling.cluster.extended import ResourceMap
from dray.scheduling.cluster.node_classes import NodeClasses
from dray.scheduling.cluster.volumes import VolumeClaims
from dray.scheduling.core.change_log import ChangeLog
from dray.scheduling.core.eviction_history import EvictionHistory
from dray.scheduling.core.what_if import Trial
from dray.scheduling.groups.groups import Groups
from dray.scheduling.groups.unknown_kinds import UnknownKinds
from dray.scheduling.model.faults import Report, ignore
from dray.scheduling.model.journal import Journal
from dray.scheduling.model.node import Node
from dray.scheduling.model.pod import Pod
from dray.scheduling.model.signatures import Signatures
from dray.scheduling.quota.queues import Queues


class State:
    def __init__(self, *, gates: FeatureGates = ALL_GATES, seed: int = 0, report: Report = ignore) -> None:
        self.gates = gates
        self.report = report
        self.journal = Journal()
        """The open trials. Resources that become free in a trial do not wake waiting pods."""
        self.inventory = Inventory(gates=gates)
        freed, taken = partial(self._devices_changed, helps=True), partial(self._devices_changed, helps=False)
        self.claims = ClaimAssumeCache(self.inventory, freed, taken)
        self.resources = ResourceMap(enabled=gates["DRAExtendedResource"])
        self.demands = DeviceDemands()
        self.affinity = AffinityIndex()
        self.groups = Groups(gates)
        self.nodes: dict[str, Node] = {}
        self.capacity = ClusterCapacity(self.nodes, self.inventory, self.resources)
        self.queues = Queues(self.claims, self.resources, self.groups, self.capacity, self.journal)
        self.signatures = Signatures(self.queues.labels)
        self.evictions = EvictionHistory()
        self.node_classes = NodeClasses()
        self.unknown_kinds = UnknownKinds()
        self.volumes = VolumeClaims()
        self.numbered: list[Node | None] = []
        """Nodes by number; the number of a deleted node is reused."""
        self.ties: list[int] = []
        """The order of equally good nodes, by number."""
        self.images: dict[str, int] = {}
        """The number of nodes that have an image, by name of the image."""
        self.charging = False
        """Whether a device that takes resources from its node was ever published."""
        self.size = 0
        """The number of nodes that exist."""
        self.soft_taints = 0
        """The number of nodes with a PreferNoSchedule taint."""
        self.touched = ChangeLog()
        self.helped = ChangeLog()
        self.pods_revision = 0
        """Incremented when a pod is added to or removed from a node. Placeholders of nominations and changes in trials
        do not count."""
        self.nodes_revision = 0
        """Incremented when a node is created or deleted, or its labels change."""
        self._places: dict[str, Node] = {}
        """The nodes of pods, by pod uid."""
        self._spare: list[int] = []
        self._seed = seed

    def __iter__(self) -> Iterator[Node]:
        """Iterates over the nodes that exist."""
        return (node for node in self.nodes.values() if node.document is not None)

    # Nodes

    def put_node(self, document: Object) -> None:
        self._read(self._node(document["metadata"]["name"]), document)

    def remove_node(self, name: str) -> None:
        node = self.nodes.get(name)
        if node is not None and node.document is not None:
            self._read(node, None)
            self._retire(node)

    def _read(self, node: Node, document: Object | None) -> None:
        """Reads the new document of a node; None if the node was deleted."""
        before, images, exists = _relevant(node), node.images, node.document is not None
        labels, soft_taints = node.labels, _is_soft(node)
        node.read(document)
        is_other = exists is not (document is not None)
        self.size += (document is not None) - exists
        self.soft_taints += _is_soft(node) - soft_taints
        self._count_images(images, -1)
        self._count_images(node.images, 1)
        if is_other or labels != node.labels:
            self.nodes_revision += 1
            self.affinity.node_changed(node, dict(labels))
            self.queues.node_changed(node, labels)
        # Most updates are heartbeats.
        if is_other or before != _relevant(node):
            self.capacity.outdate()
            self._changed(node, helps=document is not None)

    def _node(self, name: str) -> Node:
        node = self.nodes.get(name)
        if node is None:
            number = self._spare.pop() if self._spare else len(self.numbered)
            if number == len(self.numbered):
                self.numbered.append(None)
                self.ties.append(0)
            node = self.nodes[name] = self.numbered[number] = Node(name, number)
            self.ties[number] = crc32(f"{self._seed}/{name}".encode())
        return node

    def _retire(self, node: Node) -> None:
        """Drops a deleted node once no pods are on it."""
        if node.document is None and not node.pods:
            del self.nodes[node.name]
            self.numbered[node.number] = None
            self._spare.append(node.number)

    def _count_images(self, names: Iterable[str], sign: int) -> None:
        for name in names:
            left = self.images.get(name, 0) + sign
            if left:
                self.images[name] = left
            else:
                self.images.pop(name, None)

    def _changed(self, node: Node, *, helps: bool) -> None:
        self.touched.note(node.number)
        if helps and not self.journal.trials:
            self.helped.note(node.number)

    def put_namespace(self, name: str, labels: Mapping[str, str] | None) -> None:
        """Reads the labels of a namespace; None if it was deleted."""
        self.affinity.namespace_changed(name, labels)
        self.queues.namespace_changed()
        self.pods_revision += 1

    # Pods on nodes

    def place(self, pod: Pod, name: str) -> None:
        node = self._node(name)
        node.add(pod)
        self._places[pod.uid] = node
        self.affinity.add(pod, node)
        if pod.joins:
            self.groups.place(pod)
            self.queues.place(pod, node)
        self.pods_revision += not (pod.is_placeholder or self.journal.trials)
        self._changed(node, helps=False)

    def reread(self, pod: Pod, document: Object) -> None:
        """Reads the new document of a pod. If its labels changed and it is assumed on a node, it is counted there
        again."""
        node = self._places.get(pod.uid)
        if node is None or pod.labels == labels_of(document):
            pod.update(document)
            return
        self.displace(pod, node.name, helps=False)
        pod.update(document)
        self.place(pod, node.name)

    def displace(self, pod: Pod, name: str, *, helps: bool = True) -> None:
        node = self.nodes.get(name)
        if node is None or pod.uid not in node.pods:
            return
        node.remove(pod)
        del self._places[pod.uid]
        self.affinity.remove(pod, node)
        self.groups.displace(pod)
        self.queues.displace(pod)
        self.pods_revision += helps and not self.journal.trials
        self._changed(node, helps=helps)
        self._retire(node)

    def replace(self, known: Pod, pod: Pod, name: str) -> None:
        """Counts the new version of a pod in place of the known one. A pod that is being evicted stays marked, so that
        no other pod is evicted in its place."""
        in_queue, in_group = known.uid in self.queues.evicted, self.groups.is_evicted(known)
        self.displace(known, self._places[known.uid].name)
        self.place(pod, name)
        self.queues.mark_evicted((pod,) if in_queue else ())
        self.groups.mark_evicted((pod,) if in_group else ())

    def what_if(self, own: Iterable[Key] = (), *, for_devices: bool = True) -> Trial:
        """Tries out changes, which are taken back at the end; see `Trial`."""
        if not self.journal.trials:
            self.queues.refresh()
        return Trial(self, own, for_devices=for_devices)

    def pods_changed(self) -> None:
        """Notes that a trial in which pods were placed is kept."""
        self.pods_revision += 1

    def node_of(self, pod: Pod) -> Node | None:
        return self._places.get(pod.uid)

    def placed(self, uid: str) -> Pod | None:
        node = self._places.get(uid)
        return node.pods.get(uid) if node is not None else None

    # Devices

    def put_slice(self, document: Object) -> None:
        """Reads a ResourceSlice. Raises NodeSelectorError if a node selector is invalid; the slice is then left out,
        since every search would fail on it."""
        try:
            self._check_node_selectors(document["spec"])
            self.inventory.put_slice(document)
        except NodeSelectorError:
            self.remove_slice(document)
            raise
        except Exception:
            # The former content of the slice is dropped.
            self.reconsider()
            raise
        devices = document["spec"].get("devices") or ()
        if not self.charging and self.gates["DRANodeAllocatableResources"]:
            self.charging = any(device.get("nodeAllocatableResources") for device in devices)
        self._published(document)

    def _check_node_selectors(self, spec: Object) -> None:
        if selector := spec.get("nodeSelector"):
            node_selectors.check(selector, "spec.nodeSelector")
        for index, device in enumerate(spec.get("devices") or ()):
            if selector := device.get("nodeSelector"):
                node_selectors.check(selector, f"spec.devices[{index}].nodeSelector")

    def remove_slice(self, document: Object) -> None:
        self.inventory.remove_slice(document["metadata"]["name"])
        self._published(document)

    def _published(self, document: Object) -> None:
        self.capacity.outdate_devices()
        spec = mapping(document.get("spec"))
        name, driver, pool = spec.get("nodeName"), spec.get("driver") or "", mapping(spec.get("pool")).get("name") or ""
        if not name or self.inventory.viewers((driver, pool, "")) is None:
            self.reconsider()
        elif name in self.nodes:
            self._changed(self.nodes[name], helps=True)

    def put_class(self, document: Object) -> None:
        name = document["metadata"]["name"]
        before = self.resources.names(name)
        self.inventory.put_class(document)
        self.resources.put_class(document)
        self._classes_changed(named_otherwise=self.resources.names(name) != before)

    def remove_class(self, name: str) -> None:
        before = self.resources.names(name)
        self.inventory.remove_class(name)
        self.resources.remove_class(name)
        self._classes_changed(named_otherwise=self.resources.names(name) != before)

    def leave_out_extended(self) -> None:
        self.resources.disable()
        self._classes_changed(named_otherwise=True)

    def _classes_changed(self, *, named_otherwise: bool) -> None:
        """Drops answers that depend on device classes. `named_otherwise` tells whether names of extended resources
        changed, by which queues count devices."""
        if named_otherwise:
            self.queues.outdate()
        self.capacity.outdate_devices()
        self.demands.forget_classes()
        self.reconsider()

    def put_taint_rule(self, document: Object) -> None:
        if not walk(document, "spec", "taint").get("effect"):
            # Without an effect the rule would be checked on every device in vain.
            raise ValueError("spec.taint.effect: required")
        self.inventory.put_taint_rule(document)
        self.reconsider()

    def remove_taint_rule(self, name: str) -> None:
        self.inventory.remove_taint_rule(name)
        self.reconsider()

    def reconsider(self) -> None:
        """Notes a change that concerns all nodes."""
        if not self.journal.trials:
            self.touched.everything()
            self.helped.everything()

    def hold(self, key: Key, results: Sequence[Object]) -> None:
        """Holds devices for a pod, under a key that no claim has.

        Shares get other ids too, since the claim for which they are held may be allocated meanwhile.
        """
        kept = [
            {**result, "shareID": f"{share}/{key[1]}"} if (share := result.get("shareID")) else result
            for result in results
        ]
        self._devices_changed(self.inventory.usage.hold(key, kept), helps=False)
        self.inventory.follow([device_of(result) for result in results])

    def release(self, key: Key, *, helps: bool) -> None:
        devices = self.inventory.usage.release(key)
        self.inventory.follow(devices)
        self._devices_changed(devices, helps=helps)

    def vacated(self, name: str, results: Iterable[Object]) -> None:
        """Notes that devices and resources of a node are no longer kept for a pod, so that others can use them."""
        self.pods_revision += 1
        node = self.nodes.get(name)
        if node is not None:
            self._changed(node, helps=True)
        self._devices_changed([device_of(result) for result in results], helps=True)

    def _devices_changed(self, devices: Iterable[DeviceID], *, helps: bool) -> None:
        names: set[str] = set()
        for device in devices:
            viewers = self.inventory.viewers(device)
            if viewers is None:
                # The search for devices finds out that a device of all nodes is taken.
                if helps:
                    self.reconsider()
                return
            names.update(viewers)
        for name in names:
            if name in self.nodes:
                self._changed(self.nodes[name], helps=helps)


def _is_soft(node: Node) -> bool:
    return any(taint.get("effect") == "PreferNoSchedule" for taint in node.taints)


def _relevant(node: Node) -> tuple[Any, ...]:
    features = ((node.document or {}).get("status") or {}).get("declaredFeatures")
    return node.labels, node.taints, node.unschedulable, node.allocatable, node.images, features
