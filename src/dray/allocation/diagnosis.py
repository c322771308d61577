"""Finds the reasons of a rejection, after the fact and off the hot path.

Every device is led through the checks of each request in their order until one stops it. Where enough devices pass
for each request alone, the bounds of the search are asked one by one which of them fails for all together. What
would have to be freed is found by releasing claims on trial and taking back each release that turns out unneeded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any, Final

from dray.allocation import taints
from dray.allocation.capacity import CapacityError, consumption
from dray.allocation.constraints import Constraint
from dray.allocation.devices import Device, quantity
from dray.allocation.inventory import Inventory
from dray.allocation.nearness import stage
from dray.allocation.picks import Picks
from dray.allocation.pools import PoolState
from dray.allocation.pruning import bounds
from dray.allocation.pruning.budgets import Budgets
from dray.allocation.pruning.demands import Alternative, Demand, servable
from dray.allocation.pruning.shares import Shares
from dray.allocation.reasons import (
    AttributeAbsent,
    CapacityAbsent,
    CapacityShort,
    CapacityTooSmall,
    CapacityUsed,
    Cause,
    ConditionsOff,
    Conflict,
    CounterShort,
    CountersShort,
    Entangled,
    Fallen,
    GroupsIncompatible,
    InUse,
    NearestMiss,
    NoCommonValue,
    NotSelected,
    OperationsNotSkippable,
    OtherNode,
    PoolReason,
    RequestReasons,
    SelectorFault,
    Tainted,
    TooFewTogether,
    TooFewValues,
    TooManyDevices,
)
from dray.allocation.requests import Request, Task
from dray.allocation.usage import ClaimKey, claim_key
from dray.allocation.wanted_drivers import wanted_driver
from dray.api.objects import spec_of, walk
from dray.api.quantity import Format, Quantity
from dray.api.resource_claims import MAX_DEVICES

_MOST_TRIALS: Final = 64


class Diagnosis:
    def __init__(self, inventory: Inventory, task: Task) -> None:
        self._inventory = inventory
        self._task = task
        self._view = task.view
        self._picks = Picks(task, inventory.usage)
        self._drawing = sum(1 << rank for rank in task.view.counter_sets)

    def pools(self) -> tuple[PoolReason, ...]:
        return tuple(
            PoolReason(pool.title, pool.state.value, pool.problem)
            for pool in self._view.pools
            if pool.state is not PoolState.COMPLETE
        )

    def requests(self) -> tuple[RequestReasons, ...]:
        return tuple(self._request(choice.claim, option) for choice in self._task.choices for option in choice.options)

    def _request(self, claim: int, request: Request) -> RequestReasons:
        available, fallen = [], dict[Cause, list[int]]()
        fine = self._fine(request)
        for rank in range(len(self._view.devices)):
            cause = None if fine >> rank & 1 else self._cause(request, rank)
            if cause is None:
                available.append(rank)
            else:
                fallen.setdefault(cause, []).append(rank)
        causes = sorted(fallen, key=stage)
        driver = wanted_driver(_expressions(request))
        return RequestReasons(
            claim_key(self._task.claims[claim]),
            request.name,
            request.need,
            request.listed is not None,
            self._ids(available),
            tuple(Fallen(cause, self._ids(fallen[cause])) for cause in causes),
            self._nearest(fallen, driver),
            request.device_class["metadata"]["name"],
            driver,
            bool(driver) and not self._inventory.has_driver(driver),
        )

    def _nearest(self, fallen: Mapping[Cause, Sequence[int]], driver: str) -> NearestMiss | None:
        """Returns the nearest miss among the devices of the wanted driver; None if there is none."""
        found = [(cause, rank) for cause, ranks in fallen.items() for rank in ranks if self._is_of(rank, driver)]
        last = max((stage(cause) for cause, _ in found), default=None)
        near = min(((rank, cause) for cause, rank in found if stage(cause) == last), key=itemgetter(0), default=None)
        return NearestMiss(self._view.devices[near[0]].id, near[1]) if near is not None else None

    def _is_of(self, rank: int, driver: str) -> bool:
        return driver in ("", self._view.devices[rank].driver)

    def _ids(self, ranks: Iterable[int]) -> tuple[tuple[str, str, str], ...]:
        return tuple(self._view.devices[rank].id for rank in ranks)

    def _fine(self, request: Request) -> int:
        """Devices that need no closer look."""
        bits = request.candidates & ~self._task.held & ~self._drawing
        for rank in request.amounts:
            bits &= ~(1 << rank)
        for constraint in request.constraints:
            bits &= constraint.index(request).present
        return bits

    def _cause(self, request: Request, rank: int) -> Cause | None:
        checks: tuple[Callable[[Request, int, Device], Cause | None], ...] = (
            self._selection,
            self._capacity,
            self._standing,
            self._counters,
            self._usage,
        )
        device = self._view.devices[rank]
        return next((cause for check in checks if (cause := check(request, rank, device)) is not None), None)

    def _selection(self, request: Request, rank: int, device: Device) -> Cause | None:
        class_name = request.device_class["metadata"]["name"]
        of_class = spec_of(request.device_class).get("selectors") or ()
        for source, selectors in ((f"class {class_name}", of_class), ("request", request.spec.get("selectors") or ())):
            for number, selector in enumerate(selectors):
                expression = selector["cel"]["expression"]
                column = self._view.column(expression, self._inventory.selectors)
                if rank in column.faults:
                    return SelectorFault(request.faults.get(rank, column.faults[rank]))
                if not column.selected >> rank & 1:
                    return NotSelected(source, number, expression)
        if not self._view.here >> rank & 1:
            return OtherNode()
        if device.spec.get("bindingConditions") and not self._inventory.gates["DRADeviceBindingConditions"]:
            return ConditionsOff()
        return None

    def _capacity(self, request: Request, rank: int, device: Device) -> Cause | None:
        if request.selectable >> rank & 1:
            return None
        wanted = _wanted(request)
        for name, amount in wanted.items():
            if name not in device.capacity:
                return CapacityAbsent(name)
            try:
                alone = consumption(device, {name: amount}, fractional=True)
            except CapacityError as error:
                return SelectorFault(str(error))
            if alone is None:
                return CapacityTooSmall(name, str(amount), str(device.capacity[name].value))
        return CapacityTooSmall(", ".join(wanted), "", "")

    def _standing(self, request: Request, rank: int, device: Device) -> Cause | None:
        if not self._view.operable >> rank & 1:
            return OperationsNotSkippable()
        if not request.candidates >> rank & 1:
            taint = taints.untolerated(device.taints, request.tolerations) or {}
            rule = self._inventory.rule_with(taint, device)
            return Tainted(taint.get("key") or "", taint.get("value") or "", taint.get("effect") or "", rule)
        for constraint in request.constraints:
            if not constraint.index(request).present >> rank & 1:
                return AttributeAbsent(constraint.attribute)
        return None

    def _counters(self, request: Request, rank: int, device: Device) -> Cause | None:
        # A device in use fails its own counters too; that it is in use says more.
        in_use = self._task.held >> rank & 1 and not request.admin
        if in_use or not self._picks.draws(rank) or self._picks.has_counters(rank):
            return None
        counter_sets = self._view.counter_sets[rank]
        for consumed in device.consumes:
            if not counter_sets.compatibility(consumed.counter_set).admits(consumed.groups):
                return GroupsIncompatible(consumed.counter_set, tuple(sorted(consumed.groups)))
        short = [
            (position, amount) for position, amount in counter_sets.cost(device) if counter_sets.left[position] < amount
        ]
        short = short or [(position, 0) for position, left in enumerate(counter_sets.left) if left < 0]
        position, amount = short[0]
        return CounterShort(*counter_sets.names[position], _text(amount), _text(counter_sets.left[position]))

    def _usage(self, request: Request, rank: int, device: Device) -> Cause | None:
        usage = self._inventory.usage.devices.get(device.id)
        if usage is None:
            return None
        if usage.owners and not request.admin:
            return InUse(tuple(usage.owners))
        if self._picks.has_capacity(request, rank):
            return None
        left = self._picks.capacity_before(rank)
        for name, amount in request.amounts[rank].items():
            if amount.nanos > left[name]:
                return CapacityUsed(
                    name, str(amount), _text(left[name], amount.format), tuple(dict.fromkeys(usage.claims()))
                )
        return None

    # All together

    def conflicts(self, reasons: Sequence[RequestReasons]) -> tuple[Conflict, ...]:
        """Returns conflicts between requests that could each be served alone; empty if one of them could not."""
        suffices = {id(option): each.suffices for option, each in zip(self._options(), reasons, strict=True)}
        if not all(any(suffices[id(option)] for option in choice.options) for choice in self._task.choices):
            return ()
        ranks = {device.id: rank for rank, device in enumerate(self._view.devices)}
        bits = {
            id(option): sum(1 << ranks[device] for device in each.available)
            for option, each in zip(self._options(), reasons, strict=True)
        }
        demands = [
            Demand(
                choice.claim,
                [
                    Alternative(option, option.need, bits[id(option)])
                    for option in choice.options
                    if suffices[id(option)]
                ],
            )
            for choice in self._task.choices
        ]
        found = list(self._find_conflicts(demands))
        return tuple(found) or (Entangled(self._names(demands)),)

    def _options(self) -> Iterator[Request]:
        return (option for choice in self._task.choices for option in choice.options)

    def _find_conflicts(self, demands: list[Demand]) -> Iterator[Conflict]:
        shareable = self._view.shareable
        for number, claim in enumerate(self._task.claims):
            if sum(demand.need for demand in demands if demand.claim == number) > MAX_DEVICES:
                yield TooManyDevices(claim_key(claim), MAX_DEVICES)
        if not bounds.by_matching(demands, shareable):
            group, number = _contention(demands, shareable)
            yield TooFewTogether(self._names(group), sum(demand.need for demand in group), number)
        for number, constraints in enumerate(self._task.constraints):
            for constraint in constraints:
                yield from self._constraint_conflict(number, constraint, _copied(demands))
        yield from self._counter_conflict(demands)
        if not Shares(self._task, self._picks).fit(_copied(demands)):
            yield CapacityShort(self._names(demands))

    def _counter_conflict(self, demands: list[Demand]) -> Iterator[Conflict]:
        budgets = Budgets(self._view)
        shortage = budgets.shortage(demands, self._picks)
        if shortage is not None:
            budget, least = shortage
            left = budget.left(self._picks.left)
            yield CountersShort(self._names(demands), budget.names, _text(least), _text(left))
        elif not budgets.affordable(demands, self._picks):
            yield CountersShort(self._names(demands))

    def _names(self, demands: Iterable[Demand]) -> tuple[str, ...]:
        """Names the requests, with their claims if there are several claims."""
        claims = self._task.claims
        return tuple(
            demand.alternatives[0].request.parent
            if len(claims) == 1
            else f"{claim_key(claims[demand.claim])[1]}/{demand.alternatives[0].request.parent}"
            for demand in demands
        )

    def _constraint_conflict(self, claim: int, constraint: Constraint, demands: list[Demand]) -> Iterator[Conflict]:
        covered = [
            demand for demand in demands if all(option.request in constraint.requests for option in demand.alternatives)
        ]
        if not covered:
            return
        key, need = claim_key(self._task.claims[claim]), sum(demand.need for demand in covered)
        union: dict[str, int] = {}
        for demand in covered:
            for alternative in demand.alternatives:
                for value, holders in constraint.index(alternative.request).holders.items():
                    union[_value(value)] = union.get(_value(value), 0) | holders & alternative.bits
        counts = [(value, bits.bit_count()) for value, bits in union.items() if bits]
        if constraint.distinct:
            if not bounds.by_distinction(covered, constraint):
                yield TooFewValues(
                    key, constraint.attribute, self._names(covered), need, tuple(value for value, _ in counts)
                )
        elif not bounds.by_match(covered, constraint, self._view.shareable):
            counts.sort(key=lambda each: (-each[1], each[0]))
            yield NoCommonValue(key, constraint.attribute, self._names(covered), need, tuple(counts))


def _expressions(request: Request) -> Iterator[str]:
    for selectors in (spec_of(request.device_class).get("selectors"), request.spec.get("selectors")):
        yield from (selector["cel"]["expression"] for selector in selectors or ())


def to_free(trial: Inventory, fits: Callable[[Inventory], bool]) -> tuple[ClaimKey, ...] | None:
    """Returns a small set of claims whose release makes room; empty if none does. Changes `trial`."""
    held = dict(trial.usage.claims)
    if not held or len(held) > _MOST_TRIALS:
        return None
    for holder in held:
        trial.follow(trial.usage.release(holder))
    if not fits(trial):
        return None
    freed = sorted(held)
    # The largest holder is spared first, so that few and small claims remain to be freed.
    for holder in sorted(held, key=lambda each: (-len(held[each]), each)):
        trial.follow(trial.usage.hold(holder, held[holder]))
        if fits(trial):
            freed.remove(holder)
        else:
            trial.follow(trial.usage.release(holder))
    return tuple(freed)


def _contention(demands: Sequence[Demand], shareable: int) -> tuple[list[Demand], int]:
    """The smallest group of requests, by closure under inclusion, that wants more devices than it has; and those."""
    exclusive = [demand for demand in demands if demand.exclusive]
    groups = []
    for demand in exclusive:
        inside = [other for other in exclusive if not other.bits & ~demand.bits]
        wants = [(other.need - (other.bits & shareable).bit_count(), other.bits & ~shareable) for other in inside]
        if not servable(wants):
            groups.append((inside, demand.bits))
    inside, union = min(groups, key=lambda group: len(group[0]), default=(exclusive, 0))
    for demand in inside:
        union |= demand.bits
    return inside, union.bit_count()


def _copied(demands: Iterable[Demand]) -> list[Demand]:
    return [
        Demand(
            demand.claim,
            [
                Alternative(alternative.request, alternative.need, alternative.bits)
                for alternative in demand.alternatives
            ],
        )
        for demand in demands
    ]


def _wanted(request: Request) -> dict[str, Quantity]:
    asked = walk(request.spec, "capacity", "requests")
    return {name: quantity(amount) for name, amount in asked.items()}


def _text(nanos: int, form: Format = Format.BINARY_SI) -> str:
    return str(Quantity(nanos, -9, form, wide=True))


def _value(value: tuple[str, Any]) -> str:
    kind, plain = value
    return str(plain).lower() if kind == "bool" else str(plain)
