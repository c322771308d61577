"""TreeSearch: places for a tree of groups as one unit.

A group goes to one domain of its required level: first those of the preferred level that have room for all of it are
tried, then coarser ones, the smallest that suffices first. Its children are placed inside, one after the other, each
with what its siblings left; enough of them must find their places, the others may be left out. Where a child finds
none, those before it are placed in another way. First only the promising ways are tried, then, as long as there is work
left, all.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from dray.allocation import WorkExhausted
from dray.scheduling.model.group import Path
from dray.scheduling.model.node import Node
from dray.scheduling.model.topology import Domain, domains_of, inner_values, taken_values
from dray.scheduling.placement.group_branches import Branch
from dray.scheduling.placement.group_search import GroupSearch, Kind
from dray.scheduling.placement.group_trial import GroupTrial, Member
from dray.scheduling.placement.packing import Place, spread_over

KindOf = Callable[[list[Member], Iterable[int]], Kind]
"""Members of one kind, with the room that nodes have for them as things are."""

Parts = Callable[[Branch, Mapping[int, Node]], Sequence[Mapping[int, Node]]]
"""Of these nodes, those that pods of a branch may have together, the best first: all, or those of one flavor each."""


@dataclass(frozen=True, slots=True)
class Lack:
    """A group for which there is no place beside the others."""

    branch: Branch
    search: GroupSearch
    kinds: list[Kind]
    domain: Domain
    domains: int


@dataclass(slots=True)
class TreeSearch:
    trial: GroupTrial
    kind_of: KindOf
    nodes: Mapping[int, Node]
    parts: Parts
    undecided: bool = False
    best: int = 0
    """How many pods could be placed at once, or have room at most, in the best case so far."""
    _root: Branch | None = None
    _alone: bool = True
    _revision: int = -1
    _kept: dict[tuple[Hashable, int], tuple[Mapping[int, Node], Kind]] = field(default_factory=dict)
    """Kinds on certain nodes, at a moment of the trial."""

    def run(self, root: Branch) -> bool:
        """Whether as many are placed now as must be, and at least one; else none is."""
        self._root, self._alone = root, not root.children
        least = max(1, root.need)
        try:
            for thorough in (False, True):
                if thorough and not self._is_worth_searching(root):
                    break
                for _ in self._ways(root, self.nodes, thorough, least):
                    if self.trial.placed():
                        return True
                    break
                self.trial.undo()
        except WorkExhausted:
            self.undecided = True
        self.trial.undo()
        return False

    def _is_worth_searching(self, root: Branch) -> bool:
        """What is left of a group that has started is tried with every change anyway."""
        if root.children:
            return not root.counts
        return GroupSearch(self.trial, self.nodes).is_worth_searching(self._kinds(root, self.nodes))

    def _ways(self, branch: Branch, nodes: Mapping[int, Node], thorough: bool, need: int) -> Iterator[None]:
        for part in self.parts(branch, nodes):
            for domain, here in self._candidates(branch, part, thorough, need):
                if branch.children:
                    yield from self._inner(branch, domain, here, thorough)
                else:
                    yield from self._leaf(branch, domain, here, thorough, need)

    # Domains

    def _candidates(
        self, branch: Branch, nodes: Mapping[int, Node], thorough: bool, need: int
    ) -> Iterator[tuple[Domain, Mapping[int, Node]]]:
        """The domains where the branch may have its places, the best first."""
        topology, tried = branch.topology, set[Domain]()
        if branch.planned is not None and not thorough:
            tried.add(branch.planned)
            yield branch.planned, {number: nodes[number] for number in branch.planned.nodes if number in nodes}
        kinds = {id(each): self._kinds(each, nodes) for each in branch.leaves()}
        finest = len(topology.required) if thorough else max(len(topology.preferred), len(topology.required))
        for depth in range(finest, len(topology.required) - 1, -1):
            preferred = depth > len(topology.required)
            path = topology.preferred[:depth] if preferred else topology.required
            wanted = branch.size if preferred else need
            for domain in self._in_order(branch, path, nodes, kinds, wanted):
                if domain not in tried:
                    yield domain, {number: nodes[number] for number in domain.nodes}

    def _in_order(
        self, branch: Branch, path: Path, nodes: Mapping[int, Node], kinds: Mapping[int, list[Kind]], wanted: int
    ) -> list[Domain]:
        """Those that may have room, in the order in which they are tried."""
        found = []
        for bound, may_count, domain in self._ranked(branch, path, nodes, kinds):
            if bound >= wanted and may_count:
                found.append(domain)
            elif branch is self._root:
                self.best = max(self.best, bound)
        return found

    def _ranked(
        self, branch: Branch, path: Path, nodes: Mapping[int, Node], kinds: Mapping[int, list[Kind]]
    ) -> list[tuple[int, bool, Domain]]:
        """Those first that have room for all pods, the smallest of them first; then those that have room for most."""
        domains, there = domains_of(path, nodes), taken_values(path, branch.taken)
        found = []
        for domain in domains:
            if there and there != {domain.values}:
                continue
            here = {each: [kind.within(domain.nodes) for kind in mine] for each, mine in kinds.items()}
            # Groups of the same kind share what room there is.
            rooms = {kind.members[0].kind: sum(kind.rooms.values()) for mine in here.values() for kind in mine}
            room = sum(rooms.values())
            bound = min(room, sum(kind.bound for mine in here.values() for kind in mine))
            enough = max(branch.fewest, branch.expected) <= room
            found.append((bound, enough and _may_count(branch, here), domain, room))
        found.sort(key=lambda each: (-each[0], each[3]))
        return [each[:3] for each in found]

    def _kinds(self, leaf: Branch, nodes: Mapping[int, Node]) -> list[Kind]:
        """As the trial is now. Pods of several groups are mostly alike."""
        if self._revision != self.trial.revision:
            self._revision, self._kept = self.trial.revision, {}
        by_kind: dict[Hashable, list[Member]] = {}
        for each in leaf.members:
            by_kind.setdefault(each.kind, []).append(each)
        found = []
        for kind, members in by_kind.items():
            known = self._kept.get((kind, id(nodes)))
            if known is None or known[0] is not nodes:
                known = self._kept[kind, id(nodes)] = nodes, self.kind_of(members, nodes)
            found.append(replace(known[1], members=members))
        return found

    # One group

    def _leaf(
        self, branch: Branch, domain: Domain, nodes: Mapping[int, Node], thorough: bool, need: int
    ) -> Iterator[None]:
        search = self._search(branch, domain, nodes)
        kinds = self._kinds(branch, nodes)
        try:
            yield from search.ways(kinds, need, thorough=thorough)
        finally:
            self.best = max(self.best, search.best) if self._alone else self.best

    def _search(self, branch: Branch, domain: Domain, nodes: Mapping[int, Node]) -> GroupSearch:
        levels = inner_values(domain.path, branch.topology.finest, nodes)
        return GroupSearch(self.trial, nodes, levels, branch.topology.least_free, self._alone)

    # Groups of groups

    def _inner(self, branch: Branch, domain: Domain, nodes: Mapping[int, Node], thorough: bool) -> Iterator[None]:
        self._plan(branch, domain, nodes)
        stack = [self._options(branch, 0, 0, nodes, thorough)]
        while stack:
            step = next(stack[-1], None)
            if step is None:
                stack.pop()
                continue
            self.best = max(self.best, self.trial.placed())
            if step[0] == len(branch.children):
                yield
            else:
                stack.append(self._options(branch, *step, nodes, thorough))

    def _options(
        self, branch: Branch, index: int, enough: int, nodes: Mapping[int, Node], thorough: bool
    ) -> Iterator[tuple[int, int]]:
        """Places a child in one way after the other, at last not at all; gives the next child and how many count."""
        self.trial.step()
        child, rest = branch.children[index], len(branch.children) - index - 1
        if enough + 1 + rest >= branch.least:
            for _ in self._ways(child, nodes, thorough, child.need):
                yield index + 1, enough + 1
        without = enough + child.counts
        if without + rest >= branch.least:
            yield index + 1, without

    def _plan(self, branch: Branch, domain: Domain, nodes: Mapping[int, Node]) -> None:
        """Slices of a group are alike: which domain gets how many of them is reckoned for all at once."""
        first = branch.children[0]
        if first.group is not branch.group or first.children:
            return
        size, places, found = max(1, len(first.members)), {}, {}
        kinds = self._kinds(first, nodes)
        for each in domains_of(first.topology.preferred or first.topology.required, nodes):
            free = sum(kind.rooms.get(number, 0) for kind in kinds for number in each.nodes)
            places[each.values], found[each.values] = Place(free // size, -free), each
        depth = len(domain.path)
        inner = {values: values[depth:-1] for values in places}
        waiting = iter(each for each in branch.children if not each.taken)
        least = branch.topology.least_free
        for values, amount in spread_over(places, inner, len(branch.children), least=least):
            for _ in range(amount):
                if (child := next(waiting, None)) is not None:
                    child.planned = found[values]

    # Reasons

    def best_domain(self, branch: Branch, nodes: Mapping[int, Node]) -> tuple[Domain, int] | None:
        """The one where most of it has room, and how many there are."""
        found = []
        for part in self.parts(branch, nodes):
            kinds = {id(each): self._kinds(each, part) for each in branch.leaves()}
            found.append(self._ranked(branch, branch.topology.required, part, kinds))
        best = max(found, key=lambda ranked: ranked[0][0] if ranked else 0, default=None)
        return (best[0][2], len(best)) if best else None

    def lack(self, branch: Branch, nodes: Mapping[int, Node]) -> Lack | None:
        """The first group without a place, with those before it where they find one without going back."""
        best = self.best_domain(branch, nodes)
        if best is None:
            return None
        domain, number = best
        here = {number: nodes[number] for number in domain.nodes}
        if branch.children:
            return next((found for each in branch.children if (found := self.lack(each, here)) is not None), None)
        search = self._search(branch, domain, here)
        mine = self._kinds(branch, here)
        if sum(each.bound for each in mine) >= branch.need and search.first_without_place(mine) is None:
            return None
        return Lack(branch, search, mine, domain, number)


def _may_count(branch: Branch, kinds: Mapping[int, Sequence[Kind]]) -> bool:
    """Whether there is room for enough of it, as far as counting tells."""
    if not branch.children:
        return sum(each.bound for each in kinds[id(branch)]) >= branch.need
    return sum(_may_count(each, kinds) for each in branch.children) >= branch.least
