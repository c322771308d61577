"""An explanation: the result of `dray explain` for all outputs, with a conclusion, trees behind it, and data."""

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
    """Why, in one line."""
    remedy: str = ""
    """What to do about it, if the conclusion does not say so."""
    trees: list[Tree] = field(default_factory=list)
    data: Callable[[], Object] = dict
    """What there is besides for programs, worked out when it is wanted."""
    notes: list[str] = field(default_factory=list)
    """What was left out: objects and plugins that cannot be used."""
    unmade: bool = False
    """Whether it waits for claims that are to be made from templates."""

    @property
    def headline(self) -> str:
        why = f"{'; ' if ';' in self.outcome else ': '}{self.conclusion}" if self.conclusion else ""
        headline = f"{self.kind} {self.namespace}/{self.name}: {self.outcome}{why}"
        return f"{headline.removesuffix('.')}; {self.remedy}" if self.remedy else headline

    @property
    def fits(self) -> bool:
        """Whether it has what it needs, or could have it."""
        return self.good

    @property
    def text(self) -> str:
        """The headline and the reasons below it, as `dray explain` prints them."""
        return "".join(f"{one_line(line)}\n" for line in lines(Tree(self.headline, self.trees)))

    @property
    def document(self) -> Object:
        """What `dray explain -o json` prints."""
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
        "requests": [_request_row(each, inventory) for each in rejection.requests],
        "conflicts": [{**_members(each), "message": conflict_text(each)} for each in rejection.conflicts],
        "pools": [_members(each) for each in rejection.pools],
        "toFree": [key_text(each) for each in rejection.to_free or ()],
    }


def _request_row(reasons: r.RequestReasons, inventory: Inventory) -> Object:
    return {
        "claim": key_text(reasons.claim),
        "request": reasons.request,
        "need": reasons.need,
        "all": reasons.every,
        "available": _devices(reasons.available),
        "unavailable": [_fallen_row(each, inventory) for each in reversed(reasons.fallen)],
    }


def _fallen_row(fallen: r.Fallen, inventory: Inventory) -> Object:
    row = {**_members(fallen.cause), "message": cause_text(fallen.cause), "devices": _devices(fallen.devices)}
    if isinstance(fallen.cause, r.NotSelected):
        met = encounters(inventory, fallen.cause.expression, fallen.devices)
        row["met"] = {each.name: [{"value": value, "devices": n} for value, n in each.values] for each in met}
    return row


def _devices(devices: Sequence[DeviceID]) -> list[str]:
    return ["/".join(each) for each in devices]


def _members(value: Any) -> Object:
    """A reason by the name of its type, with what it holds."""
    members = {_camel(each.name): _plain(getattr(value, each.name)) for each in fields(value)}
    return {"reason": type(value).__name__, **members}


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    return value


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.title() for part in rest)
