"""GroupMembers: the pods of each group, and how many of them a group needs, has and could start.

Members of a group are pods that wait, pods on nodes (assumed ones too), and pods that succeeded, which count towards
the minimum. A group with children has started once enough of its children have.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from dray.scheduling.groups.forest import GroupForest
from dray.scheduling.model.group import Group, GroupKey
from dray.scheduling.model.pod import Pod


@dataclass(slots=True)
class Members:
    """The pods of one group, by uid."""

    waiting: dict[str, Pod] = field(default_factory=dict)
    ready: set[str] = field(default_factory=set)
    """Waiting pods that can be tried: no plugin holds them back before the queue."""
    placed: dict[str, Pod] = field(default_factory=dict)
    deleting: set[str] = field(default_factory=set)
    """Placed pods that are being deleted, or are to be evicted. They do not count as started, so that the new pods of
    an evicted gang start together while the old ones still terminate."""
    succeeded: set[str] = field(default_factory=set)

    def __bool__(self) -> bool:
        return bool(self.waiting or self.placed or self.succeeded)

    @property
    def started(self) -> int:
        """Number of pods that count as running or finished."""
        return len(self.placed) - len(self.deleting) + len(self.succeeded - self.placed.keys())

    @property
    def number(self) -> int:
        """Number of all pods of the group, each counted once."""
        # The intersection iterates over the smaller set: usually either all pods wait or almost none does.
        return self.started + len(self.waiting) - len(self.waiting.keys() & self.placed.keys())


class GroupMembers:
    """Counts pods by group. `Groups` extends it with the objects that describe groups."""

    def __init__(self) -> None:
        self.forest = GroupForest()
        self._members: dict[GroupKey, Members] = {}
        self._complete: dict[GroupKey, bool] = {}
        """Answers of `is_complete` for groups in trees. A change of a pod drops the answers for the groups of the
        pod."""
        self._complete_revision = 0
        """The revision of the forest for which `_complete` holds."""

    def members(self, key: GroupKey) -> Members:
        return self._members.get(key) or Members()

    def _members_to_change(self, key: GroupKey) -> Members:
        """The members of a group that are about to change; drops answers that depend on them."""
        if self._complete and (group := self.forest.get(key)) is not None:
            for ancestor in self.forest.lineage(group):
                self._complete.pop(ancestor.key, None)
        return self._members.setdefault(key, Members())

    # Trees

    def leaves(self, group: Group) -> list[Group]:
        """The groups at and below this one that have pods of their own."""
        if group.parent is None and not self.forest.children(group):
            return [group]
        return [descendant for descendant in self.forest.below(group) if not self.forest.children(descendant)]

    def waiting(self, group: Group) -> Iterator[Pod]:
        """The waiting pods of the group and of all groups below it."""
        for leaf in self.leaves(group):
            yield from self.members(leaf.key).waiting.values()

    def placed(self, group: Group) -> Iterator[Pod]:
        """The placed pods of the group and of all groups below it."""
        for leaf in self.leaves(group):
            yield from self.members(leaf.key).placed.values()

    # Numbers of pods

    def need(self, group: Group) -> int:
        """The minimum number of pods that have to be placed together now; 1 once the group has started."""
        return max(1, self._need(group))

    def _need(self, group: Group) -> int:
        children = self.forest.children(group)
        if not children:
            return max(0, max(1, group.min_count) - self.members(group.key).started)
        needs = sorted(map(self._need, children))
        return sum(needs[: max(1, group.min_groups)])

    def can_start(self, group: Group, more: Callable[[Group], int]) -> bool:
        """Whether the group counts as started if each leaf below it gets `more(leaf)` additional pods."""
        children = self.forest.children(group)
        if not children:
            return self.members(group.key).started + more(group) >= max(1, group.min_count)
        enough = sum(self.can_start(child, more) for child in children)
        return enough >= max(1, group.min_groups)

    def is_started(self, group: Group) -> bool:
        return self.can_start(group, lambda _: 0)

    def is_started_without(self, group: Group, pods: Iterable[Pod]) -> bool:
        """Whether the group still has its minimum of pods after these pods are removed."""
        lost = Counter(pod.group for pod in pods if pod.group is not None and self._runs(pod.group, pod.uid))
        return self.can_start(group, lambda leaf: -lost[leaf.key])

    def _runs(self, key: GroupKey, uid: str) -> bool:
        members = self.members(key)
        return uid in members.placed and uid not in members.deleting

    def fullness(self, key: GroupKey | None) -> list[float]:
        """Returns how much a sub-group and the sub-groups above it have of what they need, from the top down: running
        pods as a part of the minimum, or started children as a part of those that must start."""
        group = self.forest.get(key) if key is not None else None
        lineage = list(self.forest.lineage(group)) if group is not None else []
        return [self._fullness(member) for member in reversed(lineage[:-1])]

    def _fullness(self, group: Group) -> float:
        children = self.forest.children(group)
        if children:
            return sum(map(self.is_started, children)) / max(1, group.min_groups)
        return self.members(group.key).started / max(1, group.min_count)

    def is_ready(self, group: Group) -> bool:
        """Whether enough pods can be tried now for the group to start."""
        return self.can_start(group, self._ready_number)

    def _ready_number(self, group: Group) -> int:
        members = self.members(group.key)
        return len(members.ready - members.placed.keys())

    def is_complete(self, group: Group) -> bool:
        """Whether as many pods exist as have to start together."""
        if group.parent is None and not self.forest.children(group):
            return self._is_leaf_complete(group)
        # Each pod of a tree asks for all groups of the tree, so answers are kept.
        if self._complete_revision != self.forest.revision:
            self._complete_revision = self.forest.revision
            self._complete.clear()
        complete = self._complete.get(group.key)
        if complete is None:
            children = self.forest.children(group)
            complete = self._complete[group.key] = (
                sum(map(self.is_complete, children)) >= max(1, group.min_groups)
                if children
                else self.can_start(group, self._unplaced_number)
            )
        return complete

    def _unplaced_number(self, group: Group) -> int:
        members = self.members(group.key)
        return members.number - members.started

    def _is_leaf_complete(self, group: Group) -> bool:
        members, least = self.members(group.key), group.min_count
        running = len(members.placed) - len(members.deleting)
        # `number` compares sets of pods; the lengths alone mostly suffice.
        return len(members.waiting) >= least or running >= least or members.number >= least
