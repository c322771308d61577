"""Allocation as a function: inventory, node and claims in; an allocation or a rejection out.

`allocate` reads. `commit` writes what was decided into the inventory and gives back what undoes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from dray.allocation.inventory import Inventory
from dray.allocation.node_selectors import NodeSelectorError
from dray.allocation.picks import Picks
from dray.allocation.policies import KUBERNETES, Policy
from dray.allocation.pools import PoolState
from dray.allocation.reasons import Rejection, RejectionKind, RequestReasons
from dray.allocation.requests import Choice, Task, compile_task
from dray.allocation.results import ShareIds, assemble, derived_share_id
from dray.allocation.search import Search
from dray.allocation.usage import ClaimKey, claim_key
from dray.allocation.work import AllocationError, Work, WorkExhausted, undecided
from dray.api.objects import Object

# Units of work to compile a request.
_REQUEST: Final = 20
# Units of work for a device: to find what it falls to for one request, and to copy it.
_CAUSE: Final = 4
_COPY: Final = 20


@dataclass(frozen=True, slots=True)
class Allocation:
    """A valid allocation on the node: one AllocationResult for each claim, in order."""

    node: str
    claims: tuple[ClaimKey, ...]
    results: tuple[Object, ...]
    work: int = field(default=0, compare=False)
    """Units of work that the search spent."""


@dataclass(frozen=True, slots=True)
class Commitment:
    """A committed allocation; `undo` restores the inventory."""

    inventory: Inventory
    before: tuple[tuple[ClaimKey, list[Object] | None], ...]

    def undo(self) -> None:
        for claim, results in reversed(self.before):
            usage = self.inventory.usage
            self.inventory.follow(usage.release(claim) if results is None else usage.hold(claim, results))


def allocate(
    inventory: Inventory,
    node: Object,
    claims: Sequence[Object],
    *,
    beside: Sequence[Object] = (),
    policy: Policy = KUBERNETES,
    share_ids: ShareIds = derived_share_id,
    work: Work | None = None,
    explain: bool = True,
    freeing: bool = True,
) -> Allocation | Rejection:
    """Devices of the node for all claims together, or why not.

    Nothing is changed. `beside` are claims of the same pods that have devices already (see `alignment`).
    With `explain` off a rejection carries its kind alone, which is what asking many nodes wants. With `freeing` off it
    does not say whose release would make room: that takes as many searches as claims hold devices there.
    """
    name = node["metadata"]["name"]
    work = work or Work()
    before = work.spent
    inventory.selectors.work = work
    try:
        view = policy.arranged(inventory, inventory.view(node))
        task = compile_task(inventory, view, claims, beside)
        work.spend(_REQUEST * len(task.choices))
        picks = Search(task, Picks(task, inventory.usage), work).run()
        if picks is not None:
            results = assemble(task, picks, share_ids)
            return Allocation(name, tuple(map(claim_key, claims)), tuple(results), work.spent - before)
    except (AllocationError, NodeSelectorError) as error:
        return Rejection(RejectionKind.FAULT, name, str(error), work.spent - before)
    except WorkExhausted:
        return Rejection(RejectionKind.UNDECIDED, name, undecided(work), work.spent - before)
    invalid = any(pool.state is PoolState.INVALID for pool in view.pools)
    kind = RejectionKind.INVALID_POOLS if invalid else RejectionKind.NO_SOLUTION
    message = "invalid resource pools were encountered" if invalid else ""
    if not explain:
        return Rejection(kind, name, message, work.spent - before)
    rejection = _explained(inventory, task, Rejection(kind, name, message, work.spent - before), work)
    return _with_freeing(inventory, node, task, rejection, work, beside) if freeing else rejection


def _explained(inventory: Inventory, task: Task, rejection: Rejection, work: Work) -> Rejection:
    """Adds the reasons to the rejection, if the work budget suffices to find them."""
    # Most allocations succeed and never need these.
    from dray.allocation.diagnosis import Diagnosis

    diagnosis = Diagnosis(inventory, task)
    try:
        work.spend(_CAUSE * len(task.view.devices) * sum(len(choice.options) for choice in task.choices))
        requests = diagnosis.requests()
        return replace(rejection, requests=requests, conflicts=diagnosis.conflicts(requests), pools=diagnosis.pools())
    except WorkExhausted:
        return rejection


def _with_freeing(
    inventory: Inventory, node: Object, task: Task, rejection: Rejection, work: Work, beside: Sequence[Object]
) -> Rejection:
    """Adds the claims whose release would make room, if the work budget suffices to find them."""
    from dray.allocation.diagnosis import to_free

    def fits(trial: Inventory) -> bool:
        answer = allocate(trial, node, task.claims, beside=beside, work=work, explain=False)
        if isinstance(answer, Rejection) and answer.kind is RejectionKind.UNDECIDED:
            raise WorkExhausted
        return isinstance(answer, Allocation)

    try:
        work.spend(_COPY * len(task.view.devices))
        return replace(rejection, to_free=to_free(inventory.excerpt(task.view), fits))
    except WorkExhausted:
        return rejection


def confirm(
    inventory: Inventory,
    node: Object,
    claims: Sequence[Object],
    results: Sequence[Object],
    *,
    beside: Sequence[Object] = (),
    policy: Policy = KUBERNETES,
    share_ids: ShareIds = derived_share_id,
    work: Work | None = None,
) -> Allocation | None:
    """Returns an allocation with these results, one per claim; None if they are not valid now. Raises WorkExhausted."""
    work = work or Work()
    inventory.selectors.work = work
    before = work.spent
    try:
        task = compile_task(inventory, policy.arranged(inventory, inventory.view(node)), claims, beside)
        wanted = _wanted(task, results)
        picks = Search(task, Picks(task, inventory.usage), work).replay(wanted) if wanted is not None else None
        if picks is None:
            return None
        found = assemble(task, picks, share_ids)
    except (AllocationError, NodeSelectorError):
        return None
    return Allocation(node["metadata"]["name"], tuple(map(claim_key, claims)), tuple(found), work.spent - before)


def _wanted(task: Task, results: Sequence[Object]) -> list[tuple[Choice, int, int]] | None:
    """Returns the picks for the results; None if a request or a device does not exist."""
    ranks = {device.id: rank for rank, device in enumerate(task.view.devices)}
    options = {
        (choice.claim, request.name): (choice, option)
        for choice in task.choices
        for option, request in enumerate(choice.options)
    }
    wanted = []
    for claim, result in enumerate(results):
        for entry in result["devices"].get("results") or ():
            found = options.get((claim, entry["request"]))
            rank = ranks.get((entry["driver"], entry["pool"], entry["device"]))
            if found is None or rank is None:
                return None
            wanted.append((*found, rank))
    return wanted


def examine(inventory: Inventory, node: Object, claims: Sequence[Object]) -> tuple[RequestReasons, ...]:
    """Returns, for each request, its candidates on the node and why other devices are not.

    Returns nothing if the claims cannot be judged at all.
    """
    from dray.allocation.diagnosis import Diagnosis

    inventory.selectors.work = Work()
    try:
        return Diagnosis(inventory, compile_task(inventory, inventory.view(node), claims)).requests()
    except (AllocationError, NodeSelectorError, WorkExhausted):
        return ()


def commit(inventory: Inventory, allocation: Allocation) -> Commitment:
    """Charges the inventory with the allocation."""
    before = []
    for claim, result in zip(allocation.claims, allocation.results, strict=True):
        before.append((claim, inventory.usage.claims.get(claim)))
        inventory.follow(inventory.usage.hold(claim, result["devices"].get("results") or []))
    return Commitment(inventory, tuple(before))
