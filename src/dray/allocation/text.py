"""Reasons as text: one line for a summary, a tree for the whole reasoning.

A tree is a label and branches, so that a terminal, a page or an event can draw it as it likes; `lines` draws it
plainly. Nodes that say the same share a tree, what came nearest comes first, and selectors are written out once, at
the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from dray.allocation import conclusions as c
from dray.allocation import reasons as r
from dray.allocation.allocator import Allocation
from dray.allocation.devices import DeviceID
from dray.allocation.encounters import encounters
from dray.allocation.inventory import Inventory
from dray.allocation.nearness import alike, stage
from dray.allocation.usage import ClaimKey
from dray.allocation.wording import (
    cause_text,
    conclusion_text,
    conflict_text,
    count_text,
    device_names,
    key_text,
    keys_text,
    met_text,
    pool_text,
    some,
)

_MOST_CAUSES: Final = 2
_MOST_BRANCHES: Final = 12
_MOST_OWNERS: Final = 3
"""Devices in use by more claims than this are one branch."""
_MOST_GROUPS: Final = 8


@dataclass(slots=True)
class Tree:
    label: str
    branches: list[Tree] = field(default_factory=list)


def lines(tree: Tree) -> Iterator[str]:
    """Yields the lines of the drawn tree."""
    yield tree.label
    yield from _branches(tree, "")


def _branches(tree: Tree, indent: str) -> Iterator[str]:
    for number, branch in enumerate(tree.branches):
        last = number == len(tree.branches) - 1
        yield f"{indent}{'└─ ' if last else '├─ '}{branch.label}"
        yield from _branches(branch, indent + ("   " if last else "│  "))


def summary(rejection: r.Rejection) -> str:
    """Renders the rejection in one line."""
    return _summary(rejection, _main_causes)


def _summary(rejection: r.Rejection, causes: Callable[[r.RequestReasons], str]) -> str:
    if rejection.kind in (r.RejectionKind.FAULT, r.RejectionKind.UNDECIDED):
        return rejection.message
    short = [reasons for reasons in _hopeless(rejection.requests) if not reasons.suffices]
    parts = [f"{reasons.request}: {_balance(reasons)}{causes(reasons)}" for reasons in short[:2]]
    parts += [conflict_text(conflict) for conflict in rejection.conflicts[:1]]
    if rejection.kind is r.RejectionKind.INVALID_POOLS:
        parts.append(rejection.message)
    return "; ".join(parts) or "no devices fit"


def tree(rejection: r.Rejection, inventory: Inventory | None = None) -> Tree:
    """Renders all reasons for one node as a tree."""
    reasoning = Reasoning(inventory)
    [root] = reasoning.trees([rejection])
    root.branches += reasoning.selectors()
    return root


def concluding(conclusion: c.Conclusion, inventory: Inventory | None = None) -> str:
    """Renders the conclusion in one line."""
    words = conclusion_text(conclusion)
    if isinstance(conclusion, c.Short):
        pools = [pool_text(pool) for pool in conclusion.nearest.pools[:1]]
        words = "; ".join([words, _summary(conclusion.nearest, _telling_causes), *pools])
    elif isinstance(conclusion, c.NothingSuitable) and conclusion.nearest is not None:
        nearest = conclusion.nearest
        why = _described(nearest.cause, [nearest.device], inventory)
        words = f"{words}; the nearest is {device_names([nearest.device])}, {why}"
    free: c.Freeing | None = getattr(conclusion, "free", None)
    return f"{words}; would fit on {free.node} if freed: {keys_text(free.claims)}" if free else words


class Reasoning:
    """Trees about nodes. With an inventory they say what selectors met; the selectors they name are remembered."""

    def __init__(self, inventory: Inventory | None = None) -> None:
        self._inventory = inventory
        self._named: dict[str, str] = {}

    def trees(self, rejections: Iterable[r.Rejection], most: int = _MOST_GROUPS) -> list[Tree]:
        """Renders one tree for nodes with equal reasons, nearest first, and a last one for omitted nodes."""
        groups = alike(rejections)
        made = [self._group(group) for group in groups[:most]]
        if rest := sum(map(len, groups[most:])):
            made.append(Tree(f"{rest:,} more nodes do not fit for other reasons; --node NAME asks one of them"))
        return made

    def selectors(self) -> list[Tree]:
        """Returns the selectors that were named so far."""
        return [Tree(f"{title}: {expression}") for title, expression in self._named.items()]

    def considered(self, allocation: Allocation, requests: Sequence[r.RequestReasons]) -> Tree:
        """Renders the devices that an allocation picked, and those it did not."""
        root = Tree(f"node {allocation.node}: fits")
        picked: dict[tuple[ClaimKey, str], list[DeviceID]] = {}
        for claim, result in zip(allocation.claims, allocation.results, strict=True):
            for entry in result["devices"].get("results") or ():
                device = (entry["driver"], entry["pool"], entry["device"])
                picked.setdefault((claim, entry["request"]), []).append(device)
        for claim, reasons in _by_claim(requests):
            branch = Tree(f"claim {key_text(claim)}")
            for reason in reasons:
                made = self._request([reason])
                chosen = picked.get((claim, reason.request))
                made.branches.insert(0, Tree(f"picked {device_names(chosen)}" if chosen else "not chosen"))
                branch.branches.append(made)
            root.branches.append(branch)
        return root

    def _group(self, group: Sequence[r.Rejection]) -> Tree:
        first = group[0]
        root = Tree(f"{nodes_text([rejection.node for rejection in group])}: {_verdict(first, len(group))}")
        root.branches += [Tree(pool_text(pool)) for pool in first.pools]
        several = zip(*(rejection.requests for rejection in group), strict=True)
        for claim, requests in _by_claim(first.requests):
            branches = [self._request(next(several)) for _ in requests]
            root.branches.append(Tree(f"claim {key_text(claim)}", branches))
        if first.conflicts:
            conflicts = [Tree(conflict_text(conflict)) for conflict in first.conflicts]
            root.branches.append(Tree("there are enough devices, but none that go together", conflicts))
        if first.to_free:
            on = f" on {first.node}" if len(group) > 1 else ""
            root.branches.append(Tree(f"would fit{on} if freed: {keys_text(first.to_free)}"))
        return root

    def _request(self, group: Sequence[r.RequestReasons]) -> Tree:
        """Renders one request for nodes with equal reasons."""
        first, many = group[0], len(group) > 1
        made = Tree(f"request {first.request}: {_balance(first)}{' on each' if many else ''}")
        others: list[DeviceID] = []
        for fallen in _merged(first.fallen, 0 if many else _MOST_OWNERS):
            devices, foreign = _by_driver(first, fallen)
            others += foreign
            if not devices:
                continue
            cause = r.InUse(_users(group)) if many and isinstance(fallen.cause, r.InUse) else fallen.cause
            made.branches.append(self._fallen(first, cause, devices, named=not many))
        if rest := made.branches[_MOST_BRANCHES:]:
            made.branches[_MOST_BRANCHES:] = [Tree(f"{len(rest)} more reasons")]
        if others:
            drivers = sorted({driver for driver, _, _ in others})
            names = "" if many else f": {device_names(others)}"
            made.branches.append(Tree(f"{count_text(len(others))} of other drivers ({some(drivers)}){names}"))
        return made

    def _fallen(self, reasons: r.RequestReasons, cause: r.Cause, devices: Sequence[DeviceID], *, named: bool) -> Tree:
        if isinstance(cause, r.NotSelected):
            source = f"request {reasons.request}" if cause.source == "request" else cause.source
            self._named.setdefault(f"{source}, selector {cause.number + 1}", cause.expression)
        names = f": {device_names(devices)}" if named else ""
        return Tree(f"{count_text(len(devices))} {_described(cause, devices, self._inventory)}{names}")


def nodes_text(names: Sequence[str]) -> str:
    return f"node {names[0]}" if len(names) == 1 else f"{len(names):,} nodes ({some(names)})"


def _described(cause: r.Cause, devices: Sequence[DeviceID], inventory: Inventory | None) -> str:
    """The cause, with what was met on the devices in place of a selector's text."""
    if not isinstance(cause, r.NotSelected):
        return cause_text(cause)
    met = met_text(encounters(inventory, cause.expression, devices)) if inventory is not None else ""
    return f"{_brief(cause)}{f' ({met})' if met else ''}"


