"""What claims ask for, made ready for the search of one node: candidates as bitsets, faults kept for later.

A `Request` is one way to serve a DeviceRequest: the request itself, or one of its `firstAvailable` alternatives. What
can be decided from request and device alone is decided here; what depends on other picks is left to the search.
Faults (an expression that fails on a device) are not raised here: Kubernetes raises one only when its search gets to
the device.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from dray.allocation import capacity
from dray.allocation.alignment import compile_alignment, is_aligned
from dray.allocation.capacity import Amounts, CapacityError
from dray.allocation.constraints import Constraint, compile_constraints
from dray.allocation.devices import quantity
from dray.allocation.inventory import Inventory
from dray.allocation.pools import PoolState
from dray.allocation.views import View
from dray.allocation.work import AllocationError
from dray.api.objects import Object, mapping, spec_of, walk
from dray.api.resource_claims import MAX_DEVICES


@dataclass(eq=False, slots=True)
class Request:
    """A request, or one alternative of it, compiled for one node."""

    name: str
    """The name in the allocation result: `request` or `request/alternative`."""
    parent: str
    spec: Object
    device_class: Object
    admin: bool
    need: int
    listed: list[int] | None
    """The devices to take, in order, if the allocation mode is All; else None."""
    selectable: int = 0
    """Devices that pass class, selectors and node selection."""
    candidates: int = 0
    """Selectable devices that only other claims and other picks can rule out."""
    faults: dict[int, str] = field(default_factory=dict)
    amounts: dict[int, Amounts] = field(default_factory=dict)
    """Capacity that a pick consumes, by rank, for devices with consumable capacity."""
    constraints: list[Constraint] = field(default_factory=list)

    @property
    def tolerations(self) -> list[Object]:
        return self.spec.get("tolerations") or []


@dataclass(eq=False, slots=True)
class Choice:
    """A request of a claim with its alternatives, in order of preference."""

    claim: int
    spec: Object
    options: list[Request]
    first: bool
    """Whether it is the first of its claim."""
    number: int = 0
    """Index among the choices of all claims."""


@dataclass(eq=False, slots=True)
class Task:
    """The claims of one allocation attempt, compiled for one node."""

    view: View
    claims: Sequence[Object]
    choices: list[Choice]
    constraints: list[list[Constraint]]
    """Constraints by claim index."""
    held: int
    shared: int


def compile_task(inventory: Inventory, view: View, claims: Sequence[Object], beside: Sequence[Object] = ()) -> Task:
    """Checks the claims and finds the candidates of each request; raises AllocationError.

    `beside` are claims of the same pods that have devices already, for those that are aligned with them.
    """
    task = Task(view, claims, [], [], view.held, view.shared)
    for number, claim in enumerate(claims):
        choices = [
            Choice(number, request, _options(inventory, view, claim, request), position == 0)
            for position, request in enumerate(claim["spec"].get("devices", {}).get("requests") or ())
        ]
        least = sum(min(option.need for option in choice.options) for choice in choices)
        if least > MAX_DEVICES:
            raise AllocationError(
                f"claim {title(claim)}: number of requested devices {least} exceeds the claim limit of {MAX_DEVICES}"
            )
        task.constraints.append(compile_constraints(claim, choices, view, inventory))
        for choice in choices:
            choice.number = len(task.choices)
            task.choices.append(choice)
    if any(map(is_aligned, claims)):
        for number, constraint in compile_alignment(claims, beside, task.choices, view, inventory):
            task.constraints[number].append(constraint)
    return task


def title(claim: Object) -> str:
    metadata = claim["metadata"]
    return f"{metadata.get('namespace') or ''}/{metadata.get('name') or ''}"


def _options(inventory: Inventory, view: View, claim: Object, request: Object) -> list[Request]:
    name = request["name"]
    exactly = request.get("exactly")
    if exactly is not None:
        return [_request(inventory, view, claim, name, name, exactly)]
    alternatives = request.get("firstAvailable") or ()
    if not alternatives:
        raise AllocationError(f"claim {title(claim)}, request {name}: empty request (unsupported request type?)")
    return [
        _request(inventory, view, claim, f"{name}/{alternative['name']}", name, alternative)
        for alternative in alternatives
    ]


def _request(inventory: Inventory, view: View, claim: Object, name: str, parent: str, spec: Object) -> Request:
    where = f"claim {title(claim)}, request {parent}"
    _check(inventory, where, spec)
    class_name = spec.get("deviceClassName")
    device_class = inventory.classes.get(class_name or "")
    if device_class is None:
        reason = f"could not retrieve device class {class_name}" if class_name else "missing device class name"
        raise AllocationError(f"{where}: {reason}")
    mode = spec.get("allocationMode") or "ExactCount"
    if mode not in ("ExactCount", "All"):
        raise AllocationError(f"{where}: unsupported count mode {mode}")
    request = Request(name, parent, spec, device_class, bool(spec.get("adminAccess")), spec.get("count") or 1, None)
    _select(inventory, view, claim, request)
    if inventory.gates["DRAConsumableCapacity"]:
        _weigh(inventory, view, where, request)
    if mode == "All":
        _list(view, where, request)
    request.candidates = request.selectable & view.operable & view.tolerated(request.tolerations)
    if not inventory.gates["DRAPartitionableDevices"]:
        request.candidates &= ~sum(1 << rank for rank, device in enumerate(view.devices) if device.consumes)
    return request


def _check(inventory: Inventory, where: str, spec: Object) -> None:
    gates = inventory.gates
    if mapping(spec.get("capacity")).get("requests") and not gates["DRAConsumableCapacity"]:
        raise AllocationError(f"{where}: has capacity requests, but the DRAConsumableCapacity feature is disabled")
    if spec.get("derivedAttributes") and not gates["DRADerivedAttributes"]:
        raise AllocationError(f"{where}: cannot handle request with derived attributes, the feature is disabled")
    for number, selector in enumerate(spec.get("selectors") or ()):
        if not selector.get("cel"):
            raise AllocationError(f"{where}: selector {number + 1}: CEL expression empty (unsupported selector type?)")


def _select(inventory: Inventory, view: View, claim: Object, request: Request) -> None:
    """Applies the selectors in order; records devices on which one fails as faults."""
    left = view.every
    class_name = request.device_class["metadata"]["name"]
    sources = (
        (f"class {class_name}", spec_of(request.device_class).get("selectors") or ()),
        (f"claim {title(claim)}", request.spec.get("selectors") or ()),
    )
    for source, selectors in sources:
        for number, selector in enumerate(selectors):
            column = view.column(selector["cel"]["expression"], inventory.selectors)
            if column.faults:
                for rank, fault in column.faults.items():
                    if left >> rank & 1:
                        device = "/".join(view.devices[rank].id)
                        request.faults[rank] = f"{source}: selector {number + 1} on device {device}: {fault}"
            left &= column.selected
    left &= view.here
    if not inventory.gates["DRADeviceBindingConditions"]:
        for rank in view.ranks(left):
            if view.devices[rank].spec.get("bindingConditions"):
                left &= ~(1 << rank)
    request.selectable = left


def _weigh(inventory: Inventory, view: View, where: str, request: Request) -> None:
    """Drops devices whose capacity can never serve the request, and records the consumption of the others."""
    asked = walk(request.spec, "capacity", "requests")
    metered = view.shareable | view.shared
    relevant = request.selectable if asked else request.selectable & metered
    if not relevant:
        return
    wanted = {name: quantity(amount) for name, amount in asked.items()}
    fractional = inventory.gates["DRAFractionalCapacityRange"]
    for rank in view.ranks(relevant):
        device = view.devices[rank]
        try:
            amounts = capacity.consumption(device, wanted, fractional=fractional)
        except CapacityError as error:
            request.faults[rank] = f"{where}: checking capacity for device {'/'.join(device.id)}: {error}"
            amounts = None
        if amounts is None:
            request.selectable &= ~(1 << rank)
        elif amounts and metered >> rank & 1:
            request.amounts[rank] = amounts


def _list(view: View, where: str, request: Request) -> None:
    """Allocation mode All: lists every selectable device. Raises AllocationError for faults and incomplete pools."""
    for pool in view.pools:
        if pool.state is not PoolState.COMPLETE:
            state = "being updated" if pool.state is PoolState.INCOMPLETE else "invalid"
            raise AllocationError(f"{where}: asks for all devices, but resource pool {pool.title} is currently {state}")
    if request.faults:
        raise AllocationError(request.faults[min(request.faults)])
    request.listed = view.ranks(request.selectable)
    request.need = len(request.listed)
