"""Allocation as a function: inventory, node and claims in; an allocation or a rejection out.

`allocate` reads. `commit` writes what was decided into the inventory and gives back what undoes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from dray.allocation.errors import AllocationError
from dray.allocation.inventory import Inventory
from dray.allocation.node_selectors import NodeSelectorError
from dray.allocation.picks import Picks
from dray.allocation.policies import KUBERNETES, Policy
from dray.allocation.pools import PoolState
from dray.allocation.reasons import Kind, Rejection, RequestReasons
from dray.allocation.requests import Task, compile_task
from dray.allocation.results import ShareIds, assemble, derived_share_id
from dray.allocation.search import STEP_LIMIT, Search, StepsExhausted, Work
from dray.allocation.usage import ClaimKey, claim_key

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Allocation:
    """One AllocationResult for each claim, in their order, valid on the node."""

    node: str
    claims: tuple[ClaimKey, ...]
    results: tuple[Object, ...]
    steps: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Commitment:
    """A committed allocation; `undo` makes the inventory what it was."""

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
    policy: Policy = KUBERNETES,
    share_ids: ShareIds = derived_share_id,
    step_limit: int = STEP_LIMIT,
    explain: bool = True,
) -> Allocation | Rejection:
    """Devices of the node for all claims together, or why not.

    Nothing is changed. With `explain` off a rejection carries its kind alone, which is what asking many nodes wants.
    """
    name = node["metadata"]["name"]
    work = Work(step_limit)
    try:
        view = policy.arranged(inventory, inventory.view(node))
        task = compile_task(inventory, view, claims)
        picks = Search(task, Picks(task, inventory.usage), work).run()
        if picks is not None:
            results = assemble(task, picks, share_ids)
            return Allocation(name, tuple(map(claim_key, claims)), tuple(results), work.steps)
    except (AllocationError, NodeSelectorError) as error:
        return Rejection(Kind.FAULT, name, str(error), work.steps)
    except StepsExhausted:
        return Rejection(Kind.STEPS, name, f"undecided after {work.limit} steps", work.steps)
    invalid = any(pool.state is PoolState.INVALID for pool in view.pools)
    kind = Kind.INVALID_POOLS if invalid else Kind.NO_SOLUTION
    message = "invalid resource pools were encountered" if invalid else ""
    if not explain:
        return Rejection(kind, name, message, work.steps)
    return _explained(inventory, node, task, kind, message, work.steps)


def _explained(inventory: Inventory, node: Object, task: Task, kind: Kind, message: str, steps: int) -> Rejection:
    # Most allocations succeed and never need these.
    from dray.allocation.diagnosis import Diagnosis, to_free

    diagnosis = Diagnosis(inventory, task)
    requests = diagnosis.requests()

    def fits(trial: Inventory) -> bool:
        return isinstance(allocate(trial, node, task.claims, explain=False), Allocation)

    return Rejection(
        kind,
        task.view.node,
        message,
        steps,
        requests,
        diagnosis.conflicts(requests),
        diagnosis.pools(),
        to_free(inventory.excerpt(task.view), fits),
    )


def examine(inventory: Inventory, node: Object, claims: Sequence[Object]) -> tuple[RequestReasons, ...]:
    """For each request what it has to choose from on the node, and what the other devices fell to.

    Nothing where the claims cannot be judged at all.
    """
    from dray.allocation.diagnosis import Diagnosis

    try:
        return Diagnosis(inventory, compile_task(inventory, inventory.view(node), claims)).requests()
    except (AllocationError, NodeSelectorError):
        return ()


def commit(inventory: Inventory, allocation: Allocation) -> Commitment:
    """Takes what the allocation gives into use."""
    before = []
    for claim, result in zip(allocation.claims, allocation.results, strict=True):
        before.append((claim, inventory.usage.claims.get(claim)))
        inventory.follow(inventory.usage.hold(claim, result["devices"].get("results") or []))
    return Commitment(inventory, tuple(before))
