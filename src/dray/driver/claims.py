"""Claims as a driver sees them: the devices allocated from this driver, with their configuration.

`Claim` is what `prepare` gets, read from the API server. `PreparedClaim` is what `unprepare` gets, read from the
record that was written at prepare: by then the claim may be gone from the API server.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from dray.api.objects import Object, mapping
from dray.driver.configs import Config, ConfigEntry

C = TypeVar("C", bound=Config)


@dataclass(frozen=True, slots=True)
class AllocatedDevice:
    """One result of the claim's allocation.

    `request` is as allocated, `gpu` or `gpu/large` for an alternative. With `admin_access` the device may be in use
    by others, and nothing about it may be changed. `share_id` tells apart the shares of a device with consumable
    capacity; `consumed_capacity` is the share's size.
    """

    pool: str
    device: str
    request: str
    share_id: str = ""
    admin_access: bool = False
    consumed_capacity: Mapping[str, str] = field(default_factory=dict, compare=False)
    configs: Sequence[Config] = field(default=(), compare=False)
    """Configurations of the device, in order of increasing priority."""
    named_configs: Sequence[Config] = field(default=(), compare=False)
    """Configurations whose entries name the request; the others are for all requests."""

    @property
    def base_request(self) -> str:
        """The name by which containers refer to the request."""
        return self.request.partition("/")[0]

    @property
    def is_exclusive(self) -> bool:
        return not (self.admin_access or self.share_id)

    def config(self, type_: type[C]) -> C | None:
        """Returns the effective configuration of this type; None if neither class nor claim has one."""
        return next((config for config in reversed(self.configs) if isinstance(config, type_)), None)


@dataclass(frozen=True, slots=True)
class ClaimReference:
    namespace: str
    name: str
    uid: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name} ({self.uid})"


@dataclass(frozen=True, slots=True)
class PreparedClaim:
    """The record of a claim whose prepare was begun at least.

    `state` is what `prepare` returned or recorded last; None where it came to neither. `is_complete` is false if
    prepare did not end: it failed, the process died in it, or the machine was started anew since.
    """

    reference: ClaimReference
    devices: tuple[AllocatedDevice, ...]
    state: Any = None
    is_complete: bool = False


@dataclass(frozen=True, slots=True)
class RecordedClaims:
    """Every claim of a driver that has a record; `unreadable` are the uids of damaged records."""

    claims: tuple[PreparedClaim, ...] = ()
    unreadable: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Claim:
    """An allocated claim; `document` is the whole ResourceClaim, `devices` are those of this driver.

    `previous` is the record of an earlier prepare of the same claim, if there was one. `record(state)` saves a state
    on disk at once, for `unprepare` to find even if the process dies before prepare ends: call it before an act that
    cannot be undone from the names of the devices alone.
    """

    reference: ClaimReference
    devices: tuple[AllocatedDevice, ...]
    document: Object
    previous: PreparedClaim | None
    record: Callable[[Any], Awaitable[None]]

    @property
    def uid(self) -> str:
        return self.reference.uid


def allocated_devices(
    allocation: Mapping[str, Any], driver: str, entries: Sequence[ConfigEntry]
) -> tuple[AllocatedDevice, ...]:
    """Returns this driver's results of the claim."""
    results = mapping(allocation.get("devices")).get("results") or ()
    return tuple(
        AllocatedDevice(
            pool=result["pool"],
            device=result["device"],
            request=result["request"],
            share_id=result.get("shareID") or "",
            admin_access=bool(result.get("adminAccess")),
            consumed_capacity=mapping(result.get("consumedCapacity")),
            configs=tuple(entry.config for entry in entries if entry.applies_to(result["request"])),
            named_configs=tuple(
                entry.config for entry in entries if entry.requests and entry.applies_to(result["request"])
            ),
        )
        for result in results
        if result["driver"] == driver
    )
