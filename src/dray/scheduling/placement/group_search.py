"""GroupSearch: places for the pods of one group in one domain, all of them at once, or as many as must start together.

Pods of one kind are interchangeable, so the search is over how many go to which node. Counting comes first: where all
nodes together have too little room, that is the answer. Then nodes are filled (`packing`). Where that comes to a dead
end although the pods depend on each other (several kinds, affinity, devices that several nodes see, other groups that
are placed with this one), the search goes back: fewer on a node, other devices. It draws on the work of the attempt.

`ways` gives one solution after the other. Each is in force in the trial until the next is asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from dray.scheduling.model.node import Node
from dray.scheduling.placement.group_trial import NOTHING_LEFT_OUT, GroupTrial, Member
from dray.scheduling.placement.packing import Place, spread_over

Rooms = Mapping[int, int]
"""By node: how many pods of a kind it has room for, at most."""


@dataclass(eq=False, slots=True)
class Kind:
    members: list[Member]
    rooms: Rooms
    scores: Mapping[int, int]
    coupled: bool
    """Whether where one goes matters to others on other nodes."""
    _order: list[int] | None = None

    @property
    def shares(self) -> bool:
        return self.members[0].shares

    @property
    def bound(self) -> int:
        return min(len(self.members), sum(self.rooms.values()))

    @property
    def order(self) -> list[int]:
        """The nodes with room, those with most of it first, and of equals the ones with the best score."""
        if self._order is None:
            rooms, scores = self.rooms, self.scores
            self._order = sorted(rooms, key=lambda number: (-rooms[number], -scores.get(number, 0), number))
        return self._order

    def within(self, numbers: Iterable[int]) -> Kind:
        rooms = {number: room for number in numbers if (room := self.rooms.get(number, 0))}
        return replace(self, rooms=rooms, _order=None)


@dataclass(slots=True)
class GroupSearch:
    trial: GroupTrial
    nodes: Mapping[int, Node]
    levels: Mapping[int, Sequence[str]] = field(default_factory=dict)
    """By node: the values of the levels of topology inside the domain. Empty where there are none."""
    least_free: bool = False
    alone: bool = True
    """Whether no other group is placed with this one."""
    best: int = 0
    """How many could be placed at once, or have room at most, in the best case so far."""
    _kinds: list[Kind] = field(default_factory=list)
    _members: list[Member] = field(default_factory=list)
    _allowed: int = 0
    """How many may be left out."""
    _left_out: int = 0

    def ways(self, kinds: Sequence[Kind], need: int, *, thorough: bool) -> Iterator[None]:
        """Ways to have at least so many placed, the promising ones, or all with `thorough`."""
        bound = sum(each.bound for each in kinds)
        if bound < need:
            self.best = max(self.best, bound)
            return
        # Those with the fewest places first.
        self._kinds = sorted(kinds, key=lambda each: (sum(each.rooms.values()) - len(each.members), len(each.rooms)))
        self._members = [member for kind in self._kinds for member in kind.members]
        if thorough and self.alone:
            # That was tried before.
            pass
        elif any(each.shares for each in kinds):
            yield from self._by_reach(need)
        else:
            yield from self._filled(need)
        if thorough and self.is_worth_searching(kinds):
            yield from self._search(need)

    def is_worth_searching(self, kinds: Sequence[Kind]) -> bool:
        """Of one kind that depends on nothing elsewhere each node has as many as it can have."""
        return not self.alone or len(kinds) > 1 or any(each.coupled for each in kinds)

    def first_without_place(self, kinds: Sequence[Kind]) -> Member | None:
        """With as many placed as can be without going back."""
        self._members = [member for kind in kinds for member in kind.members]
        self.fill(kinds)
        return next((each for each in self._members if each.placement is None), None)

    def clear(self) -> None:
        for member in reversed(self._members):
            self.trial.remove(member)

    # Filling

    def _filled(self, need: int) -> Iterator[None]:
        if self.fill(self._kinds) >= need:
            yield
        self.clear()
        if not self.alone and 0 < need < len(self._members):
            # More would take from the others.
            if self.fill(self._kinds, need) >= need:
                yield
            self.clear()

    def fill(self, kinds: Sequence[Kind], most: int | None = None) -> int:
        """How many have a place now."""
        for kind in kinds:
            waiting = [each for each in kind.members if each.placement is None]
            if most is not None:
                waiting = waiting[: most - self._placed()]
            if waiting[:1] and (waiting[0].social or waiting[0].shares):
                self._fill_in_turn(kind, waiting)
            else:
                self._fill_by_room(kind, waiting)
        placed = self._placed()
        self.best = max(self.best, placed)
        return placed

    def _placed(self) -> int:
        return sum(each.placement is not None for each in self._members)

    def _fill_by_room(self, kind: Kind, waiting: list[Member]) -> None:
        first, places = 0, {each: Place(room, kind.scores.get(each, 0)) for each, room in kind.rooms.items()}
        while first < len(waiting):
            full = []
            for number, amount in spread_over(places, self.levels, len(waiting) - first, least=self.least_free):
                end, node = first + amount, self.nodes[number]
                while first < end and self.trial.add(waiting[first], node) is None:
                    first += 1
                if first < end and self.trial.lacks_quota(waiting[first], node):
                    # Then no other node has quota either.
                    return
                places[number] = places[number]._replace(room=places[number].room - amount)
                if first < end:
                    # It has less room than it seemed.
                    full.append(number)
            if not full:
                return
            for number in full:
                del places[number]

    def _fill_in_turn(self, kind: Kind, waiting: list[Member]) -> None:
        """One after the other, each on the next node that takes it: what one node says changes with each pod."""
        order, position = [self.nodes[number] for number in kind.order], 0
        for member in waiting:
            for step in range(len(order)):
                at = (position + step) % len(order)
                if self.trial.add(member, order[at]) is None:
                    # Pods that share devices belong together, others of that sort mostly apart.
                    position = at if member.shares else at + 1
                    break
            else:
                return

    def _by_reach(self, need: int) -> Iterator[None]:
        """The first pod that gets the devices they share decides which nodes the others can go to; of the places for it
        each that leads to other nodes is tried."""
        sharing = next(each for each in self._kinds if each.shares)
        anchor, tried = sharing.members[0], set[frozenset[int] | None]()
        for number in sharing.order:
            for _ in self._ways(anchor, self.nodes[number]):
                reach = self._reach(sharing)
                if reach not in tried:
                    tried.add(reach)
                    here = reach if reach is not None else self.nodes
                    kinds = [each.within(here) if each.shares else each for each in self._kinds]
                    if sum(each.bound for each in kinds) >= need and self.fill(kinds) >= need:
                        yield
                for member in self._members:
                    if member is not anchor:
                        self.trial.remove(member)

    def _reach(self, kind: Kind) -> frozenset[int] | None:
        """The nodes that the other pods can go to, now that the first has its place."""
        for member in kind.members[1:]:
            self.trial.prepare(member)
            nodes = member.cycle.nodes
            return nodes.intersection(self.nodes) if nodes is not None else None
        return None

    # Searching

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
        """Places a member on one node after the other, from a position on; gives the next member and its position."""
        kind, rest = self._kind_of(index)
        member, order, allowed = self._members[index], kind.order, self._allowed - self._left_out
        for position in range(start, len(order)):
            if sum(kind.rooms[number] for number in order[position:]) < rest - allowed:
                break
            found = False
            for _ in self._ways(member, self.nodes[order[position]]):
                found = True
                yield index + 1, position if rest > 1 and not member.social else 0
            if found and self.alone and not kind.coupled and kind is self._kinds[-1]:
                # Fewer on a node help nobody.
                return
        if rest <= allowed:
            self._left_out += rest
            yield index + rest, 0
            self._left_out -= rest

    def _kind_of(self, index: int) -> tuple[Kind, int]:
        """The kind of a member, and how many of it are left with it."""
        for kind in self._kinds:
            if index < len(kind.members):
                return kind, len(kind.members) - index
            index -= len(kind.members)
        raise IndexError(index)

    def _ways(self, member: Member, node: Node) -> Iterator[None]:
        """Each way to have the member there that leaves others different devices; in force until the next."""
        left_out = [NOTHING_LEFT_OUT]
        for without in left_out:
            if self.trial.add(member, node, without) is not None:
                continue
            devices = self.trial.spread_devices(member)
            yield
            self.trial.remove(member)
            left_out += [more for each in devices if (more := without | {each}) not in left_out]
