"""Candidates: the running pods that may be evicted under one rule, alone or as whole groups.

A pod that is being bound cannot be evicted yet. If such a pod was left out, `awaits_binding` says so: the search may
find more once the pod is bound.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dray.allocation.devices import DeviceID
from dray.api.objects import Object, is_deleting
from dray.scheduling.core.state import State
from dray.scheduling.core.what_if import consumers
from dray.scheduling.model.node import Node
from dray.scheduling.model.pod import Pod
from dray.scheduling.quota.priority_removals import Unit
from dray.scheduling.quota.queue_policy import Removals


class Candidates:
    """The pods that may be evicted. Pods elsewhere that use devices of a node count for it only if `for_devices`."""

    def __init__(self, state: State, rule: Removals, *, for_devices: bool) -> None:
        self.rule = rule
        self.awaits_binding = False
        self._state = state
        self._for_devices = for_devices

    def near(self, node: Node) -> Iterator[Pod]:
        """Yields the pods on a node that may be evicted, and pods on other nodes with devices that the node reaches."""
        return self._bound((*node.pods.values(), *self.away(node)))

    def everywhere(self) -> Iterator[Pod]:
        for node in list(self._state.nodes.values()):
            yield from self._bound(list(node.pods.values()))

    def _bound(self, pods: Iterable[Pod]) -> Iterator[Pod]:
        for pod in pods:
            if not self._is_evictable(pod):
                continue
            if pod.is_assigned:
                yield pod
            else:
                self.awaits_binding = True

    def away(self, node: Node) -> list[Pod]:
        """Returns the pods on other nodes that use devices which the node reaches too."""
        uids = {
            uid
            for device, claim in (self.held(node) if self._for_devices else ())
            if self._state.inventory.viewers(device) is None
            for uid in consumers(claim)
        }
        return [pod for uid in sorted(uids - node.pods.keys()) if (pod := self._state.placed(uid)) is not None]

    def held(self, node: Node) -> Iterator[tuple[DeviceID, Object]]:
        """Yields the devices of the node that are in use, with the claims that use them."""
        state = self._state
        view = state.inventory.judged_view(node.document)
        for device in view.devices if view is not None else ():
            usage = state.inventory.usage.devices.get(device.id)
            for key in usage.claims() if usage is not None else ():
                claim = state.claims.get(key)
                self.awaits_binding = self.awaits_binding or state.claims.assumed(key)
                if claim is not None:
                    yield device.id, claim

    def choices(self, pods: Iterable[Pod], marked: Iterable[Pod] = ()) -> list[list[Unit]]:
        """Returns alternatives of units to evict: first only surplus pods of elastic groups, then whole groups.

        Pods that are `marked` are evicted anyway and left out.
        """
        found = list(pods)
        whole = self._units(found, marked)
        groups = self._state.groups
        surplus: set[str] = set()
        for group in {group.key: group for pod in found if (group := groups.of(pod)) is not None}.values():
            surplus |= groups.surplus(group)
        leaving = {pod.uid for pod in marked}
        single = [(pod,) for pod in found if pod.uid in surplus - leaving]
        # If a group needs only one pod, each of its pods is a unit by itself, including surplus pods.
        others = [unit for unit in whole if len(unit) == 1 and unit[0].uid not in surplus]
        return [[*single, *others], whole] if single else [whole]

    def _units(self, pods: Iterable[Pod], marked: Iterable[Pod]) -> list[Unit]:
        """Returns the units of the pods: each pod with all pods that are evicted together with it."""
        found: dict[str, Unit] = {}
        leaving = {pod.uid for pod in marked}
        for pod in pods:
            if pod.uid in leaving:
                continue
            group = self._state.groups.disruption_unit(pod)
            if group is None:
                found[pod.uid] = (pod,)
                continue
            unit = tuple(other for other in self._state.groups.placed(group) if other.uid not in leaving)
            if not all(map(self._is_evictable, unit)):
                continue
            if all(pod.is_assigned for pod in unit):
                found[group.uid] = unit
            else:
                self.awaits_binding = True
        return list(found.values())

    def is_leaving(self, pod: Pod) -> bool:
        """Whether the pod is being deleted, or was chosen for eviction before."""
        state = self._state
        return is_deleting(pod.document) or pod.uid in state.queues.evicted or state.groups.is_evicted(pod)

    def _is_evictable(self, pod: Pod) -> bool:
        return self.rule.is_evictable(pod) or self.is_leaving(pod)
