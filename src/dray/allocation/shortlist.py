"""Which of many nodes are worth asking, answered for all of them at once.

All nodes stand side by side in one long integer, each with a block of bits of its own; a selector is one such
integer, and so are the devices in use. What is left after a few operations on them are the nodes that have enough
free devices for every request looked at alone. The answer is optimistic: `allocate` decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from dray.allocation.devices import DeviceID
from dray.allocation.inventory import Inventory
from dray.allocation.selectors import MOST_COLUMNS
from dray.allocation.views import View
from dray.api.caches import BoundedDict
from dray.api.objects import Object, spec_of


class Shortlist:
    """Follows an inventory for a fixed list of nodes."""

    def __init__(self, inventory: Inventory, nodes: Sequence[Object]) -> None:
        self._inventory = inventory
        self._nodes = list(nodes)
        self._position = {node["metadata"]["name"]: number for number, node in enumerate(nodes)}
        self._stale: set[int] = set()
        self._arrange()
        inventory.observe(self._note)

    def close(self) -> None:
        """Stops following the inventory."""
        self._inventory.ignore(self._note)

    def _arrange(self) -> None:
        self._revision = self._inventory.revision
        self._views: list[View] = [self._inventory.view(node) for node in self._nodes]
        self._width = max((len(view.devices) for view in self._views), default=0) or 1
        self._block = (1 << self._width) - 1
        self._held = self._joined(lambda view: view.held)
        self._columns: BoundedDict[str, int] = BoundedDict(MOST_COLUMNS)
        self._stale.clear()

    def _joined(self, bits: Callable[[View], int]) -> int:
        """One integer of all nodes; put together pairwise, for appending one by one is quadratic."""
        parts, width = [bits(view) for view in self._views], self._width
        while len(parts) > 1:
            if len(parts) % 2:
                parts.append(0)
            parts = [low | high << width for low, high in zip(parts[::2], parts[1::2], strict=True)]
            width *= 2
        return parts[0] if parts else 0

    def _note(self, devices: Iterable[DeviceID]) -> None:
        for device in devices:
            viewers = self._inventory.viewers(device)
            if viewers is None:
                self._stale.update(range(len(self._nodes)))
            else:
                self._stale.update(self._position[name] for name in viewers if name in self._position)

    def _refresh(self) -> None:
        if self._revision != self._inventory.revision:
            self._arrange()
        for position in self._stale:
            shift = position * self._width
            self._held = self._held & ~(self._block << shift) | self._views[position].held << shift
        self._stale.clear()

    def nodes(self, claims: Sequence[Object]) -> Iterator[Object]:
        """The nodes that may serve the claims, in the order given at the start."""
        self._refresh()
        wants = [
            [self._want(way) for way in ([request["exactly"]] if "exactly" in request else request["firstAvailable"])]
            for claim in claims
            for request in claim["spec"]["devices"].get("requests") or ()
        ]
        wants.sort(key=len)
        first = wants[0] if wants else []
        union = 0
        for bits, _ in first:
            union |= bits
        if not first or any(need == 0 for _, need in first):
            candidates: Iterable[int] = range(len(self._nodes))
        else:
            candidates = self._occupied(union)
        for position in candidates:
            if all(self._has(ways, position) for ways in wants):
                yield self._nodes[position]

    def _occupied(self, bits: int) -> Iterator[int]:
        """The nodes that have a bit set."""
        start = 0
        while bits:
            skip = ((bits & -bits).bit_length() - 1) // self._width
            start += skip
            yield start
            bits >>= (skip + 1) * self._width
            start += 1

    def _has(self, ways: Sequence[tuple[int, int]], position: int) -> bool:
        shift = position * self._width
        return any(need == 0 or (bits >> shift & self._block).bit_count() >= need for bits, need in ways)

    def _want(self, spec: Object) -> tuple[int, int]:
        """The devices that one way to serve a request could take, and how many it needs; none where unknown."""
        device_class = self._inventory.classes.get(spec.get("deviceClassName") or "")
        if device_class is None or spec.get("allocationMode") == "All":
            return 0, 0
        bits: int | None = None
        for selector in (*(spec_of(device_class).get("selectors") or ()), *(spec.get("selectors") or ())):
            if not selector.get("cel"):
                return 0, 0
            column = self._column(selector["cel"]["expression"])
            bits = column if bits is None else bits & column
        if bits is None:
            bits = self._joined(lambda view: view.every)
        return (bits if spec.get("adminAccess") else bits & ~self._held), spec.get("count") or 1

    def _column(self, expression: str) -> int:
        column = self._columns.get(expression)
        if column is None:
            column = self._columns[expression] = self._joined(lambda view: self._selected(view, expression))
        return column

    def _selected(self, view: View, expression: str) -> int:
        # Where an expression fails the node must be asked, for the attempt may end there.
        column = view.column(expression, self._inventory.selectors)
        return column.selected | sum(1 << rank for rank in column.faults)
