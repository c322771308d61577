"""DeviceDemand: the devices that pods of one signature request, by claims and by extended resources.

`precheck` is cheap and optimistic: `allocation.quick_checks` counts the free devices of a node for each request. Nodes
that pass are decided by `allocate`. If `allocate` may end in an error on a node, the precheck answers UNSURE: such an
error ends the attempt for all nodes, so these nodes are filtered first.
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
"""The name of the plugin in statuses."""
CANNOT_ALLOCATE: Final = Status.of(PLUGIN, Code.CANNOT_ALLOCATE)
_INVALID_POOLS: Final = Status.of(PLUGIN, Code.INVALID_POOLS)
_MOST_KINDS: Final = 4096
# Size of the claims; the demands are several times as large.
_MOST_BYTES: Final = 16 << 20
_PREFERENCE: Final = 8


class DeviceDemand:
    """Compared by identity: claims of the same content have the same object (`DeviceDemands`)."""

    __slots__ = (
        "__weakref__",
        "_by_served",
        "_fewest",
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
        """Names of extended resources that a device class may serve on nodes that do not have them."""
        self.document = document
        """A pod with this demand; its containers are read for extended resources."""
        self.requests = [request for spec in specs for request in requests_of(spec)]
        self._missing: Reason | Literal[False] | None = None
        """The reason if a device class does not exist, False if all classes exist, None if not checked yet."""
        self._by_served: dict[frozenset[str], tuple[list[Object], list[Object]]] = {}
        self.prioritised = any(request.get("firstAvailable") for request in self.requests)
        """Whether a request has alternatives, which nodes may serve differently."""
        self._fewest = sum(map(quick_checks.fewest_devices, self.requests))
        self._may_fail = any(map(quick_checks.may_fail, specs))
        modes = (option.get("allocationMode") for request in self.requests for option in alternatives_of(request))
        self.uncertain = self.prioritised or "All" in modes
        """Whether the number of devices of a class depends on the node."""

    def __bool__(self) -> bool:
        return bool(self.specs or self.extended)

    def is_several(self, amounts: Mapping[str, int]) -> bool:
        """Whether the demand is for two or more devices; `amounts` are the pod's requests of extended resources."""
        return self._fewest + sum([amounts.get(name, 0) for name in self.extended]) > 1

    def served(self, node: Node) -> frozenset[str]:
        """The extended resources that devices must serve on the node, since the node itself does not have them."""
        if not self.extended:
            return self.extended
        return frozenset(name for name in self.extended if not node.allocatable.get(name))

    def extended_requests(self, served: frozenset[str], resources: ResourceMap) -> tuple[list[Object], list[Object]]:
        """The device requests for extended resources, and the mappings of containers to these requests."""
        known = self._by_served.get(served)
        if known is None:
            known = self._by_served[served] = requests_for(self.document, served, resources)
        return known

    def missing_class(self, inventory: Inventory) -> Reason | None:
        """The reason if a device class does not exist, so that no node can serve the demand."""
        if self._missing is None:
            self._missing = self._find_missing_class(inventory) or False
        return self._missing or None

    def forget_classes(self) -> None:
        """Drops answers that depend on device classes."""
        self._missing = None
        self._by_served.clear()

    def _find_missing_class(self, inventory: Inventory) -> Reason | None:
        for request in self.requests:
            for subrequest in alternatives_of(request):
                name = subrequest.get("deviceClassName") or ""
                if name not in inventory.classes:
                    title = f"{request['name']}/{subrequest['name']}" if subrequest.get("name") else request["name"]
                    return Reason(Code.CLASS_NOT_FOUND, (title, name, suggestion(name, inventory.classes)))
        return None

    def precheck(self, inventory: Inventory, resources: ResourceMap, node: Node) -> Status | None:
        """Why the node cannot serve the demand; UNSURE if `allocate` may end in an error there."""
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
        """Returns the device requests of the pod on the node: those of its claims and those for extended resources."""
        if not self.extended:
            return self.requests
        return [*self.requests, *self.extended_requests(self.served(node), resources)[0]]

    def room(self, inventory: Inventory, resources: ResourceMap, node: Node, most: int) -> int:
        """Counts the pods of the signature that the node has devices for, up to `most`. The count may be too high."""
        view = inventory.judged_view(node.document)
        if view is None:
            return most
        return quick_checks.most_copies(inventory, view, self._requests_on(node, resources), most)

    def distance(self, inventory: Inventory, node: Node) -> tuple[int, int]:
        """How far the node is from serving the claims, by counting devices; nearer nodes sort first."""
        view = inventory.judged_view(node.document)
        return quick_checks.distance(inventory, view, self.requests) if view is not None else quick_checks.FAR

    def rank(self, inventory: Inventory, node: Node) -> int:
        """The rank of the alternatives that the node can probably serve: higher is better."""
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
    """The rank of the alternatives that were allocated, on the scale of `DeviceDemand.rank`."""
    total = 0
    for claim, result in zip(claims, results, strict=True):
        chosen = {device["request"] for device in allocation_results(result)}
        for request in requests_of(claim["spec"]):
            for number, subrequest in enumerate(request.get("firstAvailable") or ()):
                if f"{request['name']}/{subrequest['name']}" in chosen:
                    total += _PREFERENCE - number
    return total


NO_DEMAND: Final = DeviceDemand([], frozenset(), {})


class DeviceDemands:
    """The demands that were used last."""

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
        """Returns the demand of a pod; the same object for the same demand while it is cached.

        `requirements` distinguishes pods whose containers request different amounts of extended resources. `beside`
        are the allocated claims of the pod.
        """
        if not claims and not extended:
            return NO_DEMAND
        specs = [claim["spec"] for claim in claims]
        text = msgspec.json.encode(specs)
        key = (text, extended, requirements if extended else None, _alignment(claims, beside))
        known = self._known.get(key)
        if known is None:
            known = DeviceDemand(specs, extended, document)
            self._known.put(key, known, len(text))
        return known

    def forget_classes(self) -> None:
        """Drops answers that depend on device classes, after a class changed."""
        for demand in self._known.values():
            demand.forget_classes()


def _alignment(claims: Sequence[Object], beside: Sequence[Object]) -> bytes:
    """Distinguishes demands with equal claims that have to be aligned with different devices."""
    if not any(map(is_aligned, claims)):
        return b""
    wanted = [annotations_of(claim).get(MATCH_ATTRIBUTE) for claim in claims]
    held = [(annotations_of(claim).get(MATCH_ATTRIBUTE), results_of(claim)) for claim in beside if is_aligned(claim)]
    return msgspec.json.encode((wanted, held))
