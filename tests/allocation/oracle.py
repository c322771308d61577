"""A second opinion, written from the rules and sharing no code with the allocator: slow, small and literal.

`check` says what is wrong with an allocation. `solve` walks the whole tree of Kubernetes' search and gives the first
solution, `None`, or `ERROR` where the attempt ends in a fault. Both know the features that `scenarios` makes use of.
"""

from __future__ import annotations

import re
from collections import Counter
from itertools import combinations
from typing import Any

from dray.api.objects import Object
from tests.allocation.devices import DRIVER
from tests.allocation.scenarios import Scenario

ERROR = "error"
_INDEX = re.compile(r"\.index > (\d+)$")


class TooMuch(Exception):
    """The tree is too large to be walked."""


class Fault(Exception):
    """The attempt ends here."""


def devices_of(scenario: Scenario) -> list[Object]:
    """All devices in the order of the search."""
    slices = sorted(scenario.slices, key=lambda each: each["metadata"]["name"])
    return [device for each in slices for device in each["spec"].get("devices", ())]


def selected(device: Object, way: Object) -> bool:
    index = device["attributes"]["index"]["int"]
    expressions = [each["cel"]["expression"] for each in way.get("selectors", ())]
    return all(index > int(_INDEX.search(each)[1]) for each in expressions)  # type: ignore[index]


def tolerated(device: Object, way: Object) -> bool:
    return not device.get("taints") or bool(way.get("tolerations"))


def values(device: Object, attribute: str) -> set[Any]:
    attributes = device["attributes"]
    found = attributes.get(attribute) or attributes.get(attribute.removeprefix(f"{DRIVER}/")) or {}
    (value,) = found.values() or [[]]
    return set(value) if isinstance(value, list) else {value}


def consumed(device: Object, way: Object) -> int | None:
    """Memory that a pick consumes; None where the device can never serve the request."""
    memory = device.get("capacity", {}).get("memory")
    wanted = way.get("capacity", {}).get("requests", {}).get("memory")
    if memory is None:
        return None if wanted is not None else 0
    total = int(memory["value"])
    default = memory.get("requestPolicy", {}).get("default")
    amount = int(wanted) if wanted is not None else int(default) if default is not None else total
    return amount if amount <= total else None


def covers(constraint: Object, request: Object, way: Object) -> bool:
    names = constraint.get("requests")
    full = f"{request['name']}/{way.get('name')}"
    return not names or request["name"] in names or full in names


class Pick:
    def __init__(self, claim: int, request: Object, way: Object, device: Object) -> None:
        self.claim, self.request, self.way, self.device = claim, request, way, device


def fits_counters(scenario: Scenario, picks: list[Pick]) -> bool:
    """Whether what is allocated and what is picked stays within the counters, and the groups agree."""
    in_use = set(held(scenario))
    drawing = [device for device in devices_of(scenario) if device["name"] in in_use]
    companies: dict[str, set[str] | None] = {}
    for device in drawing:
        for entry in device.get("consumesCounters", ()):
            _join(companies, entry)
    seen: set[str] = set()
    for pick in picks:
        name = pick.device["name"]
        if not (pick.device.get("allowMultipleAllocations") and name in seen):
            drawing.append(pick.device)
            if not all(_join(companies, entry) for entry in pick.device.get("consumesCounters", ())):
                return False
        seen.add(name)
    used: Counter[tuple[str, str]] = Counter()
    for device in drawing:
        for entry in device.get("consumesCounters", ()):
            for counter, amount in entry["counters"].items():
                used[entry["counterSet"], counter] += int(amount["value"])
    totals = {
        (each["name"], counter): int(amount["value"])
        for slice_ in scenario.slices
        for each in slice_["spec"].get("sharedCounters", ())
        for counter, amount in each["counters"].items()
    }
    return not any(amount > totals[key] for key, amount in used.items())


