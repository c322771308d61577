"""Constraints between the devices of a claim: all have a value of an attribute in common, or no two have one.

An attribute is a set of values (see `devices`), so a match is an intersection that stays non-empty and a distinction
is a union without overlap. Which devices may still join follows from the index of the attribute as one bitset;
nothing is tried device by device. Both only ever narrow: what a constraint refuses now it refuses for good.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dray import cel
from dray.allocation.devices import NO_VALUE, Values
from dray.allocation.views import AttributeIndex, View
from dray.allocation.work import AllocationError
from dray.api.objects import Object

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dray.allocation.inventory import Inventory
    from dray.allocation.requests import Choice, Request


class Constraint:
    """One constraint and the picks it has admitted so far."""

    __slots__ = ("_indexes", "_inventory", "_members", "_view", "attribute", "distinct", "faults", "number", "requests")

    def __init__(self, number: int, attribute: str, *, distinct: bool, view: View, inventory: Inventory) -> None:
        self.number = number
        self.attribute = attribute
        self.distinct = distinct
        self.requests: list[Request] = []
        """The requests and alternatives that the constraint covers."""
        self.faults: dict[Request, dict[int, str]] = {}
        """Errors of derived attributes, by request and rank of the device."""
        self._view, self._inventory = view, inventory
        self._indexes: dict[Request, AttributeIndex] = {}
        self._members: list[Values] = []

    def cover(self, request: Request) -> None:
        self.requests.append(request)
        request.constraints.append(self)
        for derived in request.spec.get("derivedAttributes") or ():
            if derived["name"] == self.attribute:
                self._indexes[request] = self._derive(request, derived["expression"])
                return
        self._indexes[request] = self._view.index(self.attribute)

    def _derive(self, request: Request, expression: str) -> AttributeIndex:
        selectors = self._inventory.selectors
        faults: dict[int, str] = {}
        values: dict[int, Values] = {}
        unusable = selectors.derived_fault(expression)
        for rank in self._view.ranks(request.candidates):
            if unusable is not None:
                faults[rank] = f"compile derived attribute {self.attribute} failed: {unusable}"
                continue
            device = self._view.devices[rank]
            try:
                found = selectors.derived(expression, device)
            except cel.CelError as error:
                where = "/".join(device.id)
                faults[rank] = f"evaluate derived attribute {self.attribute} on device {where} failed: {error}"
                continue
            if found:
                values[rank] = found
        if faults:
            self.faults[request] = faults
        return AttributeIndex(values)

    def index(self, request: Request) -> AttributeIndex:
        return self._indexes[request]

    @property
    def state(self) -> Values | None:
        """The common values, or the values taken so far; None before the first member."""
        return self._members[-1] if self._members else None

    def mask(self, request: Request) -> int:
        """Returns the devices that the constraint still admits for the request, as bits."""
        index = self._indexes[request]
        if not self._members:
            return index.present
        bits = 0
        holders = index.holders
        for value in self._members[-1]:
            bits |= holders.get(value, 0)
        return index.valued & ~bits if self.distinct else bits

    def add(self, request: Request, rank: int) -> None:
        self.hold(self._indexes[request].values.get(rank, NO_VALUE))

    def hold(self, values: Values) -> None:
        """Adds a device with these values as a member."""
        if not self._members:
            self._members.append(values)
        else:
            last = self._members[-1]
            self._members.append(last | values if self.distinct else last & values)

    def remove(self) -> None:
        self._members.pop()


def compile_constraints(claim: Object, choices: Sequence[Choice], view: View, inventory: Inventory) -> list[Constraint]:
    """Compiles the constraints of a claim and adds them to the requests they cover. Raises AllocationError."""
    compiled = []
    for number, spec in enumerate(claim["spec"]["devices"].get("constraints") or () if choices else ()):
        attribute = spec.get("matchAttribute") or spec.get("distinctAttribute")
        if not attribute:
            metadata = claim["metadata"]
            raise AllocationError(
                f"claim {metadata.get('namespace')}/{metadata.get('name')}, constraint #{number}: "
                "empty constraint (unsupported constraint type?)"
            )
        distinct = not spec.get("matchAttribute")
        constraint = Constraint(number, attribute, distinct=distinct, view=view, inventory=inventory)
        names = spec.get("requests")
        for choice in choices:
            for option in choice.options:
                if not names or option.parent in names or option.name in names:
                    constraint.cover(option)
        compiled.append(constraint)
    return compiled
