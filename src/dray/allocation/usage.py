"""What allocated claims hold: devices exclusively, shares of devices, and how much of their capacity.

Kept by device id, whether or not the device is published at the moment, and changed one claim at a time. Results
with admin access hold nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from dray.allocation.devices import DeviceID, quantity
from dray.api.objects import Object, mapping
from dray.api.quantity import Quantity

ClaimKey = tuple[str, str]
"""(namespace, name) of a claim."""


def claim_key(claim: Object) -> ClaimKey:
    metadata = claim["metadata"]
    return metadata.get("namespace") or "", metadata.get("name") or ""


def device_of(result: Object) -> DeviceID:
    return result["driver"], result["pool"], result["device"]


@dataclass(frozen=True, slots=True)
class Share:
    owner: ClaimKey
    consumed: dict[str, Quantity]


@dataclass(slots=True)
class DeviceUsage:
    owners: list[ClaimKey] = field(default_factory=list)
    """Claims that hold the device exclusively."""
    shares: dict[str, Share] = field(default_factory=dict)
    consumed: dict[str, Quantity] = field(default_factory=dict)
    """The sum of all shares."""

    def claims(self) -> Iterator[ClaimKey]:
        yield from self.owners
        yield from (share.owner for share in self.shares.values())

    def sum_up(self) -> None:
        self.consumed = {}
        for share in self.shares.values():
            for name, amount in share.consumed.items():
                known = self.consumed.get(name)
                self.consumed[name] = amount if known is None else known + amount


class Usage:
    """The holdings of all allocated claims. `shares` off: a share counts as the whole device."""

    def __init__(self, *, shares: bool = True) -> None:
        self._shares = shares
        self.revision = 0
        """Changes with every claim."""
        self.devices: dict[DeviceID, DeviceUsage] = {}
        self.claims: dict[ClaimKey, list[Object]] = {}

    def hold(self, claim: ClaimKey, results: list[Object]) -> list[DeviceID]:
        """Records what the claim holds now. Returns the changed devices; changes nothing if the results are invalid."""
        held = [(result, device_of(result), self._share(claim, result)) for result in results]
        changed = self.release(claim)
        self.claims[claim] = results
        for result, device, share in held:
            if result.get("adminAccess"):
                continue
            usage = self.devices.get(device)
            if usage is None:
                usage = self.devices[device] = DeviceUsage()
            if share is not None:
                usage.shares[result["shareID"]] = share
                usage.sum_up()
            else:
                usage.owners.append(claim)
            changed.append(device)
        return changed

    def _share(self, claim: ClaimKey, result: Object) -> Share | None:
        """Returns the share of a result; None if the claim holds the whole device."""
        if not self._shares or not result.get("shareID"):
            return None
        amounts = mapping(result.get("consumedCapacity"))
        return Share(claim, {name: quantity(amount) for name, amount in amounts.items()})

    def release(self, claim: ClaimKey) -> list[DeviceID]:
        """Releases what the claim holds. Returns the devices that changed."""
        self.revision += 1
        changed = []
        for result in self.claims.pop(claim, ()):
            device = device_of(result)
            usage = self.devices.get(device)
            if usage is None or result.get("adminAccess"):
                continue
            share = result.get("shareID")
            if share and self._shares:
                usage.shares.pop(share, None)
                usage.sum_up()
            elif claim in usage.owners:
                usage.owners.remove(claim)
            if not usage.owners and not usage.shares:
                del self.devices[device]
            changed.append(device)
        return changed
