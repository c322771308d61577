"""Explanation: the answer of `dray explain`, with a conclusion, trees of reasons, and data for `-o json`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from dray.allocation import Allocation, Inventory, Rejection
from dray.allocation import reasons as r
from dray.allocation.devices import DeviceID
from dray.allocation.encounters import encounters
from dray.allocation.text import Tree, lines
from dray.allocation.wording import cause_text, conflict_text, key_text
from dray.answers.one_line import one_line
from dray.api.objects import Key, Object


@dataclass(slots=True)
class Explanation:
    kind: str
    namespace: str
    name: str
    outcome: str
    good: bool
    conclusion: str = ""
    """The reason for the outcome, in one line; empty if it needs none."""
    remedy: str = ""
    """The advice about the conclusion; empty if the conclusion has it already."""
    trees: list[Tree] = field(default_factory=list)
    data: Callable[[], Object] = dict
    """Returns further fields of `document`; called only when the document is read."""
    notes: list[str] = field(default_factory=list)
    """Objects and plugins that were left out, and why they cannot be used."""
    awaits_claims: bool = False
    """True if the pod waits for claims that are made from templates."""

    @property
    def headline(self) -> str:
        """The target, its outcome, the conclusion and the remedy, in one line."""
        why = f"{'; ' if ';' in self.outcome else ': '}{self.conclusion}" if self.conclusion else ""
        headline = f"{self.kind} {self.namespace}/{self.name}: {self.outcome}{why}"
        return f"{headline.removesuffix('.')}; {self.remedy}" if self.remedy else headline

    @property
    def fits(self) -> bool:
        """True if the target has what it needs, or could get it."""
        return self.good

    @property
    def text(self) -> str:
        """The headline and the reasons below it, as `dray explain` prints them."""
        return "".join(f"{one_line(line)}\n" for line in lines(Tree(self.headline, self.trees)))

    @property
    def document(self) -> Object:
        """The document that `dray explain -o json` prints."""
        return {
            "kind": self.kind,
            "namespace": self.namespace,
            "name": self.name,
            "fits": self.good,
            "outcome": self.outcome,
            "conclusion": self.conclusion,
            **self.data(),
        }


def allocation_row(allocation: Allocation) -> Object:
    claims = claim_rows(zip(allocation.claims, allocation.results, strict=True))
    return {"node": allocation.node, "fits": True, "claims": claims}


def claim_rows(allocations: Iterable[tuple[Key, Object]]) -> list[Object]:
    return [{"namespace": key[0], "name": key[1], "allocation": result} for key, result in allocations]


def rejection_row(rejection: Rejection, inventory: Inventory) -> Object:
    return {
        "node": rejection.node,
        "fits": False,
        "kind": rejection.kind.value,
        "message": rejection.message,
        "requests": [_request_row(request, inventory) for request in rejection.requests],
        "conflicts": [{**_members(conflict), "message": conflict_text(conflict)} for conflict in rejection.conflicts],
        "pools": [_members(pool) for pool in rejection.pools],
        "toFree": [key_text(key) for key in rejection.to_free or ()],
    }


def _request_row(reasons: r.RequestReasons, inventory: Inventory) -> Object:
    return {
        "claim": key_text(reasons.claim),
        "request": reasons.request,
        "need": reasons.need,
        "all": reasons.every,
        "available": _devices(reasons.available),
        "unavailable": [_fallen_row(fallen, inventory) for fallen in reversed(reasons.fallen)],
    }


def _fallen_row(fallen: r.Fallen, inventory: Inventory) -> Object:
    row = {**_members(fallen.cause), "message": cause_text(fallen.cause), "devices": _devices(fallen.devices)}
    if isinstance(fallen.cause, r.NotSelected):
        row["met"] = {}
        for encounter in encounters(inventory, fallen.cause.expression, fallen.devices):
            row["met"][encounter.name] = [{"value": value, "devices": number} for value, number in encounter.values]
    return row


def _devices(devices: Sequence[DeviceID]) -> list[str]:
    return ["/".join(device) for device in devices]


def _members(value: Any) -> Object:
    """Returns the fields of a reason, with the name of its type as `reason`."""
    members = {_camel(member.name): _plain(getattr(value, member.name)) for member in fields(value)}
    return {"reason": type(value).__name__, **members}


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.title() for part in rest)
