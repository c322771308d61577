"""DeviceDemand: the devices that pods of one signature ask for, by claims and by extended resources.

`precheck` is cheap and optimistic: it counts, request by request, the free devices of a node that class and request
select. What it lets through is decided by `allocate`. Where an attempt may end in an error, it lets everything through
and says so: an error on one node ends the attempt for all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

import msgspec

from dray.allocation import Inventory, WorkExhausted
from dray.allocation.alignment import MATCH_ATTRIBUTE, is_aligned
from dray.allocation.pools import PoolState
from dray.allocation.views import View
from dray.api.caches import Cache
from dray.api.objects import Object, annotations_of, spec_of
from dray.api.quantity import Quantity, QuantityError
from dray.api.resource_claims import MAX_DEVICES, allocation_results, requests_of, results_of
from dray.api.suggestions import suggestion
from dray.scheduling.cluster.extended import ResourceMap, requests_for
from dray.scheduling.model.node import Node
from dray.scheduling.model.reasons import Code, Reason
from dray.scheduling.model.status import UNSURE, Status

PLUGIN: Final = "DynamicResources"
"""The plugin that asks."""
CANNOT_ALLOCATE: Final = Status.of(PLUGIN, Code.CANNOT_ALLOCATE)
_INVALID_POOLS: Final = Status.of(PLUGIN, Code.INVALID_POOLS)
_MOST_KINDS: Final = 4096
# Of the claims; what is made of them is several times as large.
_MOST_BYTES: Final = 16 << 20
_PREFERENCE: Final = 8
_FAR: Final = (2**31, 0)
_LARGE: Final = 2**62 * 10**9
"""An amount beyond which arithmetic may fail, in nanos."""


class DeviceDemand:
    """Compared by identity: `DeviceDemands` gives the same one for claims of the same content."""

    __slots__ = (
        "__weakref__",
        "_by_served",
        "_delicate",
        "_missing",
        "document",
        "extended",
        "prioritised",
        "requests",
        "specs",
        "uncertain",
    )

    def __init__(self, specs: Sequence[Object], extended: frozenset[str], document: Object) -> None:
        self.specs = tuple(specs)
        self.extended = extended
        """Names of resources that a class may serve, where the node itself does not."""
        self.document = document
        """A pod of the kind, for what its containers ask of them."""
        self.requests = [request for spec in specs for request in requests_of(spec)]
        self._missing: Reason | Literal[False] | None = None
        """False where no class is missing, None where that was not asked yet."""
        self._by_served: dict[frozenset[str], tuple[list[Object], list[Object]]] = {}
        self.prioritised = any(request.get("firstAvailable") for request in self.requests)
        """Whether nodes differ in which alternative they offer."""
        self._delicate = any(map(_is_delicate, specs))
        modes = (each.get("allocationMode") for request in self.requests for each in _subrequests(request))
        self.uncertain = self.prioritised or "All" in modes
        """Whether nodes differ in how many devices of which class it gets."""

    def __bool__(self) -> bool:
        return bool(self.specs or self.extended)

    def is_several(self, amounts: Mapping[str, int]) -> bool:
        """Whether it takes several devices at the least; `amounts` are what the pod asks for of extended resources."""
        fewest = (min(map(_fewest, _subrequests(request)), default=0) for request in self.requests)
        return sum(fewest) + sum(amounts.get(name, 0) for name in self.extended) > 1

    def served(self, node: Node) -> frozenset[str]:
        """The extended resources that devices must serve on the node, since it has none of its own."""
        if not self.extended:
            return self.extended
        return frozenset(name for name in self.extended if not node.allocatable.get(name))

    def extended_requests(self, served: frozenset[str], resources: ResourceMap) -> tuple[list[Object], list[Object]]:
        """Requests of the claim for extended resources, and which container gets which."""
        known = self._by_served.get(served)
        if known is None:
            known = self._by_served[served] = requests_for(self.document, served, resources)
        return known

    def missing_class(self, inventory: Inventory) -> Reason | None:
        """Why no node can serve it at all: a class that does not exist."""
        if self._missing is None:
            self._missing = self._find_missing_class(inventory) or False
        return self._missing or None

    def _find_missing_class(self, inventory: Inventory) -> Reason | None:
        for request in self.requests:
            for subrequest in _subrequests(request):
                name = subrequest.get("deviceClassName") or ""
                if name not in inventory.classes:
                    title = f"{request['name']}/{subrequest['name']}" if subrequest.get("name") else request["name"]
                    return Reason(Code.CLASS_NOT_FOUND, (title, name, suggestion(name, inventory.classes)))
        return None

    def precheck(self, inventory: Inventory, resources: ResourceMap, node: Node) -> Status | None:
        """Why the node cannot serve it; UNSURE where only `allocate` can tell, since it may find an error there."""
        view = inventory.judged_view(node.document)
        if view is None:
            return UNSURE
        requests = self.requests
        if self.extended:
            requests = [*requests, *self.extended_requests(self.served(node), resources)[0]]
        unsure, short = self._delicate, False
        for request in requests:
            try:
                prospects = [_could(inventory, view, subrequest) for subrequest in _subrequests(request)]
            except WorkExhausted:
                # It may well be able to.
                return UNSURE if unsure else None
            if None in prospects:
                unsure = True
            elif True not in prospects:
                short = True
        if unsure or not short:
            return UNSURE if unsure else None
        invalid = any(pool.state is PoolState.INVALID for pool in view.pools)
        return _INVALID_POOLS if invalid else CANNOT_ALLOCATE

    def room(self, inventory: Inventory, resources: ResourceMap, node: Node, most: int) -> int:
        """How many of its kind the node can serve at the same time, as far as counting tells: never too few."""
        view = inventory.judged_view(node.document)
        if view is None:
            return most
        requests = self.requests
        if self.extended:
            requests = [*requests, *self.extended_requests(self.served(node), resources)[0]]
        rooms: dict[int, int] = {}
        """How many devices each takes of those that suit it."""
        try:
            for request in requests:
                exactly = request.get("exactly")
                if exactly is not None:
                    bits = _exclusive(inventory, view, exactly)
                    if bits is not None:
                        rooms[bits] = rooms.get(bits, 0) + (exactly.get("count") or 1)
                    continue
                found = [_exclusive(inventory, view, each) for each in request.get("firstAvailable") or ()]
                union = 0
                for bits in found:
                    if bits is None:
                        break
                    union |= bits
                else:
                    most = min(most, union.bit_count())
        except WorkExhausted:
            return most
        return min([most, *(bits.bit_count() // number for bits, number in rooms.items())])

    def distance(self, inventory: Inventory, node: Node) -> tuple[int, int]:
        """How far the node is from serving the claims, as far as counting tells; the smaller, the nearer: how many
        devices are missing, and how few there are that the classes take, in use or not."""
        view = inventory.judged_view(node.document)
        if view is None:
            return _FAR
        missing = there = 0
        for request in self.requests:
            subrequests = [_missing(inventory, view, subrequest) for subrequest in _subrequests(request)]
            lack, kin = min(subrequests, default=_FAR)
            missing, there = missing + lack, there + kin
        return missing, there

    def rank(self, inventory: Inventory, node: Node) -> int:
        """How good the alternatives are that the node seems to offer: the higher, the better."""
        view = inventory.judged_view(node.document)
        if view is None:
            return 0
        total = 0
        for request in self.requests:
            subrequests = request.get("firstAvailable") or ()
            offered = (n for n, subrequest in enumerate(subrequests) if _may(inventory, view, subrequest))
            total += next((_PREFERENCE - n for n in offered), 0)
        return total


def _subrequests(request: Object) -> Sequence[Object]:
    exactly = request.get("exactly")
    return (exactly,) if exactly is not None else request.get("firstAvailable") or ()


def _fewest(subrequest: Object) -> int:
    """How many devices it takes from others; at least two where it wants all."""
    if subrequest.get("adminAccess"):
        return 0
    return 2 if subrequest.get("allocationMode") == "All" else subrequest.get("count") or 1


def _may(inventory: Inventory, view: View, subrequest: Object) -> bool:
    try:
        return _could(inventory, view, subrequest) is not False
    except WorkExhausted:
        return True


def _could(inventory: Inventory, view: View, subrequest: Object) -> bool | None:
    """Whether the node has enough devices for one alternative of a request, looked at alone; None where it may turn out
    that nobody can tell. Raises WorkExhausted."""
    device_class = inventory.classes.get(subrequest.get("deviceClassName") or "")
    if device_class is None:
        return None
    all_of_them = subrequest.get("allocationMode") == "All"
    if all_of_them and any(pool.state is not PoolState.COMPLETE for pool in view.pools):
        return None
    bits = view.every
    if not all_of_them and not subrequest.get("adminAccess"):
        bits &= ~view.held
    for selectors in (spec_of(device_class).get("selectors"), subrequest.get("selectors")):
        for selector in selectors or ():
            if not selector.get("cel"):
                return None
            column = view.column(selector["cel"]["expression"], inventory.selectors)
            if column.faults and any(bits >> rank & 1 for rank in column.faults):
                return None
            bits &= column.selected
    found = bits.bit_count()
    if all_of_them:
        return None if found > MAX_DEVICES else found > 0
    return found >= (subrequest.get("count") or 1)


def _exclusive(inventory: Inventory, view: View, subrequest: Object) -> int | None:
    """The free devices that suit one alternative; None where some of them can serve several at the same time, or that
    cannot be told. Raises WorkExhausted."""
    device_class = inventory.classes.get(subrequest.get("deviceClassName") or "")
    if device_class is None or subrequest.get("adminAccess") or subrequest.get("allocationMode") == "All":
        return None
    bits = view.every & ~view.held
    for selectors in (spec_of(device_class).get("selectors"), subrequest.get("selectors")):
        bits = _selected(inventory, view, bits, selectors)
    return None if bits & view.shareable else bits


def _missing(inventory: Inventory, view: View, subrequest: Object) -> tuple[int, int]:
    device_class = inventory.classes.get(subrequest.get("deviceClassName") or "")
    if device_class is None:
        return _FAR
    of_class = _selected(inventory, view, view.every, spec_of(device_class).get("selectors"))
    taken = _selected(inventory, view, of_class, subrequest.get("selectors"))
    free = (taken & ~view.held).bit_count()
    wanted = 1 if subrequest.get("allocationMode") == "All" else subrequest.get("count") or 1
    return max(0, wanted - free), -min(wanted, of_class.bit_count()) - min(wanted, taken.bit_count())


def _selected(inventory: Inventory, view: View, bits: int, selectors: Sequence[Object] | None) -> int:
    for selector in selectors or ():
        if selector.get("cel"):
            bits &= view.column(selector["cel"]["expression"], inventory.selectors).selected
    return bits


def _is_delicate(spec: Object) -> bool:
    """Whether a claim can be in error by what it asks for, whatever devices there are."""
    requests = requests_of(spec)
    subrequests = [each for request in requests for each in _subrequests(request)]
    constrained = bool((spec.get("devices") or {}).get("constraints"))
    for each in subrequests:
        if (constrained and each.get("allocationMode") == "All") or each.get("derivedAttributes") or _is_odd(each):
            return True
    return sum(min(map(_least, _subrequests(request)), default=0) for request in requests) > MAX_DEVICES


def _least(subrequest: Object) -> int:
    return 0 if subrequest.get("allocationMode") == "All" else subrequest.get("count") or 1


def _is_odd(subrequest: Object) -> bool:
    """Whether it asks for an amount of a capacity that a device may be unable to reckon with."""
    for amount in ((subrequest.get("capacity") or {}).get("requests") or {}).values():
        try:
            nanos = Quantity.parse(str(amount)).nanos
        except QuantityError:
            return True
        if nanos % 10**9 or not 0 <= nanos < _LARGE:
            return True
    return False


def chosen_rank(claims: Sequence[Object], results: Sequence[Object]) -> int:
    """How good the alternatives are that were allocated, on the scale of `DeviceDemand.rank`."""
    total = 0
    for claim, result in zip(claims, results, strict=True):
        chosen = {each["request"] for each in allocation_results(result)}
        for request in requests_of(claim["spec"]):
            for number, subrequest in enumerate(request.get("firstAvailable") or ()):
                if f"{request['name']}/{subrequest['name']}" in chosen:
                    total += _PREFERENCE - number
    return total


NO_DEMAND: Final = DeviceDemand([], frozenset(), {})


class DeviceDemands:
    """Those that were seen lately."""

    def __init__(self) -> None:
        self._known: Cache[tuple[Any, ...], DeviceDemand] = Cache(_MOST_KINDS, _MOST_BYTES)

    def of(
        self,
        claims: Sequence[Object],
        extended: frozenset[str],
        document: Object,
        requirements: object,
        beside: Sequence[Object] = (),
    ) -> DeviceDemand:
        """`requirements` tells pods apart whose containers ask for different amounts of extended resources; `beside`
        are claims of the pod that have devices."""
        specs = [claim["spec"] for claim in claims]
        text = msgspec.json.encode(specs)
        key = (text, extended, requirements if extended else None, _alignment(claims, beside))
        known = self._known.get(key)
        if known is None:
            known = DeviceDemand(specs, extended, document)
            self._known.put(key, known, len(text))
        return known

    def forget_classes(self) -> None:
        """The classes changed: what depends on them must be worked out anew."""
        for demand in self._known.values():
            demand._missing = None
            demand._by_served.clear()


def _alignment(claims: Sequence[Object], beside: Sequence[Object]) -> bytes:
    """What tells demands apart whose claims ask for the same, and are aligned with other devices."""
    if not any(map(is_aligned, claims)):
        return b""
    wanted = [annotations_of(claim).get(MATCH_ATTRIBUTE) for claim in claims]
    held = [(annotations_of(claim).get(MATCH_ATTRIBUTE), results_of(claim)) for claim in beside if is_aligned(claim)]
    return msgspec.json.encode((wanted, held))
