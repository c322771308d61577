"""Random scenarios of one node: slices, claims that hold devices, and claims that want some."""

from __future__ import annotations

import random

from dray.api.objects import Object
from tests.allocation.claims import claim, classes, everything, exactly, holding, node, request
from tests.allocation.devices import DRIVER, ROOT, attribute, consumes, counter_slice, device, resource_slice


class Scenario:
    """Slices, classes, claims that hold devices, and claims that want some."""

    def __init__(self, slices: list[Object], claims: list[Object], allocated: list[Object] | None = None) -> None:
        self.slices, self.claims, self.allocated = slices, claims, allocated or []
        self.classes = classes()
        self.node = node()


def random_scenario(dice: random.Random) -> Scenario:
    """Few devices, many ways to collide: constraints, counters, shares, alternatives, admin access, taints."""
    devices = [_random_device(dice, f"d{number}") for number in range(dice.randint(1, 6))]
    partitioned = dice.random() < 0.4
    if partitioned:
        for each in devices:
            if dice.random() < 0.8:
                each["consumesCounters"] = [_random_consumption(dice)]
    dice.shuffle(devices)
    cut = dice.randint(0, len(devices))
    parts = [part for part in (devices[:cut], devices[cut:]) if part]
    count = len(parts) + partitioned
    slices = [resource_slice(part, name=f"slice-{number}", count=count) for number, part in enumerate(parts)]
    if partitioned:
        totals = {name: {"memory": str(dice.randint(1, 5)), "s-0": "1"} for name in ("card-0", "card-1")}
        slices.append(counter_slice(totals, count=count))
    allocated = [holding(f"old-{each['name']}", each["name"]) for each in devices if dice.random() < 0.15]
    claims = [_random_claim(dice, f"c{number}") for number in range(dice.choice((1, 1, 2)))]
    return Scenario(slices, claims, allocated)


def _random_device(dice: random.Random, name: str) -> Object:
    made = device(name, index=dice.randint(0, 3), root=dice.choice("ab"))
    if dice.random() < 0.5:
        made["attributes"]["rail"] = attribute(dice.choice(([1], [1, 2], [2, 3], 1, 2, 3)))
    if dice.random() < 0.5:
        made["capacity"] = {"memory": {"value": str(dice.randint(1, 4))}}
    if dice.random() < 0.3:
        made["allowMultipleAllocations"] = True
        if "capacity" in made and dice.random() < 0.5:
            made["capacity"]["memory"]["requestPolicy"] = {"default": "1", "validRange": {"min": "1", "step": "1"}}
    if dice.random() < 0.1:
        made["taints"] = [{"key": "k", "value": "v", "effect": "NoSchedule"}]
    return made


def _random_consumption(dice: random.Random) -> Object:
    counters = {"memory": str(dice.randint(1, 3))}
    if dice.random() < 0.3:
        counters["s_0"] = "1"
    groups = dice.choice((None, None, ["x"], ["x", "y"], ["y"]))
    return consumes(dice.choice(("card-0", "card-1")), groups=groups, **counters)


def partitioned_scenario(dice: random.Random) -> Scenario:
    """Devices with and without groups on two counter sets with room for all, a good part of them in use."""
    devices = [device(f"d{number}", index=0, root="a") for number in range(dice.randint(4, 8))]
    for each in devices:
        cards = dice.choice((["card-0"], ["card-1"], ["card-0", "card-1"]))
        each["consumesCounters"] = [{**_random_consumption(dice), "counterSet": card} for card in cards]
    totals = {name: {"memory": "30", "s-0": "10"} for name in ("card-0", "card-1")}
    slices = [resource_slice(devices, count=2), counter_slice(totals, count=2)]
    allocated = [holding(f"old-{each['name']}", each["name"]) for each in devices if dice.random() < 0.4]
    return Scenario(slices, [claim("c", request("r", exactly(dice.randint(1, 2))))], allocated)


