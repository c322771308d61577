"""What is still to be picked, relaxed to counts and bitsets, so that bounds can be computed on it.

A demand is one request that is not yet served: its alternatives, each with the devices still open to it. Everything
in it is optimistic: a device that is not open now will not be open further down.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dray.allocation.requests import Request


@dataclass(slots=True)
class Alternative:
    """One alternative: `need` devices out of `bits`."""

    request: Request
    need: int
    bits: int

    @property
    def possible(self) -> bool:
        return self.bits.bit_count() >= self.need


@dataclass(slots=True)
class Demand:
    claim: int
    alternatives: list[Alternative]
    number: int = 0
    """Index of the choice that the demand comes from."""

    def copied(self) -> Demand:
        return Demand(
            self.claim,
            [Alternative(alternative.request, alternative.need, alternative.bits) for alternative in self.alternatives],
            self.number,
        )

    @property
    def need(self) -> int:
        return min(alternative.need for alternative in self.alternatives)

    @property
    def bits(self) -> int:
        union = 0
        for alternative in self.alternatives:
            union |= alternative.bits
        return union

    @property
    def exclusive(self) -> bool:
        """Whether no device can be given to it that another demand gets."""
        return not any(alternative.request.admin for alternative in self.alternatives)

    def drop_impossible(self) -> bool:
        """Leaves the alternatives that have enough devices; whether any are left."""
        if not all(alternative.possible for alternative in self.alternatives):
            self.alternatives = [alternative for alternative in self.alternatives if alternative.possible]
        return bool(self.alternatives)


def servable(wants: Iterable[tuple[int, int]]) -> bool:
    """Whether all can be served at once: each wants `need` members of `bits`, and no member serves two."""
    merged: dict[int, int] = {}
    for need, bits in wants:
        if need > 0:
            merged[bits] = merged.get(bits, 0) + need
    total = sum(merged.values())
    # One that has more members than all want together can always be served last.
    tight = [(bits, need) for bits, need in merged.items() if bits.bit_count() < total]
    if any(bits.bit_count() < need for bits, need in tight):
        return False
    return len(tight) < 2 or _flows(tight)


def _flows(wants: Sequence[tuple[int, int]]) -> bool:
    """A maximum flow from wants to blocks of members that are alike to all of them."""
    blocks = _blocks([bits for bits, _ in wants])
    room = [bits.bit_count() for bits in blocks]
    edges = [[number for number, block in enumerate(blocks) if block & bits] for bits, _ in wants]
    given: list[dict[int, int]] = [{} for _ in wants]
    for want, (_, need) in enumerate(wants):
        while need:
            sent = _augment(want, need, edges, room, given)
            if not sent:
                return False
            need -= sent
    return True


def _blocks(sets: Iterable[int]) -> list[int]:
    blocks: list[int] = []
    for bits in sets:
        split: list[int] = []
        for block in blocks:
            inside, outside = block & bits, block & ~bits
            split += [part for part in (inside, outside) if part]
            bits &= ~block
        blocks = [*split, bits] if bits else split
    return blocks


def _augment(source: int, most: int, edges: list[list[int]], room: list[int], given: list[dict[int, int]]) -> int:
    """Sends up to `most` along one shortest path, moving what other wants were given; the amount sent."""
    came_from: dict[int, tuple[int, int]] = {}
    queue, seen = [source], {source}
    for want in queue:
        for block in edges[want]:
            if block in came_from:
                continue
            came_from[block] = (want, -1)
            if room[block]:
                return _send(source, block, most, came_from, room, given, want)
            for other, own in enumerate(given):
                if other not in seen and own.get(block):
                    seen.add(other)
                    came_from[~other] = (want, block)
                    queue.append(other)
    return 0


def _send(
    source: int,
    block: int,
    most: int,
    came_from: dict[int, tuple[int, int]],
    room: list[int],
    given: list[dict[int, int]],
    want: int,
) -> int:
    path, amount = [(want, block)], min(most, room[block])
    while want != source:
        want, released = came_from[~want]
        holder = path[-1][0]
        amount = min(amount, given[holder][released])
        path.append((want, released))
    room[block] -= amount
    for position, (holder, gained) in enumerate(path):
        given[holder][gained] = given[holder].get(gained, 0) + amount
        if position + 1 < len(path):
            given[holder][path[position + 1][1]] -= amount
    return amount
