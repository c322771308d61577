"""Canonical form of slice specs: two specs are equal if the API server would store the same for them.

The server writes quantities its own way, fills in the time of taints, and does not tell absent from empty.
"""

from __future__ import annotations

from typing import Any

from dray.api.objects import Object, mapping, mappings
from dray.api.quantity import Quantity, QuantityError


def canonical(spec: Object) -> Object:
    """Returns the canonical form without the pool's generation, which is compared separately."""
    made: Object = _present(spec)
    made["pool"] = {name: value for name, value in mapping(spec.get("pool")).items() if name != "generation"}
    if "devices" in made:
        made["devices"] = [_device(device) for device in made["devices"]]
    if "sharedCounters" in made:
        made["sharedCounters"] = [_with_counters(counter) for counter in made["sharedCounters"]]
    return made


def is_same(wanted: Object, stored: Object) -> bool:
    """Whether the server would store `wanted` as it has stored `stored`, whatever the generations are."""
    # Most specs are stored as they were sent: these are compared a hundred times as fast.
    plain = {**wanted, "pool": {**wanted["pool"], "generation": mapping(stored.get("pool")).get("generation")}}
    return plain == stored or canonical(wanted) == canonical(stored)


def missing_fields(written: Any, stored: Any, path: str = "") -> list[str]:
    """Members that were written and are not stored, each named once for all devices."""
    if isinstance(written, dict):
        found = []
        for name, value in written.items():
            where = f"{path}.{name}" if path else name
            if not isinstance(stored, dict) or name not in stored:
                found.append(where)
            else:
                found += missing_fields(value, stored[name], where)
        return list(dict.fromkeys(found))
    if isinstance(written, list) and isinstance(stored, list):
        pairs = zip(written, stored, strict=False)
        return list(dict.fromkeys(field for one, other in pairs for field in missing_fields(one, other, f"{path}[]")))
    return []


def keep_taint_times(desired: Object, stored: Object) -> Object:
    """The desired spec, with the times at which taints were added that are there already."""
    times = {
        (device.get("name"), *_taint_key(taint)): taint["timeAdded"]
        for device in mappings(stored.get("devices"))
        for taint in mappings(device.get("taints"))
        if taint.get("timeAdded")
    }
    if not times or not any(device.get("taints") for device in desired.get("devices", ())):
        return desired

    def timed(device: Object) -> Object:
        if not device.get("taints"):
            return device
        taints = []
        for taint in device["taints"]:
            time = times.get((device["name"], *_taint_key(taint)))
            taints.append({"timeAdded": time, **taint} if time else taint)
        return {**device, "taints": taints}

    return {**desired, "devices": [timed(device) for device in desired["devices"]]}


def _taint_key(taint: Object) -> tuple[str, str, str]:
    return taint.get("key") or "", taint.get("value") or "", taint.get("effect") or ""


def _device(device: Object) -> Object:
    made = _present(device)
    if "capacity" in made:
        made["capacity"] = {name: _capacity(value) for name, value in made["capacity"].items()}
    if "consumesCounters" in made:
        made["consumesCounters"] = [_with_counters(counter) for counter in made["consumesCounters"]]
    if "taints" in made:
        made["taints"] = [
            dict(zip(("key", "value", "effect"), _taint_key(taint), strict=True)) for taint in made["taints"]
        ]
    return made


def _capacity(capacity: Object) -> Object:
    made = {**_present(capacity), "value": _amount(capacity.get("value"))}
    if "requestPolicy" in made:
        made["requestPolicy"] = _amounts(made["requestPolicy"])
    return made


def _with_counters(holder: Object) -> Object:
    counters = {name: {"value": _amount(each.get("value"))} for name, each in mapping(holder.get("counters")).items()}
    return {**_present(holder), "counters": counters}


def _amounts(policy: Any) -> Any:
    """Canonicalizes a request policy; every string in it is a quantity."""
    if isinstance(policy, dict):
        return {name: _amounts(value) for name, value in policy.items() if value not in (None, [], {})}
    if isinstance(policy, list):
        return [_amounts(value) for value in policy]
    return _amount(policy)


def _amount(text: Any) -> Any:
    try:
        return Quantity.parse(text).canonical() if isinstance(text, str) else text
    except QuantityError:
        return text


def _present(members: Object) -> Object:
    return {name: value for name, value in members.items() if value is not None and value != [] and value != {}}
