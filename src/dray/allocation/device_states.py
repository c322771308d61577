"""Devices of a cluster and who holds them: a table of states, put together from slices, claims, pods and taint rules.

A device is `free`, `allocated`, `shared` (several may hold a part), `tainted`, or `blocked`: what it needs of the
counters of its pool is used by others, as a GPU some of whose partitions are in use.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from dray.allocation.taints import effective, rule_applies
from dray.api.device_utilization import Utilization, reports_of
from dray.api.objects import Object, key_of, mapping, mappings, spec_of
from dray.api.pods import claims_used, extended_claim, is_terminal
from dray.api.quantity import Quantity
from dray.api.resource_claims import results_of

Place = tuple[str, str, str]
"""(driver, pool, device)."""
STATES: Final = ("free", "allocated", "shared", "tainted", "blocked")


@dataclass(frozen=True, slots=True)
class Holder:
    """A claim, the pods that use it, and what it has of a device's capacity where that is shared."""

    claim: str
    pods: tuple[str, ...]
    share: Mapping[str, str]

    @property
    def text(self) -> str:
        amount = ", ".join(f"{amount} {name}" for name, amount in self.share.items())
        return f"{self.claim} ({amount})" if amount else self.claim


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceState:
    place: Place
    node: str
    """Name of the node; "" for devices that several nodes can reach."""
    document: Object
    holders: tuple[Holder, ...] = ()
    taints: tuple[Object, ...] = ()
    blocked: bool = False
    utilization: Utilization | None = None
    """The driver reports it in the status of the claims that hold the device."""
    seen_at: float | None = None
    """Time of the observation, in seconds since 1970; None for the present."""

    @property
    def state(self) -> str:
        if self.holders:
            return "shared" if self.document.get("allowMultipleAllocations") else "allocated"
        if self.taints:
            return "tainted"
        return "blocked" if self.blocked else "free"

    def used(self) -> dict[str, tuple[Quantity, Quantity]]:
        """Returns the used and the total amount of each capacity that claims share."""
        found: dict[str, Quantity] = {}
        for holder in self.holders:
            for name, amount in holder.share.items():
                found[name] = found.get(name, Quantity.parse("0")) + Quantity.parse(amount)
        total = amounts(self.document)
        return {name: (amount, Quantity.parse(total[name])) for name, amount in found.items() if name in total}


def amounts(device: Object) -> dict[str, str]:
    """Returns the capacities of a device by name."""
    return {name: str(each["value"]) for name, each in mapping(device.get("capacity")).items()}


def device_states(
    slices: Iterable[Object],
    claims: Iterable[Object],
    pods: Iterable[Object],
    rules: Iterable[Object] = (),
    *,
    seen_at: float | None = None,
) -> list[DeviceState]:
    """Returns the states of all devices by node, driver and pool, in the order in which they are published."""
    newest, claims = list(_newest(slices)), list(claims)
    holders = _holders(claims, pods)
    utilization = _utilization(claims)
    counters = _CountersLeft(newest, holders)
    rules = list(rules)
    made = []
    for slice_ in newest:
        spec = spec_of(slice_)
        driver, pool = spec["driver"], spec["pool"]["name"]
        for device in mappings(spec.get("devices")):
            place = (driver, pool, device["name"])
            node = spec.get("nodeName") or device.get("nodeName") or ""
            added = [spec_of(rule)["taint"] for rule in rules if rule_applies(rule, *place)]
            taints = effective((*mappings(device.get("taints")), *added))
            blocked = place not in holders and not counters.suffice(place, device)
            made.append(
                DeviceState(
                    place=place,
                    node=node,
                    document=device,
                    holders=tuple(holders.get(place, ())),
                    taints=taints,
                    blocked=blocked,
                    utilization=utilization.get(place) if place in holders else None,
                    seen_at=seen_at,
                )
            )
    return sorted(made, key=lambda state: (state.node, *state.place[:2]))


def _newest(slices: Iterable[Object]) -> Iterator[Object]:
    """Returns the slices of the newest generation of each pool, sorted by name."""
    ordered = sorted(slices, key=lambda each: each["metadata"]["name"])
    generations: dict[tuple[str, str], int] = {}
    for slice_ in ordered:
        key = _pool(slice_)
        generations[key] = max(generations.get(key, 0), spec_of(slice_)["pool"].get("generation", 0))
    yield from (
        slice_ for slice_ in ordered if spec_of(slice_)["pool"].get("generation", 0) == generations[_pool(slice_)]
    )


def _pool(slice_: Object) -> tuple[str, str]:
    return spec_of(slice_)["driver"], spec_of(slice_)["pool"]["name"]


def _holders(claims: Iterable[Object], pods: Iterable[Object]) -> dict[Place, list[Holder]]:
    users = defaultdict(list)
    for pod in pods:
        namespace, name = key_of(pod)
        if not is_terminal(pod):
            for claim in {*(claim for _, claim in claims_used(pod)), extended_claim(pod)} - {""}:
                users[namespace, claim].append(name)
    found: dict[Place, list[Holder]] = defaultdict(list)
    for each in claims:
        for result in results_of(each):
            if result.get("adminAccess"):
                # Whoever looks at a device does not keep others from it.
                continue
            holder = Holder("/".join(key_of(each)), tuple(users[key_of(each)]), mapping(result.get("consumedCapacity")))
            found[result["driver"], result["pool"], result["device"]].append(holder)
    return found


def _utilization(claims: Iterable[Object]) -> dict[Place, Utilization]:
    """Returns the newest report about each device."""
    found: dict[Place, Utilization] = {}
    for claim in claims:
        for place, report in reports_of(claim):
            if place not in found or found[place].observed_at < report.observed_at:
                found[place] = report
    return found


class _CountersLeft:
    """The remaining counters of each counter set, after all allocated devices are subtracted."""

    def __init__(self, slices: list[Object], holders: Mapping[Place, list[Holder]]) -> None:
        self._left: dict[tuple[str, str, str, str], Quantity] = {}
        for slice_ in slices:
            for counters in mappings(spec_of(slice_).get("sharedCounters")):
                for name, counter in mapping(counters.get("counters")).items():
                    self._left[*_pool(slice_), counters["name"], name] = Quantity.parse(str(counter["value"]))
        for slice_ in slices:
            for device in mappings(spec_of(slice_).get("devices")):
                place = (*_pool(slice_), device["name"])
                if place in holders:
                    for key, amount in _needs(place, device):
                        self._left[key] = self._left.get(key, Quantity.parse("0")) - amount

    def suffice(self, place: Place, device: Object) -> bool:
        return all(key not in self._left or not self._left[key] < amount for key, amount in _needs(place, device))


def _needs(place: Place, device: Object) -> Iterator[tuple[tuple[str, str, str, str], Quantity]]:
    for counters in mappings(device.get("consumesCounters")):
        for name, counter in mapping(counters.get("counters")).items():
            yield (place[0], place[1], counters["counterSet"], name), Quantity.parse(str(counter["value"]))
