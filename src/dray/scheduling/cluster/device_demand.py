"""DeviceDemand: the devices that pods of one signature ask for, by claims and by extended resources.

`precheck` is cheap and optimistic: it counts, request by request, the free devices of a node that class and request
select. What it lets through is decided by `allocate`. Where an attempt may end in an error, it lets everything through
and says so: an error on one node ends the attempt for all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

import msgspec

from dray.allocation import Inventory, WorkExhausted, quick_checks
from dray.allocation.alignment import MATCH_ATTRIBUTE, is_aligned
from dray.allocation.pools import PoolState
from dray.allocation.views import View
from dray.api.caches import Cache
from dray.api.objects import Object, annotations_of
from dray.api.resource_claims import allocation_results, alternatives_of, requests_of, results_of
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


class DeviceDemand:
    """Compared by identity: `DeviceDemands` gives the same one for claims of the same content."""

    __slots__ = (
        "__weakref__",
        "_by_served",
        "_may_fail",
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
        self._may_fail = any(map(quick_checks.may_fail, specs))
        modes = (each.get("allocationMode") for request in self.requests for each in alternatives_of(request))
        self.uncertain = self.prioritised or "All" in modes
        """Whether nodes differ in how many devices of which class it gets."""

    def __bool__(self) -> bool:
        return bool(self.specs or self.extended)

    def is_several(self, amounts: Mapping[str, int]) -> bool:
        """Whether it takes several devices at the least; `amounts` are what the pod asks for of extended resources."""
        fewest = map(quick_checks.fewest_devices, self.requests)
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
            for subrequest in alternatives_of(request):
                name = subrequest.get("deviceClassName") or ""
                if name not in inventory.classes:
                    title = f"{request['name']}/{subrequest['name']}" if subrequest.get("name") else request["name"]
                    return Reason(Code.CLASS_NOT_FOUND, (title, name, suggestion(name, inventory.classes)))
        return None

    def precheck(self, inventory: Inventory, resources: ResourceMap, node: Node) -> Status | None:
        """Why the node cannot serve it; UNSURE where only `allocate` can tell, since it may find an error there."""
        view = inventory.judged_view(node.document)
        if view is None or self._may_fail:
            return UNSURE
        try:
            enough = quick_checks.check(inventory, view, self._requests_on(node, resources))
        except WorkExhausted:
            # The node may be able to serve it.
            return None
        if enough is not False:
            return None if enough else UNSURE
        invalid = any(pool.state is PoolState.INVALID for pool in view.pools)
        return _INVALID_POOLS if invalid else CANNOT_ALLOCATE

    def _requests_on(self, node: Node, resources: ResourceMap) -> list[Object]:
        """All requests that devices of the node must serve."""
        if not self.extended:
            return self.requests
        return [*self.requests, *self.extended_requests(self.served(node), resources)[0]]

    def room(self, inventory: Inventory, resources: ResourceMap, node: Node, most: int) -> int:
        """For how many pods of the signature the node has devices, by counting: up to `most`, never too few."""
        view = inventory.judged_view(node.document)
        if view is None:
            return most
        return quick_checks.most_copies(inventory, view, self._requests_on(node, resources), most)

    def distance(self, inventory: Inventory, node: Node) -> tuple[int, int]:
        """How far the node is from serving the claims, by counting devices; nearer nodes sort first."""
        view = inventory.judged_view(node.document)
        return quick_checks.distance(inventory, view, self.requests) if view is not None else quick_checks.FAR

    def rank(self, inventory: Inventory, node: Node) -> int:
        """How good the alternatives are that the node seems to offer: the higher, the better."""
        view = inventory.judged_view(node.document)
        if view is None:
            return 0
        total = 0
        for request in self.requests:
            subrequests = request.get("firstAvailable") or ()
            offered = (n for n, each in enumerate(subrequests) if _may_serve(inventory, view, each))
            total += next((_PREFERENCE - n for n in offered), 0)
        return total


def _may_serve(inventory: Inventory, view: View, alternative: Object) -> bool:
    try:
        return quick_checks.check_alternative(inventory, view, alternative) is not False
    except WorkExhausted:
        return True


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
