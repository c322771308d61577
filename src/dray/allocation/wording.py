"""The words for causes, conflicts and conclusions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from dray.allocation import conclusions as c
from dray.allocation import reasons as r
from dray.allocation.devices import DeviceID, quantity
from dray.allocation.encounters import Encounter
from dray.allocation.usage import ClaimKey

MOST_NAMES: Final = 4


def some(names: Sequence[str], most: int = MOST_NAMES) -> str:
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more:,} more" if more > 0 else "")


def pool_text(pool: r.PoolReason) -> str:
    return f"pool {pool.pool} is {pool.state}{f': {pool.problem}' if pool.problem else ''}"


def key_text(claim: ClaimKey) -> str:
    return "/".join(part for part in claim if part)


def keys_text(claims: Sequence[ClaimKey]) -> str:
    return some([key_text(claim) for claim in claims])


def count_text(number: int) -> str:
    return f"{number:,} device{'' if number == 1 else 's'}"


def device_names(devices: Sequence[DeviceID]) -> str:
    return some([f"{pool}/{name}" for _, pool, name in devices])


def _capacity_text(cause: r.CapacityTooSmall) -> str:
    if not cause.value:
        return f"not divisible as {cause.name} asks"
    if quantity(cause.wanted).nanos > quantity(cause.value).nanos:
        return f"too small: needs {cause.wanted} {cause.name}, has {cause.value}"
    return f"not divisible so: needs {cause.wanted} {cause.name} of {cause.value}"


_CAUSES: Final[dict[type[r.Cause], Callable[[Any], str]]] = {
    r.NotSelected: lambda each: f"not selected by {each.source}, selector {each.number + 1}: {each.expression}",
    r.SelectorFault: lambda each: f"cannot be judged: {each.text}",
    r.OtherNode: lambda each: "for other nodes",
    r.ConditionsOff: lambda each: "with binding conditions, which are switched off",
    r.CapacityAbsent: lambda each: f"without capacity {each.name}",
    r.CapacityTooSmall: lambda each: _capacity_text(each),
    r.InUse: lambda each: f"in use by {keys_text(each.owners)}",
    r.CapacityUsed: lambda each: (
        f"too full: {each.wanted} of {each.name} wanted, {each.left} left beside {keys_text(each.owners)}"
    ),
    r.OperationsNotSkippable: lambda each: "with skipped node operations, which the node does not support",
    r.GroupsIncompatible: lambda each: (
        f"not compatible with what is allocated on {each.counter_set}"
        f" (groups: {', '.join(each.groups) if each.groups else 'none'})"
    ),
    r.CounterShort: lambda each: (
        f"short of counter {each.counter_set}/{each.counter}: {each.wanted} wanted, {each.left} left"
    ),
    r.Tainted: lambda each: (
        f"tainted {each.key}={each.value}:{each.effect}{f' by DeviceTaintRule {each.rule}' if each.rule else ''},"
        " not tolerated"
    ),
    r.AttributeAbsent: lambda each: f"without attribute {each.attribute}, which a constraint needs",
}


def cause_text(cause: r.Cause) -> str:
    return _CAUSES[type(cause)](cause)


def met_text(encounters: Sequence[Encounter]) -> str:
    """Renders the values that the refused devices have."""
    return "; ".join(_met(encounter, alone=len(encounters) == 1) for encounter in encounters)


def _met(encounter: Encounter, *, alone: bool) -> str:
    present = [(value, number) for value, number in encounter.values if value]
    absent = sum(number for value, number in encounter.values if not value)
    if not present:
        return f"no {encounter.name}{'' if alone else f' ({absent})'}"
    if len(encounter.values) == 1 and alone:
        return f"{encounter.name} is {present[0][0]}"
    shown = some([f"{value} ({number})" for value, number in present])
    return f"{encounter.name} is {shown}{f', not there ({absent})' if absent else ''}"


def _wanting(requests: Sequence[str]) -> str:
    return f"request {requests[0]} needs" if len(requests) == 1 else f"requests {', '.join(requests)} need"


_CONFLICTS: Final[dict[type[r.Conflict], Callable[[Any], str]]] = {
    r.TooFewTogether: lambda each: f"{_wanting(each.requests)} {each.need} devices and there are {each.devices} in all",
    r.NoCommonValue: lambda each: (
        f"{_wanting(each.requests)} {each.need} devices with one value of {each.attribute}; "
        f"devices by value: {some([f'{value} ({number})' for value, number in each.values])}"
    ),
    r.TooFewValues: lambda each: (
        f"{_wanting(each.requests)} {each.need} different values of {each.attribute}; "
        f"there are {len(each.values)}: {some(each.values)}"
    ),
    r.CountersShort: lambda each: (
        f"{_wanting(each.requests)} at least {each.wanted} of {some(each.counters)}, {each.left} left"
        if each.counters
        else f"{_wanting(each.requests)} more devices than the counters can carry"
    ),
    r.CapacityShort: lambda each: f"{_wanting(each.requests)} more shared capacity than is left",
    r.TooManyDevices: lambda each: f"claim {key_text(each.claim)} would get more than {each.limit} devices",
    r.Entangled: lambda each: f"no set of devices serves {', '.join(each.requests)} under all constraints",
}


def conflict_text(conflict: r.Conflict) -> str:
    return _CONFLICTS[type(conflict)](conflict)


def all_of(names: Sequence[str]) -> str:
    if len(names) == 2:
        return f"both {names[0]} and {names[1]}"
    return f"all of {', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]


def _short(each: c.Short) -> str:
    short = f"{count_text(each.missing)} short"
    if each.nodes == 1:
        return f"{short} on node {each.nearest.node}"
    if each.alike == each.nodes:
        return f"{short} on each of {each.nodes:,} nodes"
    return f"{short} on the best node, {each.nearest.node}"


def _apart(each: c.Apart) -> str:
    why = conflict_text(each.conflict) if each.conflict is not None else "they do not go together"
    return f"node {each.node} has enough devices, but {why}"


_CONCLUSIONS: Final[dict[type[c.Conclusion], Callable[[Any], str]]] = {
    c.Unjudged: lambda each: each.message,
    c.NoneTogether: lambda each: f"no node has {all_of(each.requests)}",
    c.DriverAbsent: lambda each: (
        f"no ResourceSlice of driver {each.driver} exists; is the driver running? (device class {each.device_class})"
    ),
    c.NothingSuitable: lambda each: (
        f"{f'node {each.node} has no' if each.node else 'no node has a'} device"
        f"{f' of class {each.device_class}' if each.device_class else ''} that request {each.request} takes"
    ),
    c.Apart: _apart,
    c.Short: _short,
}


def conclusion_text(conclusion: c.Conclusion) -> str:
    """In one line; `text.concluding` adds what is behind it."""
    return _CONCLUSIONS[type(conclusion)](conclusion)