def _random_claim(dice: random.Random, name: str) -> Object:
    requests = [request(f"r{number}", *_random_ways(dice)) for number in range(dice.randint(1, 3))]
    constraints = []
    for kind in ("matchAttribute", "distinctAttribute"):
        if dice.random() < 0.35:
            constraint: Object = {kind: dice.choice((ROOT, f"{DRIVER}/rail", f"{DRIVER}/index"))}
            if dice.random() < 0.5:
                constraint["requests"] = dice.sample([each["name"] for each in requests], k=min(2, len(requests)))
            constraints.append(constraint)
    return claim(name, *requests, constraints=constraints)


def _random_ways(dice: random.Random) -> list[Object]:
    number = dice.choice((1, 1, 1, 2))
    return [_random_way(dice, alone=number == 1) for _ in range(number)]


def _random_way(dice: random.Random, *, alone: bool) -> Object:
    attribute_of = f'device.attributes["{DRIVER}"]'
    selectors = [f"{attribute_of}.index > {dice.randint(0, 2)}"] if dice.random() < 0.3 else []
    more: Object = {}
    if dice.random() < 0.2:
        more["capacity"] = {"requests": {"memory": str(dice.randint(1, 3))}}
    if dice.random() < 0.2:
        more["tolerations"] = [{"operator": "Exists"}]
    if alone and dice.random() < 0.1:
        more["adminAccess"] = True
    if dice.random() < 0.1:
        return everything(*selectors, **more)
    return exactly(dice.randint(1, 3), *selectors, **more)


def larger_scenario(dice: random.Random) -> Scenario:
    """More devices and requests than an oracle can walk through, still within reach of a search without pruning."""
    kind = dice.choice(("plain", "partitions", "shares", "mixed"))
    partitioned, shared = kind in ("partitions", "mixed"), kind in ("shares", "mixed")
    devices = []
    for number in range(dice.randint(6, 16)):
        made = device(f"d{number}", index=dice.randint(0, 3), root=dice.choice("abcd"), numa=dice.randint(0, 1))
        if dice.random() < 0.6:
            made["attributes"]["rail"] = attribute(dice.choice(([1], [1, 2], [2, 3], [3, 4], 1, 2, 3, 4)))
        if shared and dice.random() < 0.7:
            policy = {"default": "1", "validRange": {"min": "1", "step": "1"}}
            made["allowMultipleAllocations"] = True
            made["capacity"] = {"memory": {"value": str(dice.choice((4, 8, 10))), "requestPolicy": policy}}
        if partitioned and dice.random() < 0.8:
            made["consumesCounters"] = [_random_consumption(dice)]
        devices.append(made)
    slices = [resource_slice(devices, count=1 + partitioned)]
    if partitioned:
        totals = {name: {"memory": str(dice.randint(3, 12)), "s-0": "2"} for name in ("card-0", "card-1")}
        slices.append(counter_slice(totals, count=2))
    return Scenario(slices, [_larger_claim(dice, f"c{number}", shared) for number in range(dice.choice((1, 1, 2, 3)))])


def _larger_claim(dice: random.Random, name: str, shared: bool) -> Object:
    requests = []
    for number in range(dice.randint(1, 5)):
        ways = []
        for _ in range(dice.choice((1, 1, 1, 2))):
            more: Object = {}
            if shared and dice.random() < 0.7:
                more["capacity"] = {"requests": {"memory": str(dice.randint(1, 5))}}
            other = f'device.attributes["{DRIVER}"].index != {dice.randint(0, 3)}'
            ways.append(exactly(dice.choice((1, 1, 1, 2, 3)), *([other] if dice.random() < 0.4 else []), **more))
        requests.append(request(f"r{number}", *ways))
    constraints = []
    for _ in range(dice.randint(0, 3)):
        kind = dice.choice(("matchAttribute", "distinctAttribute"))
        constraint: Object = {kind: dice.choice((ROOT, f"{DRIVER}/rail", f"{DRIVER}/numa", f"{DRIVER}/index"))}
        if dice.random() < 0.8:
            names = [each["name"] for each in requests]
            constraint["requests"] = dice.sample(names, k=min(dice.choice((2, 2, 3)), len(names)))
        constraints.append(constraint)
    return claim(name, *requests, constraints=constraints)
