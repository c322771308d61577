"""GroupSearch: places the pods of one group in one domain, all of them, or as many as have to start together.

Pods of one kind are interchangeable, so the search decides how many go to which node. Counting comes first: if all
nodes together have too little room, there is no solution. Then nodes are filled (`packing`). If that fails and the pods
depend on each other (several kinds, affinity, devices that several nodes reach, other groups of the same tree), the
search backtracks: fewer pods on a node, other devices. It is limited by the work budget of the attempt.

`ways` yields one solution after the other. Each is assumed in the trial until the next is requested.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from dray.scheduling.model.node import Node
from dray.scheduling.placement.group_trial import NOTHING_LEFT_OUT, GroupTrial, Member
from dray.scheduling.placement.packing import Place, spread_over

Rooms = Mapping[int, int]
"""The maximum number of pods of a kind that fit on a node, by node number."""


@dataclass(eq=False, slots=True)
class Kind:
    """Interchangeable pods, and the nodes that have room for them."""

    members: list[Member]
    rooms: Rooms
    scores: Mapping[int, int]
    coupled: bool
    """Whether the node of one pod affects which nodes other pods can use."""
    _order: list[int] | None = None

    @property
    def shares(self) -> bool:
        """Whether the pods share a claim that is not allocated yet."""
        return self.members[0].shares

    @property
    def bound(self) -> int:
        """The maximum number of pods of the kind that can be placed, by counting room."""
        return min(len(self.members), sum(self.rooms.values()))

    @property
    def order(self) -> list[int]:
        """The nodes with room, sorted by room (the most first), then by score (the best first)."""
        if self._order is None:
            rooms, scores = self.rooms, self.scores
            self._order = sorted(rooms, key=lambda number: (-rooms[number], -scores.get(number, 0), number))
        return self._order

    def within(self, numbers: Iterable[int]) -> Kind:
        """The same kind, limited to these nodes."""
        rooms = {number: room for number in numbers if (room := self.rooms.get(number, 0))}
        return replace(self, rooms=rooms, _order=None)


@dataclass(slots=True)
class GroupSearch:
    trial: GroupTrial
    nodes: Mapping[int, Node]
    levels: Mapping[int, Sequence[str]] = field(default_factory=dict)
    """The values of topology levels inside the domain, by node number; empty if there are none."""
    least_free: bool = False
    alone: bool = True
    """Whether this group is not part of a tree of groups."""
    best: int = 0
    """The highest number of pods that could be placed so far, or an upper bound of it."""
    _kinds: list[Kind] = field(default_factory=list)
    _members: list[Member] = field(default_factory=list)
    _allowed: int = 0
    """How many pods the search may leave without a node."""
    _left_out: int = 0

    def ways(self, kinds: Sequence[Kind], need: int, *, thorough: bool) -> Iterator[None]:
        """Yields solutions with at least `need` pods placed: the promising ones, or all with `thorough`."""
        bound = sum(kind.bound for kind in kinds)
        if bound < need:
            self.best = max(self.best, bound)
            return
        # Kinds with the least spare room are placed first.
        self._kinds = sorted(kinds, key=lambda kind: (sum(kind.rooms.values()) - len(kind.members), len(kind.rooms)))
        self._members = [member for kind in self._kinds for member in kind.members]
        if thorough and self.alone:
            # Filling was tried before, without `thorough`.
            pass
        elif any(kind.shares for kind in kinds):
            yield from self._by_reach(need)
        else:
            yield from self._filled(need)
        if thorough and self.is_worth_searching(kinds):
            yield from self._search(need)

    def is_worth_searching(self, kinds: Sequence[Kind]) -> bool:
        """Whether backtracking can find more than filling: not for a single kind whose nodes are independent."""
        return not self.alone or len(kinds) > 1 or any(kind.coupled for kind in kinds)

    def first_without_place(self, kinds: Sequence[Kind]) -> Member | None:
        """Fills the nodes without backtracking; returns the first pod that does not fit."""
        self._members = [member for kind in kinds for member in kind.members]
        self.fill(kinds)
        return next((member for member in self._members if member.placement is None), None)

    def clear(self) -> None:
        for member in reversed(self._members):
            self.trial.remove(member)

    # Filling

    def _filled(self, need: int) -> Iterator[None]:
        if self.fill(self._kinds) >= need:
            yield
        self.clear()
        if not self.alone and 0 < need < len(self._members):
            # More than the minimum would take room from the other groups.
            if self.fill(self._kinds, need) >= need:
                yield
            self.clear()

    def fill(self, kinds: Sequence[Kind], most: int | None = None) -> int:
        """Places pods without backtracking, up to `most`; returns how many are placed now."""
        for kind in kinds:
            waiting = [member for member in kind.members if member.placement is None]
            if most is not None:
                waiting = waiting[: most - self._placed()]
            if waiting[:1] and (waiting[0].depends_on_pods or waiting[0].shares):
                self._fill_in_turn(kind, waiting)
            else:
                self._fill_by_room(kind, waiting)
        placed = self._placed()
        self.best = max(self.best, placed)
        return placed

    def _placed(self) -> int:
        return sum(member.placement is not None for member in self._members)

    def _fill_by_room(self, kind: Kind, waiting: list[Member]) -> None:
        """Fills nodes in the order of `packing`, as many pods on each as have room."""
        first, places = 0, {number: Place(room, kind.scores.get(number, 0)) for number, room in kind.rooms.items()}
        while first < len(waiting):
            full = []
            for number, amount in spread_over(places, self.levels, len(waiting) - first, least=self.least_free):
                end, node = first + amount, self.nodes[number]
                while first < end and self.trial.add(waiting[first], node) is None:
                    first += 1
                if first < end and self.trial.lacks_quota(waiting[first], node):
                    # Quota is the same on all nodes of the search.
                    return
                places[number] = places[number]._replace(room=places[number].room - amount)
                if first < end:
                    # The node has less room than counting said.
                    full.append(number)
            if not full:
                return
            for number in full:
                del places[number]

    def _fill_in_turn(self, kind: Kind, waiting: list[Member]) -> None:
        """Places pods one by one, each on the next node that takes it, since every pod changes the answers of nodes."""
        order, position = [self.nodes[number] for number in kind.order], 0
        for member in waiting:
            for step in range(len(order)):
                at = (position + step) % len(order)
                if self.trial.add(member, order[at]) is None:
                    # Pods that share devices go to the same node, pods with affinity terms mostly to different ones.
                    position = at if member.shares else at + 1
                    break
            else:
                return

    def _by_reach(self, need: int) -> Iterator[None]:
        """Yields solutions for pods that share a claim. The first of them gets its devices, which decide the nodes that
        the others can use; each placement of it that leads to different nodes is tried."""
        sharing = next(kind for kind in self._kinds if kind.shares)
        anchor, tried = sharing.members[0], set[frozenset[int] | None]()
        for number in sharing.order:
            for _ in self._ways(anchor, self.nodes[number]):
                reach = self._reach(sharing)
                if reach not in tried:
                    tried.add(reach)
                    here = reach if reach is not None else self.nodes
                    kinds = [kind.within(here) if kind.shares else kind for kind in self._kinds]
                    if sum(kind.bound for kind in kinds) >= need and self.fill(kinds) >= need:
                        yield
                for member in self._members:
                    if member is not anchor:
                        self.trial.remove(member)

    def _reach(self, kind: Kind) -> frozenset[int] | None:
        """The nodes that the other pods can use once the first is placed; None for all nodes."""
        for member in kind.members[1:]:
            self.trial.prepare(member)
            nodes = member.cycle.nodes
            return nodes.intersection(self.nodes) if nodes is not None else None
        return None

    # Backtracking

    def _search(self, need: int) -> Iterator[None]:
        self._allowed, self._left_out = len(self._members) - need, 0
        stack = [self._options(0, 0)]
        while stack:
            step = next(stack[-1], None)
            if step is None:
                stack.pop()
                continue
            self.best = max(self.best, step[0] - self._left_out)
            if step[0] == len(self._members):
                yield
            else:
                stack.append(self._options(*step))

    def _options(self, index: int, start: int) -> Iterator[tuple[int, int]]:
        """Places a member on one node after the other, from `start` on; yields the next member and its start."""
        kind, rest = self._kind_of(index)
        member, order, allowed = self._members[index], kind.order, self._allowed - self._left_out
        for position in range(start, len(order)):
            if sum(kind.rooms[number] for number in order[position:]) < rest - allowed:
                break
            placed = False
            for _ in self._ways(member, self.nodes[order[position]]):
                placed = True
                yield index + 1, position if rest > 1 and not member.depends_on_pods else 0
            if placed and self.alone and not kind.coupled and kind is self._kinds[-1]:
                # No other pods would benefit from fewer pods on this node.
                return
        if rest <= allowed:
            self._left_out += rest
            yield index + rest, 0
            self._left_out -= rest

    def _kind_of(self, index: int) -> tuple[Kind, int]:
        """The kind of a member, and the number of its members from this one on."""
        for kind in self._kinds:
            if index < len(kind.members):
                return kind, len(kind.members) - index
            index -= len(kind.members)
        raise IndexError(index)

    def _ways(self, member: Member, node: Node) -> Iterator[None]:
        """Yields each placement on the node that leaves different devices to others; assumed until the next."""
        left_out = [NOTHING_LEFT_OUT]
        for without in left_out:
            if self.trial.add(member, node, without) is not None:
                continue
            devices = self.trial.spread_devices(member)
            yield
            self.trial.remove(member)
            left_out += [more for device in devices if (more := without | {device}) not in left_out]
