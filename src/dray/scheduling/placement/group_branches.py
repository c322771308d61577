"""Branch: a group with its pods that are to be placed now, as part of the tree of groups that is placed together.

A slice of a group, whose pods must be in one domain, is a branch too, and so are slices of slices.
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
    """How many pods of a leaf have to be placed; 0 if its minimum has started."""
    members: list[Member] = field(default_factory=list)
    children: list[Branch] = field(default_factory=list)
    least: int = 0
    """How many of the children must have their minimum of pods."""
    taken: list[Node] = field(default_factory=list)
    """The nodes of the group's pods that are placed already."""
    expected: int = 0
    """The number of pods that the domain of the branch must have room for, including pods that are created later."""
    planned: Domain | None = None
    """The domain that is tried first."""

    @property
    def counts(self) -> bool:
        """Whether the branch has its minimum of pods without any further pod."""
        if not self.children:
            return self.need == 0
        return sum(child.counts for child in self.children) >= self.least

    @property
    def size(self) -> int:
        """The number of pods to be placed, including those of all branches below."""
        return len(self.members) + sum(child.size for child in self.children)

    @property
    def fewest(self) -> int:
        """The minimum number of pods that have to be placed."""
        return sum(sorted(child.fewest for child in self.children)[: self.least]) if self.children else self.need

    def leaves(self) -> Iterator[Branch]:
        if not self.children:
            yield self
        for child in self.children:
            yield from child.leaves()

    def all(self) -> Iterator[Branch]:
        yield self
        for child in self.children:
            yield from child.all()


def branch_of(group: Group, members: Mapping[GroupKey, list[Member]], state: State, levels: Path = ()) -> Branch:
    """Returns the branch of a group, with branches for all groups below it that have pods to be placed.

    `members` are these pods by their group, `levels` the topology levels of the parent group.
    """
    topology = group.topology if len(group.topology.finest) >= len(levels) else replace(group.topology, levels=levels)
    groups = state.groups
    running = [pod for pod in groups.placed(group) if not is_deleting(pod.document)]
    taken = [node for pod in running if (node := state.node_of(pod)) is not None]
    children = groups.forest.children(group)
    if not children:
        need = max(0, max(1, group.min_count) - groups.members(group.key).started)
        expected = 0 if taken else group.expected
        leaf = Branch(group, topology, need, members.get(group.key, []), taken=taken, expected=expected)
        return _sliced(leaf, running, state) if group.topology.slices else leaf
    levels = topology.finest
    branches = [branch_of(child, members, state, levels) for child in children if _has_members(groups, child, members)]
    # Large branches are placed first, since they are hardest to place.
    branches.sort(key=lambda branch: -branch.size)
    others = sum(groups.is_started(child) for child in children if not _has_members(groups, child, members))
    least = max(0, max(1, group.min_groups) - others)
    return Branch(group, topology, children=branches, least=least, taken=taken)


def _has_members(groups: Groups, group: Group, members: Mapping[GroupKey, list[Member]]) -> bool:
    return any(members.get(leaf.key) for leaf in groups.leaves(group))


def _sliced(branch: Branch, placed: Sequence[Pod], state: State) -> Branch:
    """Returns the branch with a child for each slice: pods with a completion index by index, others in their order."""
    (path, size), *finer = branch.topology.slices
    ordered: list[Member | Pod] = sorted([*branch.members, *placed], key=lambda item: rank_of(_pod(item)))
    slices: dict[int, list[Member | Pod]] = {}
    for position, item in enumerate(ordered):
        index = index_of(_pod(item))
        slices.setdefault((index if index is not None else position) // max(1, size), []).append(item)
    preferred = branch.topology.slices_preferred
    own = () if finer else preferred
    topology = Topology(path, own, tuple(finer), branch.topology.finest, slices_preferred=preferred)
    children = []
    for part in slices.values():
        waiting = [item for item in part if isinstance(item, Member)]
        placed_here = [item for item in part if isinstance(item, Pod)]
        if waiting:
            taken = [node for pod in placed_here if (node := state.node_of(pod)) is not None]
            child = Branch(branch.group, topology, len(waiting), waiting, taken=taken)
            children.append(_sliced(child, placed_here, state) if finer else child)
    least = -(-branch.need // max(1, size))
    rest = replace(branch.topology, slices=())
    return Branch(branch.group, rest, children=children, least=least, taken=branch.taken, expected=branch.expected)


def _pod(item: Member | Pod) -> Pod:
    return item.queued.pod if isinstance(item, Member) else item
