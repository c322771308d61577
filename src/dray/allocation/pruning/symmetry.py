"""Devices that are interchangeable for one task: no request, constraint, counter or capacity can tell them apart.

If one of them fails in a place, the others fail there too, since any solution with the other can be renamed. Of
shareable devices this holds only while the same is left of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dray.allocation.devices import Device
from dray.allocation.picks import Picks
from dray.allocation.requests import Task


class Symmetry:
    def __init__(self, task: Task, picks: Picks) -> None:
        self._picks = picks
        self._shareable = task.view.shareable
        classes = [bits for bits in _classes(task, picks).values() if bits.bit_count() > 1]
        self._exclusive = [bits for bits in classes if not bits & self._shareable]
        self._shared = [task.view.ranks(bits) for bits in classes if bits & self._shareable]
        self._of: dict[int, int] = {}
        self._several = 0
        for bits in classes:
            self._several |= bits
            for rank in task.view.ranks(bits):
                self._of[rank] = bits

    def alike(self, rank: int) -> int:
        """Returns the device and those interchangeable with it now, as bits."""
        bits = self._of.get(rank)
        if bits is None:
            return 1 << rank
        if not self._shareable >> rank & 1:
            return bits
        own = self._standing(rank)
        members = next(members for members in self._shared if rank in members)
        return sum(1 << other for other in members if self._standing(other) == own)

    def _standing(self, rank: int) -> tuple[Any, ...]:
        return self._picks.shares.get(rank, 0), tuple(sorted(self._picks.tallies.get(rank, {}).items()))

    def standings(self, *, apart: bool) -> tuple[Any, ...]:
        """Returns the state of picked shareable devices; equal for interchangeable devices unless `apart`."""
        picks = self._picks
        if apart:
            return tuple((rank, self._standing(rank)) for rank in sorted(picks.shares))
        single = [(rank, self._standing(rank)) for rank in sorted(picks.shares) if not self._several >> rank & 1]
        return (*single, *[tuple(sorted(map(self._standing, members))) for members in self._shared])

    def canonical(self, left: int, relevant: int) -> tuple[Any, ...]:
        """The state of the relevant devices and of those `left`, equal for states that are equal but for renaming."""
        picks = self._picks
        taken = picks.taken & relevant
        single = [(rank, self._standing(rank)) for rank in sorted(picks.shares) if not self._several >> rank & 1]
        shared = [
            tuple(sorted((left >> rank & 1, *self._standing(rank)) for rank in members)) for members in self._shared
        ]
        return (
            left & ~self._several,
            taken & ~self._several,
            *[((left & bits).bit_count(), (taken & bits).bit_count()) for bits in self._exclusive],
            *single,
            *shared,
        )


def traits(task: Task, picks: Picks) -> Callable[[int], tuple[Any, ...]]:
    """A function that tells all that can matter about a device but its counters."""
    view = task.view
    options = [option for choice in task.choices for option in choice.options]
    indexes = [constraint.index(option).values for option in options for constraint in option.constraints]
    indexes = list({id(values): values for values in indexes}.values())
    amounts = [option.amounts for option in options if option.amounts]

    def describe(rank: int) -> tuple[Any, ...]:
        shareable = view.devices[rank].shareable
        return (
            sum((option.candidates >> rank & 1) << number for number, option in enumerate(options)),
            (task.held >> rank & 1, task.shared >> rank & 1, shareable),
            *[values.get(rank) for values in indexes],
            *[tuple(sorted(amount.get(rank, {}).items())) for amount in amounts],
            tuple(sorted(picks.capacity_before(rank).items())) if shareable or amounts else (),
        )

    return describe


def _classes(task: Task, picks: Picks) -> dict[Any, int]:
    """The devices by everything that can matter about them."""
    view, describe = task.view, traits(task, picks)
    relevant = 0
    for choice in task.choices:
        for option in choice.options:
            relevant |= option.candidates
    classes: dict[Any, int] = {}
    for rank in view.ranks(relevant):
        device, counter_sets = view.devices[rank], view.counter_sets.get(rank)
        drawn = (id(counter_sets), counter_sets.cost(device), _groups(device)) if counter_sets is not None else ()
        key = (describe(rank), drawn)
        classes[key] = classes.get(key, 0) | 1 << rank
    return classes


def _groups(device: Device) -> tuple[Any, ...]:
    return tuple((consumed.counter_set, consumed.groups) for consumed in device.consumes)
