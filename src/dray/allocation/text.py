"""Reasons as text: one line for a summary, a tree for the whole reasoning.

A tree is a label and branches, so that a terminal, a page or an event can draw it as it likes; `lines` draws it
plainly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from dray.allocation import reasons as r
from dray.allocation.allocator import Allocation
from dray.allocation.devices import DeviceID
from dray.allocation.usage import ClaimKey

_MOST_NAMES: Final = 4
_MOST_CAUSES: Final = 2
_MOST_BRANCHES: Final = 12


@dataclass(slots=True)
class Tree:
    label: str
    branches: list[Tree] = field(default_factory=list)


def lines(tree: Tree) -> Iterator[str]:
    """The tree with its branches drawn."""
    yield tree.label
    yield from _branches(tree, "")


def _branches(tree: Tree, indent: str) -> Iterator[str]:
    for number, branch in enumerate(tree.branches):
        last = number == len(tree.branches) - 1
        yield f"{indent}{'└─ ' if last else '├─ '}{branch.label}"
        yield from _branches(branch, indent + ("   " if last else "│  "))


def summary(rejection: r.Rejection) -> str:
    """The rejection in one line."""
    if rejection.kind in (r.Kind.FAULT, r.Kind.STEPS):
        return rejection.message
    short = [each for each in _hopeless(rejection.requests) if not each.suffices]
    parts = [f"{each.request}: {_balance(each)}{_main_causes(each)}" for each in short[:2]]
    parts += [conflict_text(conflict) for conflict in rejection.conflicts[:1]]
    if rejection.kind is r.Kind.INVALID_POOLS:
        parts.append(rejection.message)
    return "; ".join(parts) or "no devices fit"


def tree(rejection: r.Rejection) -> Tree:
    """The whole reasoning."""
    root = Tree(f"node {rejection.node}: {_verdict(rejection)}")
    root.branches += [
        Tree(f"pool {pool.pool} is {pool.state}{f': {pool.problem}' if pool.problem else ''}")
        for pool in rejection.pools
    ]
    for claim, requests in _by_claim(rejection.requests):
        root.branches.append(Tree(f"claim {_key(claim)}", [_request(each) for each in requests]))
    if rejection.conflicts:
        conflicts = [Tree(conflict_text(conflict)) for conflict in rejection.conflicts]
        root.branches.append(Tree("there are enough devices, but none that go together", conflicts))
    if rejection.to_free:
        root.branches.append(Tree(f"would fit if freed: {', '.join(map(_key, rejection.to_free))}"))
    return root


def considered(allocation: Allocation, requests: Sequence[r.RequestReasons]) -> Tree:
    """What an allocation chose from."""
    root = Tree(f"node {allocation.node}: fits")
    picked: dict[tuple[ClaimKey, str], list[DeviceID]] = {}
    for claim, result in zip(allocation.claims, allocation.results, strict=True):
        for each in result["devices"].get("results") or ():
            device = (each["driver"], each["pool"], each["device"])
            picked.setdefault((claim, each["request"]), []).append(device)
    for claim, reasons in _by_claim(requests):
        branch = Tree(f"claim {_key(claim)}")
        for each in reasons:
            made = _request(each)
            chosen = picked.get((claim, each.request))
            made.branches.insert(0, Tree(f"picked {_names(chosen)}" if chosen else "not chosen"))
            branch.branches.append(made)
        root.branches.append(branch)
    return root


def _verdict(rejection: r.Rejection) -> str:
    if rejection.kind is r.Kind.FAULT:
        return f"cannot be judged: {rejection.message}"
    if rejection.kind is r.Kind.STEPS:
        return f"gave up, {rejection.message}"
    return f"does not fit{f' ({rejection.message})' if rejection.message else ''}"


def _request(reasons: r.RequestReasons) -> Tree:
    made = Tree(f"request {reasons.request}: {_balance(reasons)}")
    made.branches += [
        Tree(f"{_devices(len(fallen.devices))} {cause_text(fallen.cause)}: {_names(fallen.devices)}")
        for fallen in reasons.fallen[:_MOST_BRANCHES]
    ]
    if rest := reasons.fallen[_MOST_BRANCHES:]:
        number = sum(len(fallen.devices) for fallen in rest)
        made.branches.append(Tree(f"{_devices(number)} for {len(rest)} more reasons"))
    if reasons.nearest is not None and not reasons.suffices:
        made.branches.append(
            Tree(f"nearest miss: {'/'.join(reasons.nearest.device)}, {cause_text(reasons.nearest.cause)}")
        )
    return made


def _balance(reasons: r.RequestReasons) -> str:
    available = len(reasons.available)
    if reasons.every:
        return f"needs all {reasons.need}, {available} available" if reasons.need else "needs all, none match"
    return f"needs {reasons.need}, {available} available"


def _main_causes(reasons: r.RequestReasons) -> str:
    """The causes that came last, for they say most."""
    causes = [f"{len(each.devices)} {cause_text(each.cause)}" for each in reasons.fallen[: -_MOST_CAUSES - 1 : -1]]
    return f" ({'; '.join(causes)})" if causes else ""


def _hopeless(requests: Sequence[r.RequestReasons]) -> Iterator[r.RequestReasons]:
    """The requests none of whose alternatives suffices."""
    served = {(each.claim, each.request.partition("/")[0]) for each in requests if each.suffices}
    return (each for each in requests if (each.claim, each.request.partition("/")[0]) not in served)


def _by_claim(requests: Iterable[r.RequestReasons]) -> Iterable[tuple[ClaimKey, list[r.RequestReasons]]]:
    grouped: dict[ClaimKey, list[r.RequestReasons]] = {}
    for each in requests:
        grouped.setdefault(each.claim, []).append(each)
    return grouped.items()


def _key(claim: ClaimKey) -> str:
    return "/".join(part for part in claim if part)


def _devices(number: int) -> str:
    return f"{number} device{'' if number == 1 else 's'}"


def _names(devices: Sequence[DeviceID]) -> str:
    shown = ", ".join(f"{pool}/{name}" for _, pool, name in devices[:_MOST_NAMES])
    more = len(devices) - _MOST_NAMES
    return f"{shown} and {more} more" if more > 0 else shown


def _owners(owners: Sequence[ClaimKey]) -> str:
    return ", ".join(map(_key, owners))


_CAUSES: Final[dict[type[r.Cause], Callable[[Any], str]]] = {
    r.NotSelected: lambda c: f"not selected by {c.source}, selector {c.number + 1}: {c.expression}",
    r.SelectorFault: lambda c: f"cannot be judged: {c.text}",
    r.OtherNode: lambda c: "for other nodes",
    r.ConditionsOff: lambda c: "with binding conditions, which are switched off",
    r.CapacityAbsent: lambda c: f"without capacity {c.name}",
    r.CapacityTooSmall: lambda c: (
        f"too small or not divisible so: {c.wanted} of {c.name} wanted, {c.value} there"
        if c.value
        else f"not divisible as {c.name} asks"
    ),
    r.InUse: lambda c: f"in use by {_owners(c.owners)}",
    r.CapacityUsed: lambda c: f"too full: {c.wanted} of {c.name} wanted, {c.left} left beside {_owners(c.owners)}",
    r.OperationsNotSkippable: lambda c: "with skipped node operations, which the node does not support",
    r.GroupsIncompatible: lambda c: (
        f"not compatible with what is allocated on {c.counter_set}"
        f" (groups: {', '.join(c.groups) if c.groups else 'none'})"
    ),
    r.CounterShort: lambda c: f"short of counter {c.counter_set}/{c.counter}: {c.wanted} wanted, {c.left} left",
    r.Tainted: lambda c: f"tainted {c.key}={c.value}:{c.effect}, not tolerated",
    r.AttributeAbsent: lambda c: f"without attribute {c.attribute}, which a constraint needs",
}


def cause_text(cause: r.Cause) -> str:
    return _CAUSES[type(cause)](cause)


def _wanting(requests: Sequence[str]) -> str:
    return f"request {requests[0]} needs" if len(requests) == 1 else f"requests {', '.join(requests)} need"


def _some(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def _competing(values: Sequence[tuple[str, int]]) -> str:
    shown = ", ".join(f"{value} ({number})" for value, number in values[:_MOST_NAMES])
    more = len(values) - _MOST_NAMES
    return f"{shown} and {more} more" if more > 0 else shown


_CONFLICTS: Final[dict[type[r.Conflict], Callable[[Any], str]]] = {
    r.TooFewTogether: lambda c: f"{_wanting(c.requests)} {c.need} devices and there are {c.devices} in all",
    r.NoCommonValue: lambda c: (
        f"{_wanting(c.requests)} {c.need} devices with one value of {c.attribute}; "
        f"devices by value: {_competing(c.values)}"
    ),
    r.TooFewValues: lambda c: (
        f"{_wanting(c.requests)} {c.need} different values of {c.attribute}; "
        f"there are {len(c.values)}: {_some(c.values)}"
    ),
    r.CountersShort: lambda c: (
        f"{_wanting(c.requests)} at least {c.wanted} of {_some(c.counters)}, {c.left} left"
        if c.counters
        else f"{_wanting(c.requests)} more devices than the counters can carry"
    ),
    r.CapacityShort: lambda c: f"{_wanting(c.requests)} more shared capacity than is left",
    r.TooManyDevices: lambda c: f"claim {_key(c.claim)} would get more than {c.limit} devices",
    r.Entangled: lambda c: f"no set of devices serves {', '.join(c.requests)} under all constraints",
}


def conflict_text(conflict: r.Conflict) -> str:
    return _CONFLICTS[type(conflict)](conflict)
