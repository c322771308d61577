"""Why claims were not allocated, as values. `text` renders them.

A `Cause` says why one device cannot serve one request; devices that fall to an equal cause are counted together, in
the order in which the checks are made. A `Conflict` says why requests that could each be served cannot be served
together.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from dray.allocation.devices import DeviceID
from dray.allocation.usage import ClaimKey


class RejectionKind(Enum):
    NO_SOLUTION = "no solution"
    INVALID_POOLS = "invalid pools"
    """No solution was found, but an inconsistent pool might have offered one."""
    FAULT = "fault"
    """The claims cannot be judged: an expression failed or a class is missing. Other nodes give the same answer."""
    UNDECIDED = "undecided"
    """The search gave up: it is unknown whether there is a solution."""


@dataclass(frozen=True)
class Cause:
    """Base of all causes."""


@dataclass(frozen=True)
class NotSelected(Cause):
    source: str
    """`class NAME` or `request`."""
    number: int
    expression: str


@dataclass(frozen=True)
class SelectorFault(Cause):
    text: str


@dataclass(frozen=True)
class OtherNode(Cause):
    """The slice selects nodes per device, and the device is for another node."""


@dataclass(frozen=True)
class ConditionsOff(Cause):
    """The device has binding conditions, and the feature gate is off."""


@dataclass(frozen=True)
class CapacityAbsent(Cause):
    name: str


@dataclass(frozen=True)
class CapacityTooSmall(Cause):
    name: str
    wanted: str
    value: str


@dataclass(frozen=True)
class InUse(Cause):
    owners: tuple[ClaimKey, ...]


@dataclass(frozen=True)
class CapacityUsed(Cause):
    name: str
    wanted: str
    left: str
    owners: tuple[ClaimKey, ...]


@dataclass(frozen=True)
class OperationsNotSkippable(Cause):
    """The slice skips node operations that the node does not know."""


@dataclass(frozen=True)
class GroupsIncompatible(Cause):
    counter_set: str
    groups: tuple[str, ...]


@dataclass(frozen=True)
class CounterShort(Cause):
    counter_set: str
    counter: str
    wanted: str
    left: str


@dataclass(frozen=True)
class Tainted(Cause):
    key: str
    value: str
    effect: str
    rule: str = ""
    """Name of the DeviceTaintRule; "" if the driver set the taint."""


@dataclass(frozen=True)
class AttributeAbsent(Cause):
    attribute: str


@dataclass(frozen=True)
class Fallen:
    """Devices that were ruled out by one cause."""

    cause: Cause
    devices: tuple[DeviceID, ...]


@dataclass(frozen=True)
class NearestMiss:
    """The device that passed the most checks, and what ruled it out."""

    device: DeviceID
    cause: Cause


@dataclass(frozen=True)
class RequestReasons:
    """Reasons for one alternative of a request: devices it needs and has, and why others are ruled out."""

    claim: ClaimKey
    request: str
    need: int
    every: bool
    """Whether it wants all devices rather than a number of them."""
    available: tuple[DeviceID, ...]
    fallen: tuple[Fallen, ...]
    nearest: NearestMiss | None
    device_class: str = ""
    driver: str = ""
    """The driver that the selectors demand; empty if any driver could do."""
    driver_absent: bool = False
    """Whether no ResourceSlice of that driver exists."""

    @property
    def suffices(self) -> bool:
        if self.every:
            return 0 < self.need == len(self.available)
        return len(self.available) >= self.need


@dataclass(frozen=True)
class PoolReason:
    pool: str
    state: str
    problem: str


@dataclass(frozen=True)
class Conflict:
    """Base of all conflicts."""


@dataclass(frozen=True)
class TooFewTogether(Conflict):
    """Requests need more devices together than there are for them."""

    requests: tuple[str, ...]
    need: int
    devices: int


@dataclass(frozen=True)
class NoCommonValue(Conflict):
    """No value of the attribute is shared by enough devices."""

    claim: ClaimKey
    attribute: str
    requests: tuple[str, ...]
    need: int
    values: tuple[tuple[str, int], ...]
    """Values with their number of devices, most frequent first."""


@dataclass(frozen=True)
class TooFewValues(Conflict):
    """The attribute has fewer distinct values than devices are needed."""

    claim: ClaimKey
    attribute: str
    requests: tuple[str, ...]
    need: int
    values: tuple[str, ...]


@dataclass(frozen=True)
class CountersShort(Conflict):
    """The requests together draw more from a pool's counters than is left."""

    requests: tuple[str, ...]
    counters: tuple[str, ...] = ()
    """The counters as SET/COUNTER; none where no single sum tells, only that the sets cannot carry so many."""
    wanted: str = ""
    left: str = ""


@dataclass(frozen=True)
class CapacityShort(Conflict):
    """The requests together consume more of the shared devices than is left."""

    requests: tuple[str, ...]


@dataclass(frozen=True)
class TooManyDevices(Conflict):
    claim: ClaimKey
    limit: int


@dataclass(frozen=True)
class Entangled(Conflict):
    """Every request could be served alone, but no choice serves all of them."""

    requests: tuple[str, ...]


@dataclass(frozen=True)
class Rejection:
    """The reason why there is no allocation. Details are empty if they were not asked for."""

    kind: RejectionKind
    node: str
    message: str = ""
    work: int = field(default=0, compare=False)
    """Units of work that the attempt spent."""
    requests: tuple[RequestReasons, ...] = ()
    conflicts: tuple[Conflict, ...] = ()
    pools: tuple[PoolReason, ...] = ()
    """Pools that could not be used."""
    to_free: tuple[ClaimKey, ...] | None = None
    """Claims whose release would make room; None where no release would, or where it was not asked."""
