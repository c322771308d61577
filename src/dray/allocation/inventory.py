"""The inventory: slices, classes and what is allocated, compiled once and kept current from events.

Slices, taint rules, classes and claims come and go one at a time; each event touches what it concerns and nothing
else. What a node sees of it is a `View`, made when first asked for and kept until a slice it depends on changes.
`allocate` only reads an inventory.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence

from dray.allocation import taints
from dray.allocation.counters import CounterSets
from dray.allocation.devices import Device, DeviceID
from dray.allocation.node_selectors import NodeSelectorError
from dray.allocation.pools import Pool, PoolState, gather
from dray.allocation.selectors import Selectors
from dray.allocation.slices import PoolKey, Slice
from dray.allocation.usage import Usage, claim_key
from dray.allocation.views import View
from dray.api.gates import ALL_GATES, FeatureGates
from dray.api.objects import Object, mapping
from dray.api.resource_claims import allocation_of, allocation_results


class Inventory:
    def __init__(
        self,
        *,
        slices: Iterable[Object] = (),
        classes: Iterable[Object] = (),
        claims: Iterable[Object] = (),
        taint_rules: Iterable[Object] = (),
        gates: FeatureGates = ALL_GATES,
        selectors: Selectors | None = None,
    ) -> None:
        self.gates = gates
        self.selectors = selectors or Selectors(gates)
        self.usage = Usage(shares=gates["DRAConsumableCapacity"])
        self.classes: dict[str, Object] = {}
        self._classes_revision = 0
        self._rules = {rule["metadata"]["name"]: rule for rule in taint_rules}
        self._slices: dict[str, Slice] = {}
        self._by_node: dict[str, dict[str, Slice]] = {}
        """Slices by node name and own name; those without a node name under the empty name."""
        self._by_pool: dict[PoolKey, list[Slice]] = {}
        self._spread: dict[PoolKey, int] = {}
        """Number of slices by pool that are not for one named node."""
        self._places: dict[DeviceID, list[tuple[Slice, int]]] = {}
        self._counter_sets: dict[PoolKey, dict[tuple[int, ...], CounterSets]] = {}
        self._views: dict[str, View] = {}
        self._alike: dict[tuple[int, ...], View] = {}
        """Views by the slices that target the node: nodes that see the same slices share all but the node."""
        self._viewers: dict[PoolKey, set[str]] = {}
        for class_ in classes:
            self.put_class(class_)
        for slice_ in slices:
            self.put_slice(slice_)
        for claim in claims:
            self.put_claim(claim)

    # Classes

    def put_class(self, device_class: Object) -> None:
        self.classes[device_class["metadata"]["name"]] = device_class
        self._classes_revision += 1

    def remove_class(self, name: str) -> None:
        self.classes.pop(name, None)
        self._classes_revision += 1

    # Slices

    def put_slice(self, document: Object) -> None:
        """Adds or replaces a slice."""
        self.remove_slice(document["metadata"]["name"])
        slice_ = Slice(document, self._rules.values())
        self._slices[slice_.name] = slice_
        self._by_node.setdefault(slice_.node_name, {})[slice_.name] = slice_
        self._by_pool.setdefault(slice_.key, []).append(slice_)
        self._spread[slice_.key] = self._spread.get(slice_.key, 0) + (not slice_.node_name)
        for position, device in enumerate(slice_.devices):
            self._places.setdefault(device.id, []).append((slice_, position))
            if device.id in self.usage.devices:
                self._mark(slice_, position, device.id)
        self._forget(slice_)

    def has_driver(self, driver: str) -> bool:
        """Returns True if a ResourceSlice of the driver exists."""
        return any(each == driver for each, _ in self._by_pool)

    def rule_with(self, taint: Object, device: Device) -> str:
        """Returns the name of the DeviceTaintRule that put the taint on the device; empty if the driver did."""
        wanted = _taint_key(taint)
        for name, rule in self._rules.items():
            applies = taints.rule_applies(rule, device.driver, device.pool, device.name)
            if applies and _taint_key(mapping(rule["spec"].get("taint"))) == wanted:
                return str(name)
        return ""

    def has_pool(self, pool: PoolKey) -> bool:
        """Whether some slice of it is published."""
        return pool in self._by_pool

    def newest_slices(self) -> Iterator[Slice]:
        """Yields the slices of each pool's newest generation."""
        for slices in self._by_pool.values():
            newest = max(slice_.generation for slice_ in slices)
            yield from (slice_ for slice_ in slices if slice_.generation == newest)

    def remove_slice(self, name: str) -> None:
        slice_ = self._slices.pop(name, None)
        if slice_ is None:
            return
        del self._by_node[slice_.node_name][name]
        self._by_pool[slice_.key].remove(slice_)
        self._spread[slice_.key] -= not slice_.node_name
        if not self._by_pool[slice_.key]:
            del self._by_pool[slice_.key]
            del self._spread[slice_.key]
        for device in slice_.devices:
            places = [place for place in self._places.pop(device.id, ()) if place[0] is not slice_]
            if places:
                self._places[device.id] = places
        self._forget(slice_)

    def _forget(self, slice_: Slice) -> None:
        """Drops cached views that a change of the slice may affect."""
        self._alike.clear()
        self._counter_sets.pop(slice_.key, None)
        if not slice_.node_name or self._is_spread(slice_.key):
            self._views.clear()
            self._viewers.clear()
            return
        self._views.pop(slice_.node_name, None)
        for node in self._viewers.pop(slice_.key, ()):
            self._views.pop(node, None)

    # Taint rules

    def put_taint_rule(self, rule: Object) -> None:
        self._rules[rule["metadata"]["name"]] = rule
        self._apply_rules()

    def remove_taint_rule(self, name: str) -> None:
        if self._rules.pop(name, None) is not None:
            self._apply_rules()

    def _apply_rules(self) -> None:
        for slice_ in self._slices.values():
            for device in slice_.devices:
                device.apply_rules(self._rules.values())
        self._alike.clear()
        self._views.clear()
        self._viewers.clear()

    # Claims

    def put_claim(self, claim: Object) -> None:
        """Adds or updates a claim; the devices in its status are in use from now on."""
        allocation = allocation_of(claim)
        if not allocation:
            self.remove_claim(claim)
            return
        results = allocation_results(allocation)
        self.follow(self.usage.hold(claim_key(claim), list(results)))

    def remove_claim(self, claim: Object) -> None:
        """Releases the devices of a claim that is deleted or deallocated."""
        self.follow(self.usage.release(claim_key(claim)))

    def viewers(self, device: DeviceID) -> Iterable[str] | None:
        """Returns the nodes that see the device's pool; None if any node may."""
        key = device[:2]
        return None if self._is_spread(key) else self._viewers.get(key, ())

    @property
    def is_spread(self) -> bool:
        """Whether there are devices that are not for one named node."""
        return any(self._spread.values())

    def _is_spread(self, pool: PoolKey) -> bool:
        """Whether some slice of the pool is not for one named node."""
        return self._spread.get(pool, 0) > 0

    def follow(self, changed: Sequence[DeviceID]) -> None:
        """Updates bitsets and counters from the usage of these devices."""
        for device in changed:
            for slice_, position in self._places.get(device, ()):
                self._mark(slice_, position, device)
            for counter_sets in self._counter_sets.get(device[:2], {}).values():
                counter_sets.follow(device, allocated=device in self.usage.devices)

    def _mark(self, slice_: Slice, position: int, device: DeviceID) -> None:
        bit = 1 << position
        usage = self.usage.devices.get(device)
        slice_.held = slice_.held | bit if usage and usage.owners else slice_.held & ~bit
        slice_.shared = slice_.shared | bit if usage and usage.shares else slice_.shared & ~bit

    # Views

    def device(self, device: DeviceID) -> Device | None:
        """Returns the device of the newest slice; None if it is not published."""
        places = self._places.get(device, ())
        newest = max(places, key=lambda place: place[0].generation, default=None)
        return newest[0].devices[newest[1]] if newest is not None else None

    def view(self, node: Object) -> View:
        """Returns the node's view of the inventory. Raises NodeSelectorError if a slice cannot be matched."""
        name = node["metadata"]["name"]
        view = self._views.get(name)
        if view is None or not view.is_of(node):
            view = self._views[name] = self._look(node)
        return view

    def judged_view(self, node: Object | None) -> View | None:
        """Returns the node's view; None for no node and if a slice cannot be matched."""
        try:
            return self.view(node) if node is not None else None
        except NodeSelectorError:
            return None

    def excerpt(self, view: View) -> Inventory:
        """Copies the pools of the view and the claims that hold their devices."""
        return Inventory.restored(self.snapshot(view), self.gates, self.selectors)

    def snapshot(self, view: View) -> Object:
        """Returns what the view depends on, as plain data that shares the documents of this inventory."""
        slices = [slice_ for pool in view.pools for slice_ in self._by_pool.get((pool.driver, pool.name), ())]
        held = [self.usage.devices.get(device.id) for slice_ in slices for device in slice_.devices]
        claims = sorted({claim for usage in held if usage is not None for claim in usage.claims()})
        return {
            "slices": [slice_.document for slice_ in slices],
            "classes": list(self.classes.values()),
            "taintRules": list(self._rules.values()),
            "holdings": [{"claim": claim, "results": self.usage.claims[claim]} for claim in claims],
        }

    @classmethod
    def restored(cls, snapshot: Object, gates: FeatureGates, selectors: Selectors | None = None) -> Inventory:
        copy = cls(
            slices=snapshot["slices"],
            classes=snapshot["classes"],
            taint_rules=snapshot["taintRules"],
            gates=gates,
            selectors=selectors,
        )
        for holding in snapshot["holdings"]:
            namespace, name = holding["claim"]
            copy.follow(copy.usage.hold((namespace, name), holding["results"]))
        return copy

    def stamp(self, view: View) -> Hashable:
        """Returns a key that is equal as long as an answer about the view stays valid."""
        usage = self.usage.devices
        shared = [view.devices[rank].id for rank in view.ranks(view.shared)]
        return (
            view.serial,
            view.here,
            view.held,
            tuple((device, *sorted((n, a.nanos) for n, a in usage[device].consumed.items())) for device in shared),
            tuple(tuple(counter_sets.left) for counter_sets in dict.fromkeys(view.counter_sets.values())),
            self._classes_revision,
        )

    def columns(self) -> Object:
        """Returns the cached verdicts of selectors by slice and expression, as plain data."""
        return {slice_.name: slice_.known_columns() for slice_ in self._slices.values()}

    def learn(self, slices: Iterable[Object], columns: Object) -> None:
        """Adopts cached verdicts from elsewhere, for slices that are unchanged."""
        for document in slices:
            slice_ = self._slices.get(document["metadata"]["name"])
            if slice_ is not None and slice_.document is document:
                slice_.learn(columns.get(slice_.name) or {})

    def _look(self, node: Object) -> View:
        metadata = node["metadata"]
        name, labels = metadata["name"], mapping(metadata.get("labels"))
        targeting = [slice_ for slice_ in self._relevant(name) if slice_.targets(name, labels)]
        for slice_ in targeting:
            if slice_.node_name:
                self._viewers.setdefault(slice_.key, set()).add(name)
        alike = tuple(map(id, targeting))
        if alike in self._alike:
            return self._alike[alike].seen_from(node)
        view = self._alike[alike] = self._view(node, targeting)
        return view

    def _view(self, node: Object, targeting: Iterable[Slice]) -> View:
        pools = gather(targeting, self._by_pool, self.gates)
        counter_sets: dict[int, CounterSets] = {}
        for position, pool in enumerate(pools):
            if pool.state is PoolState.COMPLETE and (found := self._counter_sets_of(pool)) is not None:
                counter_sets[position] = found
        return View(node, pools, counter_sets, self.usage, self.gates)

    def _relevant(self, node: str) -> Iterator[Slice]:
        for group in (node, "") if node else ("",):
            for slice_ in self._by_node.get(group, {}).values():
                if slice_.usable(self.gates):
                    yield slice_

    def _counter_sets_of(self, pool: Pool) -> CounterSets | None:
        """Returns the pool's counters, shared by all nodes that see the same slices."""
        if not any(slice_.counter_sets for slice_ in pool.members):
            return None
        known = self._counter_sets.setdefault((pool.driver, pool.name), {})
        key = tuple(sorted(id(slice_) for slice_ in pool.members))
        counter_sets = known.get(key)
        if counter_sets is None:
            counter_sets = known[key] = CounterSets(pool.members)
            for slice_ in pool.members:
                for device in slice_.devices:
                    if device.id in self.usage.devices:
                        counter_sets.follow(device.id, allocated=True)
        return counter_sets


def _taint_key(taint: Object) -> tuple[str, str, str]:
    return taint.get("key") or "", taint.get("value") or "", taint.get("effect") or ""