def _brief(cause: r.Cause) -> str:
    if isinstance(cause, r.NotSelected):
        return f"not selected by {cause.source}, selector {cause.number + 1}"
    return cause_text(cause)


def _verdict(rejection: r.Rejection, nodes: int) -> str:
    if rejection.kind is r.RejectionKind.FAULT:
        return f"cannot be judged: {rejection.message}"
    if rejection.kind is r.RejectionKind.UNDECIDED:
        return f"gave up, {rejection.message}"
    refusal = "does not fit" if nodes == 1 else "do not fit"
    return f"{refusal}{f' ({rejection.message})' if rejection.message else ''}"


def _merged(fallen: Sequence[r.Fallen], most: int) -> list[r.Fallen]:
    """Sorts reasons by nearest miss first; merges devices in use if more than `most` groups of claims hold them."""
    ordered = sorted(fallen, key=lambda each: stage(each.cause), reverse=True)
    used = [reason for reason in ordered if isinstance(reason.cause, r.InUse)]
    if len(used) <= max(most, 1):
        return ordered
    position = ordered.index(used[0])
    devices = tuple(sorted(device for reason in used for device in reason.devices))
    rest = [reason for reason in ordered if not isinstance(reason.cause, r.InUse)]
    return [*rest[:position], r.Fallen(r.InUse(_owners(used)), devices), *rest[position:]]


