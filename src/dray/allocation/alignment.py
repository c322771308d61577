"""Alignment across claims: the devices of all claims of a pod that say so have a value of an attribute in common.

Constraints of Kubernetes hold within a claim. A claim that carries the annotation `dray.dev/match-attribute`, with one
or several attributes, is matched with the other claims of its pod that carry the same: all their devices, as if one
claim had asked for them with a `matchAttribute`. Claims that have devices already take part with those. Claims of
several pods in one call are told apart by the pod that they were made for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from dray.allocation.constraints import Constraint
from dray.allocation.devices import NO_VALUE
from dray.allocation.views import View
from dray.allocation.work import AllocationError
from dray.api.names import is_subdomain
from dray.api.objects import Object, annotations_of, controller_uid, key_of
from dray.api.resource_claims import results_of

if TYPE_CHECKING:
    from dray.allocation.inventory import Inventory
    from dray.allocation.requests import Choice

MATCH_ATTRIBUTE: Final = "dray.dev/match-attribute"


def matched_attributes(claim: Object) -> tuple[str, ...]:
    """Returns the attributes that the claim must share with the pod's other claims. Raises AllocationError."""
    text = annotations_of(claim).get(MATCH_ATTRIBUTE)
    if not text:
        return ()
    names = tuple(dict.fromkeys(part.strip() for part in str(text).split(",") if part.strip()))
    for name in names:
        domain, slash, attribute = name.partition("/")
        if not slash or not attribute or not is_subdomain(domain):
            raise AllocationError(
                f"claim {'/'.join(key_of(claim))}: annotation {MATCH_ATTRIBUTE}: {name!r} is no attribute with its "
                "domain; write it as resource.kubernetes.io/numaNode"
            )
    return names


def is_aligned(claim: Object) -> bool:
    return MATCH_ATTRIBUTE in annotations_of(claim)


def compile_alignment(
    claims: Sequence[Object],
    beside: Sequence[Object],
    choices: Sequence[Choice],
    view: View,
    inventory: Inventory,
) -> Iterator[tuple[int, Constraint]]:
    """Constraints over the requests of several claims, each with the number of the first of them.

    `beside` are claims of the same pods that have devices already.
    """
    for attribute, members in _groups(claims).items():
        for owner, numbers in members.items():
            constraint = Constraint(-1, attribute, distinct=False, view=view, inventory=inventory)
            for choice in choices:
                for option in choice.options if choice.claim in numbers else ():
                    constraint.cover(option)
            _hold(constraint, attribute, owner, beside, view)
            yield min(numbers), constraint


def _groups(claims: Sequence[Object]) -> dict[str, dict[str, set[int]]]:
    """Numbers of claims by attribute and pod. Where all are of one pod, those that were not made for it are too."""
    found: dict[str, dict[str, set[int]]] = {}
    for number, claim in enumerate(claims):
        for attribute in matched_attributes(claim):
            found.setdefault(attribute, {}).setdefault(controller_uid(claim) or "", set()).add(number)
    for members in found.values():
        owners = [owner for owner in members if owner]
        if len(owners) == 1 and "" in members:
            members[owners[0]] |= members.pop("")
    return found


def _hold(constraint: Constraint, attribute: str, owner: str, beside: Sequence[Object], view: View) -> None:
    """Adds the devices that the pod's other claims already have as first members."""
    ranks: dict[tuple[str, str, str], int] | None = None
    for claim in beside:
        if attribute not in matched_attributes(claim) or (controller_uid(claim) or owner) != owner:
            continue
        ranks = ranks or {device.id: rank for rank, device in enumerate(view.devices)}
        for result in results_of(claim):
            rank = ranks.get((result["driver"], result["pool"], result["device"]))
            values = NO_VALUE if rank is None else view.index(attribute).values.get(rank, NO_VALUE)
            constraint.hold(values)
