"""Problems that are hard to search, of five kinds, each with an answer that is known without the allocator.

Most are made from a seed. The answer follows from how the problem was made, or from a small search of another kind.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations, product
from typing import Any

from tests.allocation.claims import claim, exactly, request
from tests.allocation.devices import DRIVER, consumes, counter_slice, device, resource_slice
from tests.allocation.scenarios import Scenario


@dataclass(frozen=True)
class Case:
    title: str
    scenario: Scenario
    solvable: bool


# Two tight counters in one set


def counters(seed: int, size: int, count: int, *, solvable: bool) -> Case:
    """`count` of the devices must fit into memory and slices; what is cheap in one is dear in the other."""
    dice = random.Random(seed)
    costs = []
    for _ in range(size):
        memory = dice.randint(5, 25)
        costs.append((memory, max(1, 30 - memory + dice.randint(-4, 4))))
    front = _front(costs, count)
    middle = len(front) // 2
    memory, slices = front[middle] if solvable else (front[middle + 1][0] - 1, front[middle][1] - 1)
    devices = [
        {**device(f"d{number}", index=0), "consumesCounters": [consumes("card", memory=str(m), slices=str(s))]}
        for number, (m, s) in enumerate(costs)
    ]
    totals = {"card": {"memory": str(memory), "slices": str(slices)}}
    scenario = Scenario(
        [resource_slice(devices, count=2), counter_slice(totals, count=2)], [claim("c", request("r", exactly(count)))]
    )
    return Case(f"counters: {count} of {size}, seed {seed}", scenario, solvable)


def _front(costs: list[tuple[int, int]], count: int) -> list[tuple[int, int]]:
    """The pairs of memory and slices for which `count` devices can be had and for no less; memory ascending."""
    best: list[dict[int, int]] = [{0: 0}, *({} for _ in range(count))]
    for memory, slices in costs:
        for taken in range(count, 0, -1):
            for before, least in best[taken - 1].items():
                known = best[taken].get(before + memory)
                if known is None or least + slices < known:
                    best[taken][before + memory] = least + slices
    front: list[tuple[int, int]] = []
    for memory in sorted(best[count]):
        if not front or best[count][memory] < front[-1][1]:
            front.append((memory, best[count][memory]))
    return front


# Partitions of eight cards

PROFILES: dict[str, tuple[int, list[tuple[int, ...]]]] = {
    "1g": (1, [(place,) for place in range(7)]),
    "1g.me": (1, [(0, 1), (2, 3), (4, 5), (6, 7)]),
    "2g": (2, [(0, 1), (2, 3), (4, 5)]),
    "3g": (3, [(0, 1, 2, 3), (4, 5, 6, 7)]),
    "4g": (4, [(0, 1, 2, 3)]),
    "7g": (7, [tuple(range(8))]),
}
"""Multiprocessors of each profile, and the memory slices of each of its placements."""


def partitions(wanted: dict[str, int], cards: int = 8) -> Case:
    devices = []
    for card, (profile, (processors, places)) in product(range(cards), PROFILES.items()):
        for number, place in enumerate(places):
            draws = {"processors": str(processors), **{f"slice_{each}": "1" for each in place}}
            made = device(f"gpu-{card}-{profile.replace('.', '-')}-{number}", profile=profile)
            devices.append({**made, "consumesCounters": [consumes(f"card-{card}", **draws)]})
    totals = {
        f"card-{card}": {"processors": "7", **{f"slice-{each}": "1" for each in range(8)}} for card in range(cards)
    }
    parts = [devices[start : start + 128] for start in range(0, len(devices), 128)]
    slices = [resource_slice(part, name=f"s{number}", count=len(parts) + 1) for number, part in enumerate(parts)]
    requests = [
        request(f"r{number}", exactly(count, f'device.attributes["{DRIVER}"].profile == "{profile}"'))
        for number, (profile, count) in enumerate(wanted.items())
    ]
    # A claim has at most 32 devices.
    claims = [claim(f"c{number}", each) for number, each in enumerate(requests)]
    scenario = Scenario([*slices, counter_slice(totals, count=len(parts) + 1)], claims)
    title = ", ".join(f"{count} of {profile}" for profile, count in wanted.items())
    return Case(f"partitions: {title}", scenario, _partitionable(wanted, cards))


def _partitionable(wanted: dict[str, int], cards: int) -> bool:
    names = list(wanted)
    patterns: set[tuple[int, ...]] = set()

    def extend(start: int, free: int, processors: int, counts: tuple[int, ...]) -> None:
        patterns.add(counts)
        for at in range(start, len(places)):
            position, cost, bits = places[at]
            if cost <= processors and not bits & ~free:
                more = tuple(count + (number == position) for number, count in enumerate(counts))
                extend(at + 1, free & ~bits, processors - cost, more)

    places = [
        (position, PROFILES[name][0], sum(1 << each for each in place))
        for position, name in enumerate(names)
        for place in PROFILES[name][1]
    ]
    extend(0, 255, 7, (0,) * len(names))
    largest = [each for each in patterns if not any(each != other and _within(each, other) for other in patterns)]
    target = tuple(wanted.values())
    reached = {(0,) * len(names)}
    for _ in range(cards):
        reached = {
            tuple(min(most, a + b) for a, b, most in zip(state, pattern, target, strict=True))
            for state in reached
            for pattern in largest
        }
    return target in reached


def _within(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    return all(few <= many for few, many in zip(one, other, strict=True))


# Packing of shares


def shares(title: str, sizes: list[int], devices: int, capacity: int) -> Case:
    policy = {"default": "1", "validRange": {"min": "1", "step": "1"}}
    made = [
        {
            **device(f"d{number}", capacity={"memory": {"value": str(capacity), "requestPolicy": policy}}, index=0),
            "allowMultipleAllocations": True,
        }
        for number in range(devices)
    ]
    requests = [
        request(f"r{number}", exactly(capacity={"requests": {"memory": str(size)}}))
        for number, size in enumerate(sizes)
    ]
    scenario = Scenario([resource_slice(made)], [claim("c", *requests)])
    return Case(f"shares: {title}", scenario, _packable(tuple(sorted(sizes, reverse=True)), (capacity,) * devices, {}))


def _packable(sizes: tuple[int, ...], bins: tuple[int, ...], known: dict[Any, bool]) -> bool:
    if not sizes:
        return True
    if sum(sizes) > sum(bins):
        return False
    if (sizes, bins) not in known:
        known[sizes, bins] = any(
            _packable(sizes[1:], tuple(sorted((*bins[:at], room - sizes[0], *bins[at + 1 :]))), known)
            for at, room in enumerate(bins)
            if room >= sizes[0] and (at == 0 or bins[at - 1] != room)
        )
    return known[sizes, bins]


def exact_shares(seed: int, devices: int, capacity: int, *, parts: int, spoilt: bool = False) -> Case:
    """The sizes fill the devices to the last; spoilt, one of them was made larger at the cost of another."""
    dice = random.Random(seed)
    sizes: list[int] = []
    for _ in range(devices):
        cuts = sorted(dice.sample(range(2, capacity // 2 - 1), parts - 1))
        sizes += [2 * (high - low) for low, high in zip([0, *cuts], [*cuts, capacity // 2], strict=True)]
    if spoilt:
        # One odd size more than there is room for.
        sizes.sort()
        sizes[-1] += 1
        sizes[-2] -= 1
    dice.shuffle(sizes)
    return shares(f"{len(sizes)} into {devices} of {capacity}, seed {seed}", sizes, devices, capacity)


# Constraints between pairs of requests

Graph = list[tuple[int, int]]
Rule = tuple[str, str, int, int]
"""matchAttribute or distinctAttribute, the attribute, and two requests."""


def constrained(title: str, values: list[dict[str, int]], size: int, rules: list[Rule], solvable: bool | None) -> Case:
    """One device for each of `size` requests; `values` are the attributes of the devices."""
    devices = [device(f"d{number}", index=0, **each) for number, each in enumerate(values)]
    constraints = [
        {kind: f"{DRIVER}/{attribute}", "requests": [f"r{one}", f"r{other}"]} for kind, attribute, one, other in rules
    ]
    requests = [request(f"r{number}", exactly()) for number in range(size)]
    scenario = Scenario([resource_slice(devices)], [claim("c", *requests, constraints=constraints)])
    return Case(title, scenario, solvable if solvable is not None else _assignable(values, size, rules))


def _assignable(values: list[dict[str, int]], size: int, rules: list[Rule]) -> bool:
    """Plain backtracking that takes the request with the fewest devices left."""
    among = [[rule for rule in rules if number in rule[2:]] for number in range(size)]

    def place(left: dict[int, set[int]]) -> bool:
        if not left:
            return True
        number = min(left, key=lambda each: len(left[each]))
        tried = set()
        for chosen in sorted(left[number]):
            if tuple(values[chosen].items()) in tried:
                continue
            tried.add(tuple(values[chosen].items()))
            after = {other: set(open_ - {chosen}) for other, open_ in left.items() if other != number}
            for kind, attribute, one, other in among[number]:
                beside = other if one == number else one
                if beside in after:
                    want = kind == "matchAttribute"
                    after[beside] = {
                        each for each in after[beside] if (values[each][attribute] == values[chosen][attribute]) is want
                    }
            if all(after.values()) and place(after):
                return True
        return False

    return place({number: set(range(len(values))) for number in range(size)})


def triple(seed: int, size: int, rules: int, devices: int = 16) -> Case:
    """Pairs of requests match in one of three attributes."""
    dice = random.Random(seed)
    values = [
        {"rack": dice.randrange(4), "switch": dice.randrange(4), "model": dice.randrange(3)} for _ in range(devices)
    ]
    pairs = dice.sample(list(combinations(range(size), 2)), k=rules)
    made = [("matchAttribute", dice.choice(("rack", "switch", "model")), *pair) for pair in pairs]
    return constrained(f"matching: {size} requests, {rules} pairs, seed {seed}", values, size, made, None)


def mixed(seed: int) -> Case:
    """Sixteen devices in a pattern, pairs of requests that match or differ in one of three attributes.

    For seed 5 the plain search takes half a minute; it found nothing.
    """
    dice = random.Random(seed)
    size = dice.choice([8, 10, 12, 14, 16])
    rules = []
    for _ in range(32):
        one, other = dice.sample(range(size), 2)
        kind = dice.choice(["distinctAttribute", "distinctAttribute", "matchAttribute"])
        rules.append((kind, dice.choice(["rack", "switch", "model"]), one, other))
    values = [{"rack": each % 4, "switch": each * 7 % 5, "model": each % 3} for each in range(16)]
    return constrained(f"matching: mixed, seed {seed}", values, 16, rules, False if seed == 5 else None)


def colouring(title: str, graph: Graph, size: int, colours: int, each: int, *, solvable: bool) -> Case:
    """Neighbours in the graph get devices of different colours; there are `each` devices of every colour."""
    values = [{"colour": number % colours} for number in range(colours * each)]
    rules = [("distinctAttribute", "colour", one, other) for one, other in graph]
    return constrained(f"colouring: {title} with {colours}", values, size, rules, solvable)


def wheel(rim: int) -> Graph:
    return [*((each, (each + 1) % rim) for each in range(rim)), *((each, rim) for each in range(rim))]


def mycielski(graph: Graph, size: int) -> Graph:
    """Needs one colour more, without any more triangles."""
    shadows = [(one, other + size) for one, other in graph] + [(one + size, other) for one, other in graph]
    return [*graph, *shadows, *((each + size, 2 * size) for each in range(size))]


PETERSEN = [
    *((each, (each + 1) % 5) for each in range(5)),
    *((each, each + 5) for each in range(5)),
    *((each + 5, (each + 2) % 5 + 5) for each in range(5)),
]
CYCLE = [(each, (each + 1) % 5) for each in range(5)]
SPINDLE = [(0, 1), (0, 2), (1, 2), (1, 3), (2, 3), (0, 4), (0, 5), (4, 5), (4, 6), (5, 6), (3, 6)]


def planted(seed: int, size: int, colours: int) -> Case:
    """A random graph of 32 edges between vertices of different colours, and just enough devices of each colour."""
    dice = random.Random(seed)
    colour = [number % colours for number in range(size)]
    dice.shuffle(colour)
    apart = [pair for pair in combinations(range(size), 2) if colour[pair[0]] != colour[pair[1]]]
    graph = dice.sample(apart, k=32)
    return colouring(f"planted, {size} vertices, seed {seed}", graph, size, colours, -(-size // colours), solvable=True)


def _all_counters() -> Iterator[Case]:
    for seed, (size, count) in enumerate([(16, 6), (20, 8), (24, 10), (24, 12), (32, 10), (32, 16)]):
        for solvable in (True, False):
            yield counters(seed, size, count, solvable=solvable)


def _all_partitions() -> Iterator[Case]:
    for wanted in (
        {"4g": 8, "3g": 8},
        {"3g": 16, "1g": 1},
        {"4g": 8, "2g": 8, "1g": 8},
        {"4g": 8, "2g": 8, "1g": 9},
        {"2g": 24, "1g": 9},
        {"3g": 8, "2g": 16, "1g.me": 1},
        {"3g": 12, "2g": 8, "1g": 7},
        {"1g.me": 20, "3g": 6, "1g": 3},
        {"3g": 3, "4g": 4, "1g.me": 6, "1g": 22},
        {"7g": 2, "4g": 4, "3g": 7, "2g": 2, "1g": 5},
    ):
        yield partitions(wanted)


def _all_shares() -> Iterator[Case]:
    for seed, (number, capacity, parts) in enumerate([(5, 20, 3), (6, 30, 4), (8, 40, 3), (6, 60, 3), (8, 30, 3)]):
        for spoilt in (False, True):
            yield exact_shares(seed, number, capacity, parts=parts, spoilt=spoilt)
    yield shares("even into odd", [2] * 4 + [4] * 12 + [6] * 6, 9, 11)
    yield shares("thirds and more", [34] * 13 + [20] * 6, 6, 100)


def _all_matching() -> Iterator[Case]:
    for seed, (size, number) in enumerate([(10, 12), (12, 14), (12, 18), (14, 16), (14, 20), (16, 20), (16, 24)]):
        yield triple(seed, size, number)
    for seed in range(8):
        yield mixed(seed)


def _all_colouring() -> Iterator[Case]:
    for title, graph, size, needs in (
        ("odd wheel", wheel(7), 8, 4),
        ("even wheel", wheel(8), 9, 3),
        ("Petersen", PETERSEN, 10, 3),
        ("spindle", SPINDLE, 7, 4),
        ("Groetzsch", mycielski(CYCLE, 5), 11, 4),
    ):
        for colours in (needs, needs - 1):
            yield colouring(title, graph, size, colours, size, solvable=colours >= needs)
    for seed, (size, colours) in enumerate([(16, 3), (18, 3), (20, 4), (24, 3)]):
        yield planted(seed, size, colours)


KINDS: dict[str, Callable[[], Iterator[Case]]] = {
    "counters": _all_counters,
    "partitions": _all_partitions,
    "shares": _all_shares,
    "matching": _all_matching,
    "colouring": _all_colouring,
}
