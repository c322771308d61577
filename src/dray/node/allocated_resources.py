"""Allocated resources status: what a pod's status says of the health of the devices of its containers."""

from __future__ import annotations

from dray.api.objects import Object, key_of, mappings, spec_of
from dray.node.claim_cache import ClaimCache
from dray.node.container_devices import ContainerClaim, container_claims
from dray.node.health_cache import UNKNOWN, HealthCache


class AllocatedResources:
    def __init__(self, claims: ClaimCache, health: HealthCache) -> None:
        self._claims = claims
        self._health = health

    def statuses(self, pod: Object, now: float) -> dict[str, list[Object]]:
        """`allocatedResourcesStatus` of the status of each container that has devices, by its name."""
        found = {}
        for container in mappings(spec_of(pod).get("containers")):
            statuses = [
                {"name": _name(use), "resources": resources}
                for use in container_claims(pod, container)
                if (resources := self._resources(key_of(pod)[0], use, now))
            ]
            if statuses:
                found[container["name"]] = statuses
        return found

    def _resources(self, namespace: str, use: ContainerClaim, now: float) -> list[Object]:
        info = self._claims.get(namespace, use.claim)
        if info is None:
            return []
        found: dict[str, Object] = {}
        for driver, device in use.devices(info):
            identity = device.cdi_ids[0] if device.cdi_ids else f"{driver}/{device.pool}/{device.device}"
            report = self._health.health(driver, device.pool, device.device, now)
            status: Object = {"resourceID": identity, "health": report.health if report else UNKNOWN}
            if report is not None and report.message:
                status["message"] = report.message
            found.setdefault(identity, status)
        return list(found.values())


def _name(use: ContainerClaim) -> str:
    entry = use.entry or use.claim
    return f"claim:{entry}/{use.request}" if use.request else f"claim:{entry}"
