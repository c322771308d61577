"""Quick checks: what counting says about requests on a node, without a search.

They are optimistic. Each alternative of each request is looked at alone: its class and selectors against the devices
that no claim holds, and the amounts that it requests against what is left of shared devices. Taints, counters,
constraints and what other requests take are left to `allocate`. So a node that is ruled out here can never serve the
requests, and one that is not may still turn out to be unable.

`check` and `distance` raise WorkExhausted when selectors have to be evaluated and no work is left for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache, reduce
from operator import or_
from typing import Any, Final

from dray.allocation.inventory import Inventory
from dray.allocation.pools import PoolState
from dray.allocation.views import View
from dray.allocation.work import WorkExhausted
from dray.api.objects import Object, spec_of
from dray.api.quantity import Quantity, QuantityError
from dray.api.resource_claims import MAX_DEVICES, alternatives_of, requests_of

FAR: Final = (2**31, 0)
"""The distance of a node that can never serve a request."""
_LARGE: Final = 2**62 * 10**9
"""Amounts of a capacity from here on may exceed 64 bits, in nanos."""


def check(inventory: Inventory, view: View, requests: Sequence[Object]) -> bool | None:
    """Whether the node has enough free devices for each request; None where `allocate` may end in an error."""
    enough = True
    for request in requests:
        answers = [check_alternative(inventory, view, alternative) for alternative in alternatives_of(request)]
        if None in answers:
            return None
        if True not in answers:
            enough = False
    return enough


def check_alternative(inventory: Inventory, view: View, alternative: Object) -> bool | None:
    """Checks one alternative of a request, as `check` does for a request."""
    takes_all = alternative.get("allocationMode") == "All"
    if takes_all and any(pool.state is not PoolState.COMPLETE for pool in view.pools):
        return None
    device_class = inventory.classes.get(alternative.get("deviceClassName") or "")
    if device_class is None:
        return None
    bits = view.every if takes_all or alternative.get("adminAccess") else view.every & ~view.held
    for selectors in (spec_of(device_class).get("selectors"), alternative.get("selectors")):
        for selector in selectors or ():
            if not selector.get("cel"):
                return None
            column = view.column(selector["cel"]["expression"], inventory.selectors)
            if column.faults and any(bits >> rank & 1 for rank in column.faults):
                return None
            bits &= column.selected
    if takes_all:
        return None if bits.bit_count() > MAX_DEVICES else bits != 0
    wanted = alternative.get("count") or 1
    if bits.bit_count() < wanted:
        return False
    capacity = alternative.get("capacity")
    if capacity and bits & view.shared:
        bits &= ~_exhausted(inventory, view, bits & view.shared, capacity.get("requests") or {})
    return bits.bit_count() >= wanted


def _exhausted(inventory: Inventory, view: View, bits: int, amounts: Mapping[str, Any]) -> int:
    """The shared devices among `bits` with less capacity left than requested.

    Without this check a share is searched for on every node that has a shared device: in a cluster that fills up with
    shares, that took 20 searches for each pod. Devices that round amounts to ranges are left to `allocate`, since the
    rounding may fail.
    """
    wanted = [(name, nanos) for name, amount in amounts.items() if (nanos := _nanos(str(amount))) is not None]
    devices, found = inventory.usage.devices, 0
    for rank in view.ranks(bits):
        device = view.devices[rank]
        usage = devices.get(device.id)
        if usage is None:
            continue
        for name, nanos in wanted:
            capacity, consumed = device.capacity.get(name), usage.consumed.get(name)
            if capacity is None or consumed is None or (capacity.policy is not None and capacity.policy.ranged):
                continue
            if consumed.nanos + nanos > capacity.value.nanos:
                found |= 1 << rank
                break
    return found


@lru_cache(maxsize=4096)
def _nanos(amount: str) -> int | None:
    try:
        return Quantity.parse(amount).nanos
    except QuantityError:
        return None


def most_copies(inventory: Inventory, view: View, requests: Sequence[Object], limit: int) -> int:
    """How many copies of the requests the node can serve at the same time, up to a limit: never too few."""
    taken: dict[int, int] = {}
    """How many devices a copy takes, by the bits of the devices that suit."""
    try:
        for request in requests:
            exactly = request.get("exactly")
            if exactly is not None:
                bits = _exclusive(inventory, view, exactly)
                if bits is not None:
                    taken[bits] = taken.get(bits, 0) + (exactly.get("count") or 1)
                continue
            suitable = [_exclusive(inventory, view, alternative) for alternative in alternatives_of(request)]
            if None not in suitable:
                union = reduce(or_, (bits for bits in suitable if bits is not None), 0)
                limit = min(limit, union.bit_count())
    except WorkExhausted:
        return limit
    return min([limit, *(bits.bit_count() // number for bits, number in taken.items())])


def distance(inventory: Inventory, view: View, requests: Sequence[Object]) -> tuple[int, int]:
    """How far the node is from serving the requests; nearer nodes sort first.

    The first number is how many devices are missing. The second is the negated number of devices that the classes and
    the requests select, in use or not.
    """
    missing = selected = 0
    for request in requests:
        alternatives = [_distance(inventory, view, alternative) for alternative in alternatives_of(request)]
        nearest = min(alternatives, default=FAR)
        missing, selected = missing + nearest[0], selected + nearest[1]
    return missing, selected


def may_fail(spec: Object) -> bool:
    """Whether allocating a claim with this spec can end in an error, whatever devices there are."""
    requests = requests_of(spec)
    constrained = bool((spec.get("devices") or {}).get("constraints"))
    for request in requests:
        for alternative in alternatives_of(request):
            takes_all = alternative.get("allocationMode") == "All"
            if (constrained and takes_all) or alternative.get("derivedAttributes") or _has_odd_amount(alternative):
                return True
    return sum(min(map(_least, alternatives_of(request)), default=0) for request in requests) > MAX_DEVICES


def _least(alternative: Object) -> int:
    return 0 if alternative.get("allocationMode") == "All" else alternative.get("count") or 1


def fewest_devices(request: Object) -> int:
    """Returns the minimum of devices that a request takes; allocation mode All counts as two."""
    return min(map(_fewest, alternatives_of(request)), default=0)


def _fewest(alternative: Object) -> int:
    if alternative.get("adminAccess"):
        return 0
    return 2 if alternative.get("allocationMode") == "All" else alternative.get("count") or 1


def _selected(inventory: Inventory, view: View, bits: int, selectors: Sequence[Object] | None) -> int:
    """Returns the devices that the selectors select; ignores selectors of unknown types."""
    for selector in selectors or ():
        if selector.get("cel"):
            bits &= view.column(selector["cel"]["expression"], inventory.selectors).selected
    return bits


def _exclusive(inventory: Inventory, view: View, alternative: Object) -> int | None:
    """Returns the free devices that suit an alternative; None if one of them may be shared."""
    device_class = inventory.classes.get(alternative.get("deviceClassName") or "")
    if device_class is None or alternative.get("adminAccess") or alternative.get("allocationMode") == "All":
        return None
    bits = _selected(inventory, view, view.every & ~view.held, spec_of(device_class).get("selectors"))
    bits = _selected(inventory, view, bits, alternative.get("selectors"))
    return None if bits & view.shareable else bits


def _distance(inventory: Inventory, view: View, alternative: Object) -> tuple[int, int]:
    device_class = inventory.classes.get(alternative.get("deviceClassName") or "")
    if device_class is None:
        return FAR
    of_class = _selected(inventory, view, view.every, spec_of(device_class).get("selectors"))
    suitable = _selected(inventory, view, of_class, alternative.get("selectors"))
    free = (suitable & ~view.held).bit_count()
    wanted = 1 if alternative.get("allocationMode") == "All" else alternative.get("count") or 1
    return max(0, wanted - free), -min(wanted, of_class.bit_count()) - min(wanted, suitable.bit_count())


def _has_odd_amount(alternative: Object) -> bool:
    """Whether it asks for an amount of a capacity that is no whole number of 64 bits."""
    for amount in ((alternative.get("capacity") or {}).get("requests") or {}).values():
        try:
            nanos = Quantity.parse(str(amount)).nanos
        except QuantityError:
            return True
        if nanos % 10**9 or not 0 <= nanos < _LARGE:
            return True
    return False
