"""Device status: what a driver says about allocated devices in the claim's `status.devices`.

It is written by server-side apply, with a field manager for this driver on this node, so that drivers of a shared
claim leave each other's entries alone. A failure is logged: containers need not wait for it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from dray.api.objects import Object, mapping, mappings
from dray.api.resource_claims import allocation_of
from dray.client.api import ApiClient
from dray.client.errors import ClientError
from dray.client.interface import WriteOptions
from dray.driver.claim_lookup import RESOURCE_CLAIMS
from dray.driver.claims import AllocatedDevice, Claim, ClaimReference, allocated_devices
from dray.driver.metrics import DriverMetrics
from dray.driver.prepared import DeviceStatus, Prepared

_logger = logging.getLogger(__name__)
# What the API allows.
_LONGEST_MANAGER = 128


class DeviceStatuses:
    def __init__(self, client: ApiClient, driver: str, node_name: str, metrics: DriverMetrics) -> None:
        self._client = client
        self._driver = driver
        self._options = WriteOptions(f"{driver}/{node_name}"[:_LONGEST_MANAGER], force=True)
        self._metrics = metrics

    async def apply_prepared(self, claim: Claim, prepared: Prepared) -> None:
        given = {device.device: device.status for device in prepared.devices if device.status is not None}
        if not given:
            return
        try:
            await self.apply(claim.reference, given)
        except ClientError as error:
            self._metrics.failed("device status")
            _logger.warning("the status of devices of claim %s cannot be written: %s", claim.reference, error)

    async def apply(self, reference: ClaimReference, statuses: Mapping[AllocatedDevice, DeviceStatus]) -> None:
        """Replaces what this driver wrote about devices of the claim."""
        # A device that serves two requests has one entry.
        entries = {
            (each.pool, each.device, each.share_id): self._entry(each, status) for each, status in statuses.items()
        }
        await self.apply_entries(reference, list(entries.values()))

    async def apply_entries(self, reference: ClaimReference, entries: Sequence[Object]) -> None:
        """Replaces the entries of this driver in `status.devices` of the claim."""
        body = {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            # With the uid a claim that took the place of this one is not touched.
            "metadata": {"namespace": reference.namespace, "name": reference.name, "uid": reference.uid},
            "status": {"devices": list(entries)},
        }
        await self._client.apply(RESOURCE_CLAIMS, body, subresource="status", options=self._options)

    def entries(self, claim: Object) -> list[tuple[tuple[str, str], Object]]:
        """Returns pool and name of each device of this driver in the claim, with its entry as it is now."""
        allocated = allocated_devices(allocation_of(claim) or {}, self._driver, ())
        made = {
            (device.pool, device.device, device.share_id): self._entry(device, DeviceStatus()) for device in allocated
        }
        for entry in mappings(mapping(claim.get("status")).get("devices")):
            place = entry.get("pool"), entry.get("device"), entry.get("shareID") or ""
            if entry.get("driver") == self._driver and place in made:
                made[place] = entry
        return [((pool, device), entry) for (pool, device, _), entry in made.items()]

    def _entry(self, device: AllocatedDevice, status: DeviceStatus) -> Object:
        share = {"shareID": device.share_id} if device.share_id else {}
        place = {"driver": self._driver, "pool": device.pool, "device": device.device, **share}
        return {**place, **status.document()}
