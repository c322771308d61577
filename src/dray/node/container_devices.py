"""Container devices: which prepared devices a container of a pod gets, and under which CDI ids.

A container names claims of its pod, each with or without one of its requests. For extended resources the pod's status
says which request of the generated claim belongs to which container. Order is that of the claims, then of the
devices.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dray.api.objects import Object, key_of, mapping, mappings, status_of, uid_of
from dray.api.pods import claims_used, extended_claim
from dray.node.claim_cache import ClaimCache, ClaimInfo
from dray.node.devices import PreparedDevice
from dray.node.errors import PrepareError


@dataclass(frozen=True, slots=True)
class ContainerClaim:
    """A claim that a container uses; without a request, the whole claim. `entry` is its name in the pod's spec."""

    claim: str
    request: str = ""
    entry: str = ""

    def devices(self, info: ClaimInfo) -> Iterator[tuple[str, PreparedDevice]]:
        """Returns the prepared devices for the request, each with the name of its driver."""
        return ((driver, each) for driver, each in info.devices if each.serves(self.request))


def container_claims(pod: Object, container: Object) -> Iterator[ContainerClaim]:
    names = {entry["name"]: name for entry, name in claims_used(pod)}
    for use in mappings(mapping(container.get("resources")).get("claims")):
        # A template may have made no claim; then the container has nothing to use.
        if name := names.get(use["name"]):
            yield ContainerClaim(name, use.get("request") or "", use["name"])
    extended = extended_claim(pod)
    for mapped in mappings(mapping(status_of(pod).get("extendedResourceClaimStatus")).get("requestMappings")):
        if mapped.get("containerName") == container["name"]:
            yield ContainerClaim(extended, mapped.get("requestName") or "")


def pod_cdi_ids(cache: ClaimCache, pod: Object) -> list[str]:
    """Returns the CDI ids of all devices prepared for the pod, including claims that no container names."""
    devices = (device for info in cache.of_pod(uid_of(pod)) for _, device in info.devices)
    return list(dict.fromkeys(cdi_id for device in devices for cdi_id in device.cdi_ids))


def prepared_cdi_ids(cache: ClaimCache) -> list[str]:
    """Returns the CDI ids of the devices of all claims of the node, without devices with admin access."""
    used = (each for info in cache for driver, each in info.devices if info.uses(driver, each.pool, each.device))
    return list(dict.fromkeys(cdi_id for device in used for cdi_id in device.cdi_ids))


def cdi_ids(cache: ClaimCache, pod: Object, container: Object) -> list[str]:
    """Returns the CDI ids to inject into the container. Raises PrepareError if a claim is not prepared on this node."""
    found: list[str] = []
    namespace, name = key_of(pod)
    for use in container_claims(pod, container):
        info = cache.get(namespace, use.claim)
        if info is None:
            raise PrepareError(
                f"container {container['name']} of pod {namespace}/{name}: "
                f"unable to get information for ResourceClaim {use.claim}"
            )
        found += [cdi_id for _, device in use.devices(info) for cdi_id in device.cdi_ids]
    return found
