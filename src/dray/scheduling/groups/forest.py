"""GroupForest: all known groups and the trees that they form.

A group names its parent, which may be created later or never. A tree with a cycle, or one that is deeper than its API
allows, cannot be placed (`Flawed`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Final, NamedTuple, TypeVar

from dray.scheduling.groups import native
from dray.scheduling.model.group import Group, GroupKey

_DEEPEST: Final = 16
_DEEPEST_NATIVE: Final = 4
T = TypeVar("T")


class Flaw(Enum):
    """Why a tree of groups cannot be placed."""

    MISSING = "parent that does not exist"
    CYCLE = "cycle"
    DEPTH = "depth"


class Flawed(NamedTuple):
    flaw: Flaw
    where: GroupKey


class GroupForest:
    def __init__(self) -> None:
        self._known: dict[GroupKey, Group] = {}
        self._children: dict[GroupKey, dict[GroupKey, None]] = {}
        """The children of each parent, whether or not the parent exists."""
        self._roots: dict[GroupKey, Group | Flawed] = {}
        """Answers of `root` for groups in trees; dropped when any group changes."""
        self._cyclic: dict[GroupKey, bool] = {}
        """Whether a group with children is part of a cycle; dropped when any group changes."""
        self.revision = 0
        """Incremented with every change of a group."""

    def get(self, key: GroupKey) -> Group | None:
        return self._known.get(key)

    def all(self) -> list[Group]:
        return list(self._known.values())

    def put(self, group: Group) -> bool:
        """Adds or replaces a group; returns whether it differs from before."""
        self._outdate()
        before = self._known.get(group.key)
        if before is not None and before.parent != group.parent:
            self.remove(group.key)
        self._known[group.key] = group
        if group.parent is not None:
            self._children.setdefault(group.parent, {})[group.key] = None
        return before != group

    def remove(self, key: GroupKey) -> None:
        self._outdate()
        group = self._known.pop(key, None)
        if group is not None and group.parent is not None:
            siblings = self._children[group.parent]
            siblings.pop(key, None)
            if not siblings:
                del self._children[group.parent]

    def _outdate(self) -> None:
        self.revision += 1
        self._roots.clear()
        self._cyclic.clear()

    def children(self, group: Group) -> list[Group]:
        """The children of a group; empty if the group is part of a cycle."""
        keys = self._children.get(group.key)
        return [self._known[key] for key in keys] if keys and not self._is_cyclic(group) else []

    def _is_cyclic(self, group: Group) -> bool:
        cyclic = self._cyclic.get(group.key)
        if cyclic is None:
            path, cyclic = self._climb(group, self._cyclic)
            if cyclic is None:
                cyclic = path[-1].parent is not None and path[-1].parent in self._known
            self._cyclic.update(dict.fromkeys((member.key for member in path), cyclic))
        return cyclic

    def _climb(self, group: Group, answers: Mapping[GroupKey, T]) -> tuple[list[Group], T | None]:
        """The group and its ancestors, up to the first ancestor that has an answer, and that answer.

        The answer holds for all groups on the path. Each group of a deep tree asks, so answers are kept.
        """
        path, seen, answer = [group], {group.key}, None
        while answer is None and (above := self._known.get(path[-1].parent) if path[-1].parent else None) is not None:
            if above.key in seen:
                break
            answer = answers.get(above.key)
            if answer is None:
                seen.add(above.key)
                path.append(above)
        return path, answer

    def lineage(self, group: Group) -> list[Group]:
        """The group, its parent, its grandparent and so on, as far as they exist."""
        lineage, seen = [group], {group.key}
        while (above := self._known.get(group.parent) if group.parent is not None else None) is not None:
            if above.key in seen:
                break
            seen.add(above.key)
            lineage.append(above)
            group = above
        return lineage

    def root(self, group: Group) -> Group | Flawed:
        """The root of the tree that the group is part of, or what is wrong with the tree."""
        if group.parent is None and group.key not in self._children:
            return group
        root = self._roots.get(group.key)
        if root is None:
            path, root = self._climb(group, self._roots)
            if root is None:
                root = self._root_of(path[-1])
            self._roots.update(dict.fromkeys((member.key for member in path), root))
        return root

    def _root_of(self, top: Group) -> Group | Flawed:
        if top.parent is not None:
            flaw = Flaw.CYCLE if top.parent in self._known else Flaw.MISSING
            return Flawed(flaw, top.parent)
        deepest = _DEEPEST_NATIVE if top.key.api == native.API_GROUP else _DEEPEST
        level, height = [top], 0
        while level and height <= deepest:
            level, height = [child for parent in level for child in self.children(parent)], height + 1
        return top if height <= deepest else Flawed(Flaw.DEPTH, top.key)

    def below(self, group: Group) -> Iterator[Group]:
        """The group and all its descendants, parents before their children."""
        seen, stack = {group.key}, [group]
        while stack:
            current = stack.pop()
            yield current
            for child in reversed(self.children(current)):
                if child.key not in seen:
                    seen.add(child.key)
                    stack.append(child)