def _owners(fallen: Iterable[r.Fallen]) -> tuple[ClaimKey, ...]:
    causes = [reason.cause for reason in fallen]
    return tuple(dict.fromkeys(owner for cause in causes if isinstance(cause, r.InUse) for owner in cause.owners))


def _users(group: Iterable[r.RequestReasons]) -> tuple[ClaimKey, ...]:
    """Returns the claims that hold devices that the request could use, on all nodes."""
    return _owners(fallen for reasons in group for fallen in reasons.fallen)


def _by_driver(reasons: r.RequestReasons, fallen: r.Fallen) -> tuple[list[DeviceID], list[DeviceID]]:
    """The devices, those apart that the class passes over while it takes devices of other drivers."""
    if not _is_foreign(fallen.cause):
        return list(fallen.devices), []
    taken = {driver for driver, _, _ in reasons.available}
    for each in reasons.fallen:
        if not _is_foreign(each.cause):
            taken |= {driver for driver, _, _ in each.devices}
    if not taken:
        return list(fallen.devices), []
    return (
        [device for device in fallen.devices if device[0] in taken],
        [device for device in fallen.devices if device[0] not in taken],
    )


def _balance(reasons: r.RequestReasons) -> str:
    available = len(reasons.available)
    if reasons.every:
        return f"needs all {reasons.need}, {available} available" if reasons.need else "needs all, none match"
    return f"needs {reasons.need}, {available} available"


def _main_causes(reasons: r.RequestReasons) -> str:
    """The causes that came last, for they say most, and how many devices fell to others."""
    telling = [reason for reason in reversed(reasons.fallen) if not _is_foreign(reason.cause)]
    fallen = telling or _of_driver(reasons)
    if not fallen and reasons.fallen and not reasons.available:
        return f" (no device of driver {reasons.driver} there)"
    if len(telling) > _MOST_CAUSES:
        fallen = [reason for reason in _merged(reasons.fallen, 1) if not _is_foreign(reason.cause)]
    causes = [f"{len(reason.devices)} {cause_text(reason.cause)}" for reason in fallen[:_MOST_CAUSES]]
    if rest := sum(len(reason.devices) for reason in fallen[_MOST_CAUSES:] if not _is_foreign(reason.cause)):
        causes.append(f"{rest} more")
    return f" ({'; '.join(causes)})" if causes else ""


def _of_driver(reasons: r.RequestReasons) -> list[r.Fallen]:
    """Returns the rejected devices with their causes, and leaves out devices of other drivers."""
    found = []
    for fallen in reversed(reasons.fallen):
        devices = tuple(device for device in fallen.devices if reasons.driver in ("", device[0]))
        found += [r.Fallen(fallen.cause, devices)] if devices else []
    return found


def _telling_causes(reasons: r.RequestReasons) -> str:
    """Renders the main causes without foreign classes and without selector texts."""
    telling = [reason for reason in _merged(reasons.fallen, 0) if not _is_foreign(reason.cause)][:_MOST_CAUSES]
    causes = [f"{len(reason.devices)} {_brief(reason.cause)}" for reason in telling]
    return f" ({'; '.join(causes)})" if causes else ""


def _is_foreign(cause: r.Cause) -> bool:
    return isinstance(cause, r.NotSelected) and cause.source != "request"


def _hopeless(requests: Sequence[r.RequestReasons]) -> Iterator[r.RequestReasons]:
    """Returns the requests without a sufficient alternative."""
    served = {(request.claim, request.request.partition("/")[0]) for request in requests if request.suffices}
    return (request for request in requests if (request.claim, request.request.partition("/")[0]) not in served)


def _by_claim(requests: Iterable[r.RequestReasons]) -> Iterable[tuple[ClaimKey, list[r.RequestReasons]]]:
    grouped: dict[ClaimKey, list[r.RequestReasons]] = {}
    for request in requests:
        grouped.setdefault(request.claim, []).append(request)
    return grouped.items()