def _join(companies: dict[str, set[str] | None], entry: Object) -> bool:
    """Folds a device into the groups of its counter set (None: without groups); whether it may be there."""
    name, groups = entry["counterSet"], set(entry.get("compatibilityGroups", ()))
    if name not in companies:
        companies[name] = groups or None
        return True
    common = companies[name]
    if common is None or not groups:
        return common is None and not groups
    companies[name] = common & groups
    return bool(common & groups)


def held(scenario: Scenario) -> list[str]:
    return [
        result["device"]
        for claim in scenario.allocated
        for result in claim["status"]["allocation"]["devices"]["results"]
        if not result.get("adminAccess")
    ]


def constraint_holds(constraint: Object, picks: list[Pick]) -> bool:
    kind = "matchAttribute" if "matchAttribute" in constraint else "distinctAttribute"
    sets = [values(p.device, constraint[kind]) for p in picks if covers(constraint, p.request, p.way)]
    if not all(sets):
        return False
    if kind == "matchAttribute":
        return not sets or bool(set.intersection(*sets))
    return all(not one & other for one, other in combinations(sets, 2))


class Oracle:
    def __init__(self, scenario: Scenario, most: int = 20_000) -> None:
        self.scenario = scenario
        self.devices = devices_of(scenario)
        self.held = set(held(scenario))
        self.left = most
        self.places = [
            (number, request)
            for number, claim in enumerate(scenario.claims)
            for request in claim["spec"]["devices"]["requests"]
        ]

    def solve(self) -> list[tuple[str, str]] | str | None:
        """(request, device) pairs of the first solution."""
        try:
            picks = self._serve(0, [])
        except Fault:
            return ERROR
        if picks is None:
            return None
        return [
            (p.request["name"] if "exactly" in p.request else f"{p.request['name']}/{p.way['name']}", p.device["name"])
            for p in picks
        ]

    def _serve(self, place: int, picks: list[Pick]) -> list[Pick] | None:
        if place == len(self.places):
            return picks
        claim, request = self.places[place]
        for way in [request["exactly"]] if "exactly" in request else request["firstAvailable"]:
            if way["allocationMode"] == "All":
                listed = [each for each in self.devices if selected(each, way) and consumed(each, way) is not None]
                found = self._take_all(place, claim, request, way, listed, picks) if listed else None
            else:
                found = self._take(place, claim, request, way, way["count"], 0, picks)
            if found is not None:
                return found
        return None

    def _take(
        self, place: int, claim: int, request: Object, way: Object, count: int, start: int, picks: list[Pick]
    ) -> list[Pick] | None:
        self.left -= 1
        if self.left < 0:
            raise TooMuch
        if not count:
            return self._serve(place + 1, picks)
        for number in range(start, len(self.devices)):
            more = self._with(claim, request, way, self.devices[number], picks)
            if more is not None and all(
                constraint_holds(each, self._of(claim, more)) for each in self._constraints(claim)
            ):
                found = self._take(place, claim, request, way, count - 1, number + 1, more)
                if found is not None:
                    return found
        return None

    def _take_all(
        self, place: int, claim: int, request: Object, way: Object, listed: list[Object], picks: list[Pick]
    ) -> list[Pick] | None:
        for device in listed:
            more = self._with(claim, request, way, device, picks, checks_capacity=False)
            if more is None:
                return None
            if not all(constraint_holds(each, self._of(claim, more)) for each in self._constraints(claim)):
                raise Fault
            if not self._has_room(device, way, picks):
                return None
            picks = more
        return self._serve(place + 1, picks)

    def _constraints(self, claim: int) -> list[Object]:
        found: list[Object] = self.scenario.claims[claim]["spec"]["devices"].get("constraints", [])
        return found

    @staticmethod
    def _of(claim: int, picks: list[Pick]) -> list[Pick]:
        return [pick for pick in picks if pick.claim == claim]

    def _with(
        self, claim: int, request: Object, way: Object, device: Object, picks: list[Pick], checks_capacity: bool = True
    ) -> list[Pick] | None:
        """The picks and this one, where the device is free, fits and is not too expensive."""
        exclusive = not device.get("allowMultipleAllocations")
        name = device["name"]
        taken = [p for p in picks if p.device["name"] == name and exclusive]
        if way.get("adminAccess"):
            if any(p.claim == claim for p in taken):
                return None
        elif name in self.held or taken:
            return None
        if not selected(device, way) or not tolerated(device, way) or consumed(device, way) is None:
            return None
        if checks_capacity and not self._has_room(device, way, picks):
            return None
        more = [*picks, Pick(claim, request, way, device)]
        return more if not device.get("consumesCounters") or fits_counters(self.scenario, more) else None

    @staticmethod
    def _has_room(device: Object, way: Object, picks: list[Pick]) -> bool:
        if not device.get("allowMultipleAllocations") or "capacity" not in device:
            return True
        before = sum(consumed(p.device, p.way) or 0 for p in picks if p.device["name"] == device["name"])
        return before + (consumed(device, way) or 0) <= int(device["capacity"]["memory"]["value"])


