"""Counter sets that are interchangeable for one task, with all the devices that draw from them: the cards of a node.

Two sets are of one family where their devices agree one by one, in order, in all that can matter. While the same is
left of two sets of a family, and the same of their devices is open to everybody, what fails with a device of the one
fails with its counterpart in the other: any solution can be renamed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dray.allocation.counters import CounterSets
from dray.allocation.picks import Picks, SetKey
from dray.allocation.pruning.symmetry import traits
from dray.allocation.requests import Task


class Block:
    """The devices of one counter set, none of which draws from another."""

    __slots__ = ("_local", "bits", "key", "positions", "ranks")

    def __init__(self, key: SetKey, ranks: list[int]) -> None:
        self.key = key
        self.ranks = ranks
        self.bits = sum(1 << rank for rank in ranks)
        counter_sets, name = key
        self.positions = [at for at, (counter_set, _) in enumerate(counter_sets.names) if counter_set == name]
        self._local: dict[int, int] = {}

    def local(self, bits: int) -> int:
        """Converts view bits to bits over the positions in this block."""
        own = bits & self.bits
        known = self._local.get(own)
        if known is None:
            known = self._local[own] = sum((own >> rank & 1) << place for place, rank in enumerate(self.ranks))
        return known


class Blocks:
    def __init__(self, task: Task, picks: Picks) -> None:
        self._picks = picks
        self._families = [family for family in _families(task, picks) if len(family) > 1]
        self._of: dict[int, tuple[list[Block], Block, int]] = {}
        self._outside = -1
        canonical: dict[CounterSets, set[int]] = {}
        for family in self._families:
            for block in family:
                self._outside &= ~block.bits
                canonical.setdefault(block.key[0], set()).update(block.positions)
                for place, rank in enumerate(block.ranks):
                    self._of[rank] = (family, block, place)
        pools = dict.fromkeys(task.view.counter_sets.values())
        self._others = [
            (sets, [at for at in range(len(sets.names)) if at not in canonical.get(sets, ())]) for sets in pools
        ]
        self._grouped = [(sets, name) for sets in pools if sets.grouped for name, _ in sets.names]

    def alike(self, rank: int, domains: Sequence[int]) -> int:
        """Returns the device and its counterparts in blocks of the same state, as bits."""
        found = self._of.get(rank)
        if found is None:
            return 1 << rank
        family, block, place = found
        own = self._state(block, domains)
        bits = 1 << rank
        for other in family:
            if other is not block and self._state(other, domains) == own:
                bits |= 1 << other.ranks[place]
        return bits

    def _state(self, block: Block, domains: Sequence[int]) -> tuple[Any, ...]:
        counter_sets, name = block.key
        left = self._picks.left.get(counter_sets) or counter_sets.left
        compatibility = self._picks.compatibility(counter_sets, name) if counter_sets.grouped else None
        return (compatibility, *[left[at] for at in block.positions], *map(block.local, domains))

    def canonical(self, domains: Sequence[int]) -> tuple[Any, ...]:
        """Returns the state of counters and devices, equal for states that differ only by swapped sets of a family."""
        if not self._picks.left and not self._families:
            return tuple(domains)
        return (
            tuple(bits & self._outside for bits in domains),
            *[tuple(left[at] for at in positions) for left, positions in self._left()],
            *[self._picks.compatibility(*key) for key in self._grouped],
            *[
                tuple(sorted((self._state(block, domains) for block in family), key=lambda state: state[1:]))
                for family in self._families
            ],
        )

    def _left(self) -> list[tuple[list[int], list[int]]]:
        return [
            (self._picks.left.get(counter_sets) or counter_sets.left, positions)
            for counter_sets, positions in self._others
        ]


def _families(task: Task, picks: Picks) -> list[list[Block]]:
    view = task.view
    ranks: dict[SetKey, list[int]] = {}
    mixed: set[SetKey] = set()
    for rank, counter_sets in view.counter_sets.items():
        device = view.devices[rank]
        keys = {(counter_sets, consumed.counter_set) for consumed in device.consumes}
        if len(keys) > 1 or device.shareable:
            mixed |= keys
        else:
            ranks.setdefault(keys.pop(), []).append(rank)
    describe = traits(task, picks)
    families: dict[Any, list[Block]] = {}
    for key, own in ranks.items():
        if key in mixed or key[0].overdrawn:
            continue
        block = Block(key, sorted(own))
        counter_sets = key[0]
        start = {position: place for place, position in enumerate(block.positions)}
        counters = tuple(counter_sets.names[at][1] for at in block.positions)
        devices = tuple(
            (
                describe(rank),
                tuple((start[position], amount) for position, amount in counter_sets.cost(view.devices[rank])),
                view.devices[rank].consumes[0].groups,
            )
            for rank in block.ranks
        )
        families.setdefault((id(counter_sets), counters, devices), []).append(block)
    return list(families.values())
