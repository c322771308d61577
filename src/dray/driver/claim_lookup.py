"""Claim look-up: from the reference that the kubelet sends to the allocated claim on the API server.

The kubelet sends names, not allocations. A claim of the same name with another uid is another claim.
"""

from __future__ import annotations

from typing import Final

from dray.api.catalogue import built_in
from dray.api.objects import Object, uid_of
from dray.api.resource_claims import allocation_of
from dray.client.api import ApiClient
from dray.client.errors import ClientError, NotFound
from dray.driver.claims import AllocatedDevice, ClaimReference, allocated_devices
from dray.driver.configs import decode_entries
from dray.driver.driver import Driver
from dray.driver.errors import ClaimFailed

RESOURCE_CLAIMS: Final = built_in("resource.k8s.io/v1", "ResourceClaim")


async def look_up(client: ApiClient, reference: ClaimReference) -> Object:
    """Returns the claim as it is now. Raises ClaimFailed if it is not allocated or was replaced."""
    try:
        claim = await client.get(RESOURCE_CLAIMS, reference.name, namespace=reference.namespace)
    except NotFound as error:
        raise ClaimFailed(f"claim {reference} does not exist") from error
    except ClientError as error:
        raise ClaimFailed(f"claim {reference} cannot be read: {error}") from error
    if uid_of(claim) != reference.uid:
        raise ClaimFailed(f"claim {reference} got replaced: the one of that name has uid {uid_of(claim)}")
    if allocation_of(claim) is None:
        raise ClaimFailed(f"claim {reference} is not allocated")
    return claim


def devices_for(driver: Driver, reference: ClaimReference, claim: Object) -> tuple[AllocatedDevice, ...]:
    """Returns the claim's devices of this driver, with decoded and validated configuration."""
    allocation = allocation_of(claim) or {}
    devices = allocated_devices(allocation, driver.name, decode_entries(allocation, driver.name, driver.configs))
    if not devices:
        raise ClaimFailed(f"claim {reference} has no devices of driver {driver.name}")
    return devices


async def still_holds(client: ApiClient, driver: str, reference: ClaimReference, device: tuple[str, str]) -> bool:
    """Whether the claim exists and the device is allocated to it; an API server that cannot say counts as yes."""
    try:
        claim = await client.get(RESOURCE_CLAIMS, reference.name, namespace=reference.namespace)
    except NotFound:
        return False
    except ClientError:
        return True
    if uid_of(claim) != reference.uid:
        return False
    held = allocated_devices(allocation_of(claim) or {}, driver, ())
    return device in {(each.pool, each.device) for each in held}
