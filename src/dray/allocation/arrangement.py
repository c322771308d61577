"""A view with its devices in another order: what a policy hands to the search instead of the node's own view."""

from __future__ import annotations

from collections.abc import Sequence

from dray.allocation.devices import Values
from dray.allocation.selectors import Column, Selectors
from dray.allocation.views import MOST_INDEXES, AttributeIndex, View
from dray.api.caches import BoundedDict
from dray.api.objects import Object


class Arrangement(View):
    """`order` lists the ranks of `base`, the most preferred first."""

    def __init__(self, base: View, order: Sequence[int]) -> None:
        self._base = base
        self._place = {rank: place for place, rank in enumerate(order)}
        self.node, self.labels, self.features, self.gates = base.node, base.labels, base.features, base.gates
        self.pools, self.slices = base.pools, base.slices
        self.devices = [base.devices[rank] for rank in order]
        self.homes = [base.homes[rank] for rank in order]
        self.counter_sets = {self._place[rank]: counter_sets for rank, counter_sets in base.counter_sets.items()}
        self.every = base.every
        self.shareable = self._moved(base.shareable)
        self.here = self._moved(base.here)
        self._indexes = BoundedDict(MOST_INDEXES)

    def _moved(self, bits: int) -> int:
        return sum(1 << self._place[rank] for rank in self.ranks(bits))

    @property
    def held(self) -> int:
        return self._moved(self._base.held)

    @property
    def shared(self) -> int:
        return self._moved(self._base.shared)

    @property
    def operable(self) -> int:
        return self._moved(self._base.operable)

    def tolerated(self, tolerations: Sequence[Object]) -> int:
        return self._moved(self._base.tolerated(tolerations))

    def column(self, expression: str, selectors: Selectors) -> Column:
        column = self._base.column(expression, selectors)
        faults = {self._place[rank]: fault for rank, fault in column.faults.items()}
        return Column(self._moved(column.selected), faults)

    def index(self, attribute: str) -> AttributeIndex:
        index = self._indexes.get(attribute)
        if index is None:
            values: dict[int, Values] = self._base.index(attribute).values
            index = AttributeIndex({self._place[rank]: each for rank, each in values.items()})
            self._indexes[attribute] = index
        return index
