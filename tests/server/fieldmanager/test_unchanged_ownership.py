"""The short way to the owners of an update says what the long way says, or nothing."""

import random

import pytest

from dray.api.catalogue import find
from dray.server.fieldmanager import server_side, tracked_kinds, unchanged_ownership

KIND = find("v1", "ConfigMap")
THEN, NOW = "2026-01-01T00:00:00Z", "2026-01-01T00:00:05Z"


def config_map(randomness):
    def words():
        return {key: randomness.choice("xyz") for key in "abc" if randomness.random() < 0.7}

    metadata = {"name": "m", "namespace": "n", "uid": "u", "resourceVersion": str(randomness.randint(1, 9))}
    for member in ("labels", "annotations"):
        if given := words():
            metadata[member] = given
    data = words()
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, **({"data": data} if data else {})}


def content(obj):
    return obj["metadata"].get("labels"), obj["metadata"].get("annotations"), obj.get("data")


def track(old, new, manager, now):
    return server_side.track_update(old, new, manager, kind=tracked_kinds.built_in(KIND), now=now)


@pytest.mark.parametrize("seed", range(300))
def test_both_ways_agree(seed):
    randomness = random.Random(seed)
    first, second, third = (config_map(randomness) for _ in range(3))
    first["metadata"]["managedFields"] = track(None, first, "one", THEN)
    if randomness.random() < 0.6:
        second["metadata"]["managedFields"] = track(first, second, "two", THEN)
        first = second
    manager = randomness.choice(["one", "two"])
    options = {"manager": manager, "api_version": "v1", "subresource": "", "now": NOW}
    short = unchanged_ownership.refreshed(first, third, **options)
    if short is not None and content(first) != content(third):
        assert short == track(first, third, manager, NOW)


def test_the_short_way_is_taken():
    old = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"a": "1"}}
    old["metadata"]["managedFields"] = track(None, old, "one", THEN)
    new = {**old, "metadata": {"name": "m"}, "data": {"a": "2"}}
    options = {"api_version": "v1", "subresource": "", "now": NOW}
    short = unchanged_ownership.refreshed(old, new, manager="one", **options)
    assert short == track(old, new, "one", NOW)
    assert unchanged_ownership.refreshed(old, new, manager="two", **options) is None
    more = {**new, "data": {"a": "2", "b": "3"}}
    assert unchanged_ownership.refreshed(old, more, manager="one", **options) is None
