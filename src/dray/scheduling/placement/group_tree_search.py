"""TreeSearch: places a tree of groups as one unit.

A group goes to one domain of its required level. Domains of the preferred level with room for all its pods are tried
first, then coarser ones, the smallest that suffices first. Its children are placed inside the domain, one after the
other; enough of them must fit, the others may be left out. If a child does not fit, those before it are placed in
another way. First only promising solutions are tried, then all, as long as the work budget lasts.
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
"""Returns interchangeable members as a Kind, with the room that nodes have in the current state."""

Parts = Callable[[Branch, Mapping[int, Node]], Sequence[Mapping[int, Node]]]
"""Splits nodes into sets that pods of a branch may use together, the best first: all, or one set for each flavor."""


@dataclass(frozen=True, slots=True)
class Lack:
    """A group that does not fit beside the others."""

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
    """The highest number of pods that could be placed so far, or an upper bound of it."""
    _root: Branch | None = None
    _alone: bool = True
    _revision: int = -1
    _kept: dict[tuple[Hashable, int], tuple[Mapping[int, Node], Kind]] = field(default_factory=dict)
    """Kinds by their hash and set of nodes; valid for one revision of the trial."""

    def run(self, root: Branch) -> bool:
        """Places at least one pod and as many as have to start; returns False and places none if that is impossible."""
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
        """Whether to search thoroughly: not for the rest of a group that has started, which is retried anyway."""
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
        """The domains to try for the branch, with their nodes; the best first."""
        topology, tried = branch.topology, set[Domain]()
        if branch.planned is not None and not thorough:
            tried.add(branch.planned)
            yield branch.planned, {number: nodes[number] for number in branch.planned.nodes if number in nodes}
        kinds = {id(leaf): self._kinds(leaf, nodes) for leaf in branch.leaves()}
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
        """The domains that may have room, in the order in which they are tried."""
        domains = []
        for bound, may_count, domain in self._ranked(branch, path, nodes, kinds):
            if bound >= wanted and may_count:
                domains.append(domain)
            elif branch is self._root:
                self.best = max(self.best, bound)
        return domains

    def _ranked(
        self, branch: Branch, path: Path, nodes: Mapping[int, Node], kinds: Mapping[int, list[Kind]]
    ) -> list[tuple[int, bool, Domain]]:
        """Domains with the number of pods that fit by counting, and whether that may suffice.

        Domains for the most pods come first, of equals the smallest.
        """
        taken, ranked = taken_values(path, branch.taken), []
        for domain in domains_of(path, nodes):
            if taken and taken != {domain.values}:
                continue
            here = {leaf: [kind.within(domain.nodes) for kind in of_leaf] for leaf, of_leaf in kinds.items()}
            # Groups with pods of the same kind share the room.
            rooms = {kind.members[0].kind: sum(kind.rooms.values()) for of_leaf in here.values() for kind in of_leaf}
            room = sum(rooms.values())
            bound = min(room, sum(kind.bound for of_leaf in here.values() for kind in of_leaf))
            enough = max(branch.fewest, branch.expected) <= room
            ranked.append((bound, enough and _may_count(branch, here), domain, room))
        ranked.sort(key=lambda candidate: (-candidate[0], candidate[3]))
        return [candidate[:3] for candidate in ranked]

    def _kinds(self, leaf: Branch, nodes: Mapping[int, Node]) -> list[Kind]:
        """The pods of a leaf by kind, with the room that nodes have in the current state of the trial."""
        if self._revision != self.trial.revision:
            self._revision, self._kept = self.trial.revision, {}
        by_kind: dict[Hashable, list[Member]] = {}
        for member in leaf.members:
            by_kind.setdefault(member.kind, []).append(member)
        kinds = []
        for kind, members in by_kind.items():
            # Pods of several groups are mostly of the same kind.
            kept = self._kept.get((kind, id(nodes)))
            if kept is None or kept[0] is not nodes:
                kept = self._kept[kind, id(nodes)] = nodes, self.kind_of(members, nodes)
            kinds.append(replace(kept[1], members=members))
        return kinds

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
        """Places a child in one way after the other, finally not at all; yields the next child and how many count."""
        self.trial.step()
        child, rest = branch.children[index], len(branch.children) - index - 1
        if enough + 1 + rest >= branch.least:
            for _ in self._ways(child, nodes, thorough, child.need):
                yield index + 1, enough + 1
        without = enough + child.counts
        if without + rest >= branch.least:
            yield index + 1, without

    def _plan(self, branch: Branch, domain: Domain, nodes: Mapping[int, Node]) -> None:
        """Assigns the slices of a group, which are interchangeable, to domains by `packing`."""
        first = branch.children[0]
        if first.group is not branch.group or first.children:
            return
        size, places, domains = max(1, len(first.members)), {}, {}
        kinds = self._kinds(first, nodes)
        for candidate in domains_of(first.topology.preferred or first.topology.required, nodes):
            free = sum(kind.rooms.get(number, 0) for kind in kinds for number in candidate.nodes)
            places[candidate.values], domains[candidate.values] = Place(free // size, -free), candidate
        depth = len(domain.path)
        inner = {values: values[depth:-1] for values in places}
        waiting = iter(child for child in branch.children if not child.taken)
        least = branch.topology.least_free
        for values, amount in spread_over(places, inner, len(branch.children), least=least):
            for _ in range(amount):
                if (child := next(waiting, None)) is not None:
                    child.planned = domains[values]

    # Reasons

    def best_domain(self, branch: Branch, nodes: Mapping[int, Node]) -> tuple[Domain, int] | None:
        """The domain where most pods of the branch fit, and the number of domains."""
        rankings = []
        for part in self.parts(branch, nodes):
            kinds = {id(leaf): self._kinds(leaf, part) for leaf in branch.leaves()}
            rankings.append(self._ranked(branch, branch.topology.required, part, kinds))
        best = max(rankings, key=lambda ranked: ranked[0][0] if ranked else 0, default=None)
        return (best[0][2], len(best)) if best else None

    def lack(self, branch: Branch, nodes: Mapping[int, Node]) -> Lack | None:
        """The first group that does not fit, with those before it placed without backtracking."""
        best = self.best_domain(branch, nodes)
        if best is None:
            return None
        domain, number = best
        here = {number: nodes[number] for number in domain.nodes}
        if branch.children:
            return next((lack for child in branch.children if (lack := self.lack(child, here)) is not None), None)
        search = self._search(branch, domain, here)
        kinds = self._kinds(branch, here)
        if sum(kind.bound for kind in kinds) >= branch.need and search.first_without_place(kinds) is None:
            return None
        return Lack(branch, search, kinds, domain, number)


def _may_count(branch: Branch, kinds: Mapping[int, Sequence[Kind]]) -> bool:
    """Whether the branch may get its minimum of pods, by counting room."""
    if not branch.children:
        return sum(kind.bound for kind in kinds[id(branch)]) >= branch.need
    return sum(_may_count(child, kinds) for child in branch.children) >= branch.least
