"""GroupEvents: handles changes of groups, topologies and priority classes, and wakes the pods that they concern."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from dray.api.objects import Object, metadata_of, text
from dray.scheduling.attempts.context import Context
from dray.scheduling.groups.front_ends import FRONT_ENDS, TOPOLOGIES, WITHOUT_OBJECTS
from dray.scheduling.groups.groups import reference
from dray.scheduling.model.group import Group, GroupKey
from dray.scheduling.model.pod import Pod
from dray.scheduling.plugins.gang_scheduling import ANY_TOPOLOGY
from dray.scheduling.waiting.queued_pods import SubQueue
from dray.scheduling.waiting.wait_index import ObjectChanged

PRIORITY_CLASS: Final = "PriorityClass"
KINDS: Final = frozenset((*FRONT_ENDS, *TOPOLOGIES, PRIORITY_CLASS))


class GroupEvents:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._groups = context.state.groups

    def put(self, kind: str, document: Object, now: float) -> None:
        if kind == PRIORITY_CLASS:
            self._changed(self._groups.put_priority_class(document), now)
        elif kind in TOPOLOGIES:
            self._changed(self._groups.put_topology(kind, document), now)
            self._topologies_changed(now)
        else:
            self._changed(self._groups.put(kind, document), now)

    def remove(self, kind: str, document: Object, now: float) -> None:
        if kind == PRIORITY_CLASS:
            self._changed(self._groups.remove_priority_class(document), now)
            return
        if kind in TOPOLOGIES:
            self._changed(self._groups.remove_topology(kind, document), now)
            self._topologies_changed(now)
            return
        for key in self._groups.remove(kind, document):
            self._context.queue.remove_group(key)
            self._context.reservations.forget(key)
            self._context.waits.wake(ObjectChanged(reference(key)), now)

    def _topologies_changed(self, now: float) -> None:
        """Wakes pods that wait for topology levels, and charges pods again: flavors may have other nodes than
        before."""
        self._context.waits.wake(ObjectChanged(ANY_TOPOLOGY), now)
        self._context.state.queues.outdate()
        self._context.state.reconsider()

    def queues_changed(self, now: float) -> None:
        """Reads the topologies of groups again: flavors may name another Topology for the pods of a queue."""
        if any(map(self._groups.topologies.number, WITHOUT_OBJECTS)):
            self._changed(self._groups.read_again(), now)

    def _changed(self, found: Iterable[Group], now: float) -> None:
        groups = self._groups
        tops: dict[GroupKey, Group] = {}
        concerned: dict[GroupKey, None] = {}
        for changed in found:
            self._prioritize(changed, now)
            self._charge_again(changed)
            root = groups.root(changed)
            top = root if isinstance(root, Group) else changed
            tops[top.key] = top
            concerned.update({changed.key: None, top.key: None})
        # Each tree is handled once, however many of its groups changed.
        for top in tops.values():
            for leaf in groups.leaves(top) if groups.root(top) is top else [top]:
                waiting = groups.members(leaf.key).waiting
                created = _created(top, waiting.values())
                self._context.queue.put_group(leaf.key, waiting, top.key, created, by_pods=top.ordered_by_pods)
        for key in concerned:
            self._context.waits.wake(ObjectChanged(reference(key)), now)

    def _charge_again(self, group: Group) -> None:
        """Charges the pods of a group again, which may name another queue now. Pods that are being evicted stay
        marked."""
        state = self._context.state
        for pod in self._groups.placed(group) if group.queue else ():
            node, is_evicted = state.node_of(pod), pod.uid in state.queues.evicted
            assert node is not None
            state.queues.displace(pod)
            state.queues.place(pod, node)
            if is_evicted:
                state.queues.mark_evicted((pod,))

    def _prioritize(self, group: Group, now: float) -> None:
        """Sets the priority of the pods of the group again."""
        members = self._groups.members(group.key)
        for pod in (*members.waiting.values(), *members.placed.values()):
            priority = self._groups.priority_of(pod)
            if pod.priority == priority:
                continue
            pod.prioritize(priority)
            queued = self._context.queue.get(pod.uid)
            if queued is not None and queued.subqueue in (SubQueue.ACTIVE, SubQueue.UNSCHEDULABLE):
                # The pod is enqueued again with the new priority.
                self._context.queue.gate(queued, now)
                self._context.enqueue(queued, now)


def _created(group: Group, waiting: Iterable[Pod]) -> str:
    """Returns when the group was created, or the first of its pods if these decide its turn, or if no object describes
    the group; empty if there is no pod yet."""
    created = "" if group.ordered_by_pods else text(metadata_of(group.document).get("creationTimestamp"))
    return created or min((pod.created for pod in waiting), default="")
