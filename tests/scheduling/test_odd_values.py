"""Odd values anywhere in objects: no decision raises, and a pod that has nothing to do with them is placed."""

import copy
from contextlib import suppress
from random import Random

import pytest

from dray.testing import objects
from tests import gpus
from tests.scheduling.core import Core, bound, holding, placed, pod

TEXTS = ["1e400", "9" * 4301, "-1", "abc", "", "9223372036854775808", "NaN", "Gt", "In", "9999-12-31T23:59:59Z"]
NUMBERS = [0, -1, 2**31, 2**63 - 1, -(2**63), 2**70]
KEPT = {"kind", "name", "uid", "namespace"}


def documents():
    expression = {"key": "size", "operator": "Gt", "values": ["3"]}
    term = {"topologyKey": "zone", "labelSelector": {"matchExpressions": [{**expression, "operator": "In"}]}}
    affinity = {
        "nodeAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 5, "preference": {"matchExpressions": [expression]}}
            ]
        },
        "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]},
    }
    spread = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {}}
    either = objects.first_available("gpu", objects.subrequest("a", count=2), objects.subrequest("b", count=2))
    images = [{"names": ["busybox:latest"], "sizeBytes": 7}]
    selected = objects.resource_slice("selected", gpus.gpu("s", capacity={"memory": {"value": "4"}}))
    del selected["spec"]["allNodes"]
    selected["spec"]["nodeSelector"] = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    taints = [{"key": "load", "value": "5", "effect": "NoSchedule"}]
    tolerations = [{"key": "load", "operator": "Gt", "value": "3", "effect": "NoSchedule"}]
    return [
        objects.node("n", labels={"zone": "a", "size": "5"}, status={"images": images}),
        objects.node("m", labels={"zone": "b"}, taints=taints),
        gpus.slice_of("n", 3),
        selected,
        objects.claim("c", objects.request(capacity={"requests": {"memory": "1"}})),
        objects.claim("d", either),
        holding("h", "gpu-0", users=["u"], node="n", bindingConditions=["ok"]),
        placed("old", "n", cpu="1", overhead={"cpu": "1"}, affinity=affinity),
        pod("p", claims=["c"], tolerations=tolerations, topologySpreadConstraints=[spread]),
        pod("q", claims=["d"], cpu="1", value=5, affinity=affinity),
        pod("r", claims=["h"], resources={"requests": {"memory": "1"}}),
    ]


def places(value, path=()):
    """Of all texts and numbers, but for those that say which object it is."""
    if isinstance(value, dict | list):
        for key, member in value.items() if isinstance(value, dict) else enumerate(value):
            if key not in KEPT:
                yield from places(member, (*path, key))
    elif isinstance(value, str | int) and not isinstance(value, bool):
        yield path


def changed(chance, document):
    document = copy.deepcopy(document)
    *path, last = chance.choice(list(places(document)))
    holder = document
    for key in path:
        holder = holder[key]
    holder[last] = chance.choice(TEXTS if isinstance(holder[last], str) else NUMBERS)
    return document


@pytest.mark.parametrize("seed", range(8))
def test_odd_values_keep_nobody_else_from_a_place(seed):
    chance = Random(seed)
    for _ in range(20):
        core = Core()
        for document in documents():
            # What cannot be read is left out by whoever watches.
            with suppress(Exception):
                core.put(changed(chance, document) if chance.random() < 0.5 else document)
        core.actions()
        core.put(objects.node("free", labels={"free": "yes"}), pod("canary", nodeSelector={"free": "yes"}))
        assert bound(core.later())["canary"] == "free"
