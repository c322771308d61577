"""Small worlds for tests: builders of objects in v1 shape, and random scenarios made of them."""

from __future__ import annotations

import random
from typing import Any

from dray.api.objects import Object

DRIVER = "gpu.example.com"
ROOT = "resource.kubernetes.io/pcieRoot"
CLASSES = ("gpu", "nic", "any")


def node(name: str = "n", **labels: str) -> Object:
    return {"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **labels}}}


def attributes(**values: Any) -> Object:
    """Attributes by their plain Python values; `root` is the PCIe root."""
    return {ROOT if name == "root" else name: attribute(value) for name, value in values.items()}


def attribute(value: Any) -> Object:
    if isinstance(value, list):
        return {"strings" if isinstance(value[0], str) else "ints": value}
    if isinstance(value, bool):
        return {"bool": value}
    return {"string": value} if isinstance(value, str) else {"int": value}


def device(name: str, *, capacity: Object | None = None, **values: Any) -> Object:
    made: Object = {"name": name}
    if values:
        made["attributes"] = attributes(**values)
    if capacity:
        made["capacity"] = {key: each if isinstance(each, dict) else {"value": each} for key, each in capacity.items()}
    return made


def resource_slice(
    devices: list[Object], *, name: str = "slice", driver: str = DRIVER, pool: str = "n", count: int = 1, **spec: Any
) -> Object:
    where = {} if {"nodeName", "allNodes", "nodeSelector", "perDeviceNodeSelection"} & set(spec) else {"nodeName": "n"}
    pool_spec = {"name": pool, "generation": spec.pop("generation", 1), "resourceSliceCount": count}
    body: Object = {"driver": driver, "pool": pool_spec, **where, **spec}
    if devices:
        body["devices"] = devices
    return {"metadata": {"name": name}, "spec": body}


def counter_slice(sets: dict[str, dict[str, str]], *, name: str = "counters", **spec: Any) -> Object:
    made = resource_slice([], name=name, **spec)
    made["spec"]["sharedCounters"] = [
        {"name": each, "counters": {key: {"value": value} for key, value in counters.items()}}
        for each, counters in sets.items()
    ]
    return made


def consumes(counter_set: str, *, groups: list[str] | None = None, **counters: str) -> Object:
    entry: Object = {
        "counterSet": counter_set,
        "counters": {key.replace("_", "-"): {"value": value} for key, value in counters.items()},
    }
    if groups:
        entry["compatibilityGroups"] = groups
    return entry


def device_class(name: str, *selectors: str, config: list[Object] | None = None) -> Object:
    spec: Object = {"selectors": [{"cel": {"expression": each}} for each in selectors]}
    if config:
        spec["config"] = config
    return {"metadata": {"name": name}, "spec": spec}


def classes() -> list[Object]:
    return [
        device_class("gpu", f'device.driver == "{DRIVER}"'),
        device_class("nic", 'device.driver == "nic.example.com"'),
        device_class("any"),
    ]


def exactly(count: int = 1, *selectors: str, of: str = "gpu", **more: Any) -> Object:
    request: Object = {"deviceClassName": of, "allocationMode": "ExactCount", "count": count, **more}
    if selectors:
        request["selectors"] = [{"cel": {"expression": each}} for each in selectors]
    return request


def everything(*selectors: str, of: str = "gpu", **more: Any) -> Object:
    request = exactly(1, *selectors, of=of, **more)
    del request["count"]
    return {**request, "allocationMode": "All"}


def claim(name: str, *requests: Object, constraints: list[Object] | None = None, **more: Any) -> Object:
    devices: Object = {"requests": list(requests), **more}
    if constraints:
        devices["constraints"] = constraints
    return {
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
        "spec": {"devices": devices},
    }


def request(name: str, *ways: Object) -> Object:
    """One way is exact; several are alternatives, named `a`, `b` and so on."""
    if len(ways) == 1:
        return {"name": name, "exactly": ways[0]}
    return {"name": name, "firstAvailable": [{"name": chr(97 + at), **way} for at, way in enumerate(ways)]}


def holding(name: str, *devices: str, pool: str = "n", driver: str = DRIVER, **more: Any) -> Object:
    held = claim(name, request("r", exactly()))
    results = [{"request": "r", "driver": driver, "pool": pool, "device": each, **more} for each in devices]
    held["status"] = {"allocation": {"devices": {"results": results}}}
    return held


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
