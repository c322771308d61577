"""GroupForest: the groups that are known, as the trees that they form.

A group names its parent, which may come later or never. Where a tree leads back to itself or is deeper than its API
allows, nobody can say what is to be placed with what.
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
        """By parent, known or not."""
        self._roots: dict[GroupKey, Group | Flawed] = {}
        """Of groups in trees, until one of the groups changes."""
        self._cyclic: dict[GroupKey, bool] = {}
        """Likewise, of groups with children."""
        self.revision = 0
        """Changes with the groups."""

    def get(self, key: GroupKey) -> Group | None:
        return self._known.get(key)

    def all(self) -> list[Group]:
        return list(self._known.values())

    def put(self, group: Group) -> bool:
        """Whether it says something else than before."""
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
        """None of a group that is above itself."""
        found = self._children.get(group.key)
        return [self._known[key] for key in found] if found and not self._is_cyclic(group) else []

    def _is_cyclic(self, group: Group) -> bool:
        known = self._cyclic.get(group.key)
        if known is None:
            path, known = self._climb(group, self._cyclic)
            if known is None:
                known = path[-1].parent is not None and path[-1].parent in self._known
            self._cyclic.update(dict.fromkeys((each.key for each in path), known))
        return known

    def _climb(self, group: Group, known: Mapping[GroupKey, T]) -> tuple[list[Group], T | None]:
        """The group and those above it up to one of which something is known, and what that is: it holds for all of
        them. In a deep tree everybody asks."""
        path, seen, found = [group], {group.key}, None
        while found is None and (above := self._known.get(path[-1].parent) if path[-1].parent else None) is not None:
            if above.key in seen:
                break
            found = known.get(above.key)
            if found is None:
                seen.add(above.key)
                path.append(above)
        return path, found

    def lineage(self, group: Group) -> list[Group]:
        """The group, its parent and so on, as far as they are known."""
        found, seen = [group], {group.key}
        while (above := self._known.get(group.parent) if group.parent is not None else None) is not None:
            if above.key in seen:
                break
            seen.add(above.key)
            found.append(above)
            group = above
        return found

    def root(self, group: Group) -> Group | Flawed:
        if group.parent is None and group.key not in self._children:
            return group
        known = self._roots.get(group.key)
        if known is None:
            path, known = self._climb(group, self._roots)
            if known is None:
                known = self._root_of(path[-1])
            self._roots.update(dict.fromkeys((each.key for each in path), known))
        return known

    def _root_of(self, top: Group) -> Group | Flawed:
        if top.parent is not None:
            flaw = Flaw.CYCLE if top.parent in self._known else Flaw.MISSING
            return Flawed(flaw, top.parent)
        deepest = _DEEPEST_NATIVE if top.key.api == native.API_GROUP else _DEEPEST
        level, height = [top], 0
        while level and height <= deepest:
            level, height = [child for each in level for child in self.children(each)], height + 1
        return top if height <= deepest else Flawed(Flaw.DEPTH, top.key)

    def below(self, group: Group) -> Iterator[Group]:
        """The group and all that are below it."""
        seen, stack = {group.key}, [group]
        while stack:
            each = stack.pop()
            yield each
            for child in reversed(self.children(each)):
                if child.key not in seen:
                    seen.add(child.key)
                    stack.append(child)
