"""Which devices a class and a CEL selector select, and why not the others.

Every device that is not selected falls to the first condition that it does not meet: one of the class, or one of those
that `&&` joins in the selector. Devices that fall to the same condition are one group, with the values that the
condition met there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from dray.allocation import Inventory, Work, WorkExhausted
from dray.allocation.devices import Device
from dray.allocation.encounters import encounters
from dray.allocation.wording import met_text
from dray.api.objects import Object, mapping, mappings, spec_of
from dray.cel import COST_LIMIT, CompileError, compile_selector
from dray.cel.lexer import conditions

WORK: Final = 1_500_000
"""About two seconds of one core."""
_EXAMPLES: Final = 3


@dataclass(slots=True)
class Matches:
    total: int
    selected: list[str] = field(default_factory=list)
    others: list[Object] = field(default_factory=list)
    """Groups of devices that are not selected: condition, reason, count and examples."""
    problem: Object = field(default_factory=dict)
    """Why the selector does not compile: text, line, column, and the line with a caret."""
    cost: int = 0
    complete: bool = True

    def document(self) -> Object:
        return {
            "total": self.total,
            "count": len(self.selected),
            "others": self.others,
            "problem": self.problem,
            "cost": self.cost,
            "costLimit": COST_LIMIT,
            "complete": self.complete,
        }


def key(device: Device) -> str:
    return "/".join(device.id)


def find_matches(inventory: Inventory, class_name: str, selector: str, work: Work) -> Matches:
    """The devices of the newest slices that class and selector select; either may be empty."""
    devices = [device for slice_ in inventory.newest_slices() for device in slice_.devices]
    found = Matches(len(devices))
    if selector:
        try:
            found.cost = compile_selector(selector).estimated_cost
        except CompileError as error:
            found.problem = {
                "text": error.message,
                "line": error.line,
                "column": error.column,
                "excerpt": error.excerpt() if error.text else "",
            }
            return found
    try:
        with inventory.selectors.charging(work):
            left = _narrow(inventory, _expressions(inventory, class_name), devices, found, f"class {class_name}")
            left = _narrow(inventory, [selector] if selector else [], left, found, "")
        found.selected = [key(device) for device in left]
    except WorkExhausted:
        found.complete = False
    return found


def _expressions(inventory: Inventory, class_name: str) -> list[str]:
    spec = spec_of(inventory.classes.get(class_name) or {})
    return [str(mapping(each.get("cel")).get("expression", "")) for each in mappings(spec.get("selectors"))]


def _narrow(
    inventory: Inventory, expressions: Sequence[str], devices: list[Device], found: Matches, source: str
) -> list[Device]:
    """Returns the devices that all expressions select; the others are added to `found`."""
    left = devices
    for expression in expressions:
        column = inventory.selectors.column(expression, left)
        failing: dict[str, list[Device]] = {}
        refused = []
        for place, device in enumerate(left):
            if place in column.faults:
                failing.setdefault(column.faults[place], []).append(device)
            elif not column.selected >> place & 1:
                refused.append(device)
        left = [device for place, device in enumerate(left) if column.selected >> place & 1]
        for text, group in failing.items():
            found.others.append(_group(source or expression, text, group, error=True))
        found.others += _refused(inventory, expression, refused, source)
    return left


def _refused(inventory: Inventory, expression: str, devices: list[Device], source: str) -> list[Object]:
    """Groups by the first condition that is not met."""
    made, left = [], devices
    for condition in conditions(expression):
        column = inventory.selectors.column(condition, left)
        group = [device for place, device in enumerate(left) if not column.selected >> place & 1]
        left = [device for place, device in enumerate(left) if column.selected >> place & 1]
        if group:
            met = met_text(encounters(inventory, condition, [device.id for device in group]))
            made.append(_group(source or condition, met or "the condition is false", group, error=False))
    return made


def _group(condition: str, reason: str, devices: list[Device], *, error: bool) -> Object:
    return {
        "condition": condition,
        "reason": reason,
        "count": len(devices),
        "examples": [key(device) for device in devices[:_EXAMPLES]],
        "error": error,
    }