def check(scenario: Scenario, results: tuple[Object, ...]) -> list[str]:
    """What is wrong with an allocation, whatever policy it was made by."""
    picks, problems = [], []
    by_name = {device["name"]: device for device in devices_of(scenario)}
    for number, (claim, result) in enumerate(zip(scenario.claims, results, strict=True)):
        requests = {each["name"]: each for each in claim["spec"]["devices"]["requests"]}
        for each in result["devices"].get("results", ()):
            parent, _, name = each["request"].partition("/")
            request = requests[parent]
            ways = [request["exactly"]] if "exactly" in request else request["firstAvailable"]
            way = next(way for way in ways if way.get("name", "") == name)
            picks.append(Pick(number, request, way, by_name[each["device"]]))
        problems += _check_counts(requests, [pick for pick in picks if pick.claim == number])
        own = [pick for pick in picks if pick.claim == number]
        for constraint in claim["spec"]["devices"].get("constraints", ()):
            if not constraint_holds(constraint, own):
                problems.append(f"constraint {constraint} does not hold")
    return problems + _check_devices(scenario, picks)


def _check_counts(requests: dict[str, Object], picks: list[Pick]) -> list[str]:
    problems = []
    for name in requests:
        own = [pick for pick in picks if pick.request["name"] == name]
        names = {pick.device["name"] for pick in own}
        ways = {id(pick.way) for pick in own}
        if len(ways) != 1 or len(names) != len(own):
            problems.append(f"request {name} is served in {len(ways)} ways, with {len(own)} results")
        elif own[0].way["allocationMode"] != "All" and len(own) != own[0].way["count"]:
            problems.append(f"request {name} got {len(own)} devices")
    return problems


def _check_devices(scenario: Scenario, picks: list[Pick]) -> list[str]:
    problems = []
    taken = set(held(scenario))
    used: Counter[str] = Counter()
    for pick in picks:
        device, name = pick.device, pick.device["name"]
        if not selected(device, pick.way) or not tolerated(device, pick.way) or consumed(device, pick.way) is None:
            problems.append(f"{name} does not suit {pick.request['name']}")
        if name in taken and not pick.way.get("adminAccess"):
            problems.append(f"{name} is in use")
        if not device.get("allowMultipleAllocations"):
            taken.add(name)
        used[name] += (consumed(device, pick.way) or 0) if device.get("allowMultipleAllocations") else 0
        if "capacity" in device and used[name] > int(device["capacity"]["memory"]["value"]):
            problems.append(f"{name} is overcommitted")
    if any(pick.device.get("consumesCounters") for pick in picks) and not fits_counters(scenario, picks):
        problems.append("counters or groups do not allow it")
    return problems
