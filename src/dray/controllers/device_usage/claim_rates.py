"""How many devices a claim asks for, has and uses at this moment, by DeviceClass. Pure.

A share of a device counts as the part of its capacity that the share takes. Devices with admin access do not count:
they stay with others. A claim that has no devices counts as requested while a pod waits for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from dray.api.device_utilization import reports_of
from dray.api.objects import Object, mapping, spec_of
from dray.api.quantity import Quantity, QuantityError
from dray.api.resource_claims import requests_of, results_of
from dray.controllers.device_usage.totals import Seconds

Place = tuple[str, str, str]
Capacity = Callable[[Place], Mapping[str, str]]
"""Returns the capacities of a device by name."""


def claim_rates(claim: Object, capacity: Capacity, *, is_waited_for: bool) -> dict[str, Seconds]:
    """Returns devices by class; `is_waited_for` if a pod that has not ended names the claim."""
    results = results_of(claim)
    if not results:
        return _requested(claim) if is_waited_for else {}
    classes, reports, found = _classes(claim), dict(reports_of(claim)), dict[str, Seconds]()
    for result in results:
        if result.get("adminAccess"):
            continue
        place = str(result["driver"]), str(result["pool"]), str(result["device"])
        consumed = mapping(result.get("consumedCapacity"))
        share = _share(consumed, capacity(place)) if consumed else 1.0
        percent = reports[place].percent if place in reports else None
        measured = share if percent is not None else 0.0
        seconds = Seconds(share, share, measured, measured * (percent or 0) / 100)
        found.setdefault(classes.get(str(result["request"]), ""), Seconds()).add(seconds)
    return found


def _requested(claim: Object) -> dict[str, Seconds]:
    found: dict[str, Seconds] = {}
    for request in requests_of(spec_of(claim)):
        # Of alternatives the first is the one that is wanted most.
        wanted = mapping(request.get("exactly")) or next(iter(request.get("firstAvailable") or ()), {})
        if not wanted.get("adminAccess"):
            count = wanted.get("count") if wanted.get("allocationMode") != "All" else 1
            seconds = Seconds(float(count or 1))
            found.setdefault(str(wanted.get("deviceClassName") or ""), Seconds()).add(seconds)
    return found


def _classes(claim: Object) -> dict[str, str]:
    """Returns the class of each request, as results name it: `gpu`, or `gpu/large` for an alternative."""
    found: dict[str, str] = {}
    for request in requests_of(spec_of(claim)):
        name = str(request["name"])
        found[name] = str(mapping(request.get("exactly")).get("deviceClassName") or "")
        for alternative in request.get("firstAvailable") or ():
            found[f"{name}/{alternative['name']}"] = str(alternative.get("deviceClassName") or "")
    return found


def _share(consumed: Mapping[str, str], total: Mapping[str, str]) -> float:
    """Returns the part of a device that a share takes, by the capacity of which it takes most."""
    parts = [_part(amount, total[name]) for name, amount in consumed.items() if name in total]
    return max(parts, default=1.0)


def _part(amount: str, total: str) -> float:
    try:
        whole = Quantity.parse(total).as_float()
        return min(1.0, Quantity.parse(amount).as_float() / whole) if whole > 0 else 1.0
    except QuantityError:
        return 1.0
