"""Branch: a group with the pods of it that are to be placed now, as part of the tree that is placed with it.

Slices of a group, of which the pods of each go to one domain, are branches too: so are those below them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from dray.api.objects import is_deleting
from dray.scheduling.core.state import State
from dray.scheduling.groups.groups import Groups
from dray.scheduling.model.group import Group, GroupKey, Path, Topology
from dray.scheduling.model.node import Node
from dray.scheduling.model.pod import Pod
from dray.scheduling.model.topology import Domain, index_of, rank_of
from dray.scheduling.placement.group_trial import Member


@dataclass(eq=False, slots=True)
class Branch:
    group: Group
    topology: Topology
    need: int = 0
    """Of one with pods: how many have to be placed; 0 where as many as must start have."""
    members: list[Member] = field(default_factory=list)
    children: list[Branch] = field(default_factory=list)
    least: int = 0
    """Of one with children: how many of them have to count."""
    taken: list[Node] = field(default_factory=list)
    """Where pods of it are already."""
    expected: int = 0
    """For so many there has to be room in its domain, though they come later."""
    planned: Domain | None = None
    """Where it is tried first."""

    @property
    def counts(self) -> bool:
        """Whether it does without any further pod."""
        if not self.children:
            return self.need == 0
        return sum(each.counts for each in self.children) >= self.least

    @property
    def size(self) -> int:
        return len(self.members) + sum(each.size for each in self.children)

    @property
    def fewest(self) -> int:
        """How many pods have to be placed, at least."""
        return sum(sorted(each.fewest for each in self.children)[: self.least]) if self.children else self.need

    def leaves(self) -> Iterator[Branch]:
        if not self.children:
            yield self
        for each in self.children:
            yield from each.leaves()

    def all(self) -> Iterator[Branch]:
        yield self
        for each in self.children:
            yield from each.all()


def branch_of(group: Group, members: Mapping[GroupKey, list[Member]], state: State, levels: Path = ()) -> Branch:
    """Of a group and all that are below it and have pods to be placed; those by their own group. `levels` are those of
    the groups above it."""
    topology = group.topology if len(group.topology.finest) >= len(levels) else replace(group.topology, levels=levels)
    groups = state.groups
    staying = [pod for pod in groups.placed(group) if not is_deleting(pod.document)]
    taken = [node for pod in staying if (node := state.node_of(pod)) is not None]
    children = groups.forest.children(group)
    if not children:
        known = groups.members(group.key)
        need = max(0, max(1, group.min_count) - known.started)
        expected = 0 if taken else group.expected
        leaf = Branch(group, topology, need, members.get(group.key, []), taken=taken, expected=expected)
        return _sliced(leaf, staying, state) if group.topology.slices else leaf
    levels = topology.finest
    found = [branch_of(each, members, state, levels) for each in children if _has_members(groups, each, members)]
    # The largest are the hardest to place.
    found.sort(key=lambda each: -each.size)
    others = sum(groups.is_started(each) for each in children if not _has_members(groups, each, members))
    least = max(0, max(1, group.min_groups) - others)
    return Branch(group, topology, children=found, least=least, taken=taken)


def _has_members(groups: Groups, group: Group, members: Mapping[GroupKey, list[Member]]) -> bool:
    return any(members.get(each.key) for each in groups.leaves(group))


def _sliced(branch: Branch, placed: Sequence[Pod], state: State) -> Branch:
    """With a branch for each slice. What has an index is in the slice of its index, others follow each other."""
    (path, size), *finer = branch.topology.slices
    every: list[Member | Pod] = sorted([*branch.members, *placed], key=lambda each: rank_of(_pod(each)))
    slices: dict[int, list[Member | Pod]] = {}
    for position, each in enumerate(every):
        index = index_of(_pod(each))
        slices.setdefault((index if index is not None else position) // max(1, size), []).append(each)
    preferred = branch.topology.slices_preferred
    own = () if finer else preferred
    topology = Topology(path, own, tuple(finer), branch.topology.finest, slices_preferred=preferred)
    children = []
    for part in slices.values():
        waiting = [each for each in part if isinstance(each, Member)]
        there = [each for each in part if isinstance(each, Pod)]
        if waiting:
            taken = [node for pod in there if (node := state.node_of(pod)) is not None]
            child = Branch(branch.group, topology, len(waiting), waiting, taken=taken)
            children.append(_sliced(child, there, state) if finer else child)
    least = -(-branch.need // max(1, size))
    rest = replace(branch.topology, slices=())
    return Branch(branch.group, rest, children=children, least=least, taken=branch.taken, expected=branch.expected)


def _pod(each: Member | Pod) -> Pod:
    return each.queued.pod if isinstance(each, Member) else each
