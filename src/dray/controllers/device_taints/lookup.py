"""Lookup of claims by device, of pods by claim (only where a claim of that name is for this pod), and of the devices
that rules select."""

from __future__ import annotations

import asyncio
from typing import Final

from dray.allocation.devices import DeviceID
from dray.api.objects import Object, key_of, uid_of
from dray.api.pods import claim_entries, claims_used, group_name
from dray.api.resource_claims import devices_of
from dray.client.informer import Informers
from dray.controllers.claims.owners import GROUP, Consumer, made_for, users
from dray.controllers.device_taints import rules
from dray.controllers.kinds import PODS, RESOURCE_CLAIMS, RESOURCE_SLICES

_BY_CLAIM: Final = "device-taints: claim"
_BY_DEVICE: Final = "device-taints: device"
# After so many objects others get their turn.
_BREATH: Final = 500


def _index_by_claim(pod: Object) -> list[str]:
    """Index function of the pod informer: `namespace/claim` for each claim that the pod uses."""
    if not claim_entries(pod):
        return []
    namespace = key_of(pod)[0]
    return [f"{namespace}/{name}" for _, name in claims_used(pod)]


def uses(pod: Object, claim: Object) -> bool:
    """Whether the pod names the claim, the claim was made for it if it was made for a pod, and is reserved for it."""
    namespace, wanted = key_of(claim)
    if key_of(pod)[0] != namespace:
        return False
    for entry, name in claims_used(pod):
        generated = not entry.get("resourceClaimName")
        if name == wanted and (not generated or _is(made_for(claim), pod)):
            return any(_is(user, pod) for user in users(claim))
    return False


def _is(consumer: Consumer | None, pod: Object) -> bool:
    """Whether it is the pod, or the group of the pod, which it knows by name only."""
    if consumer is None:
        return False
    if consumer.kind is GROUP:
        return consumer.name == group_name(pod)
    return consumer.uid == uid_of(pod)


class Lookup:
    def __init__(self, informers: Informers) -> None:
        self.pods = informers.of(PODS, {_BY_CLAIM: _index_by_claim})
        self.claims = informers.of(RESOURCE_CLAIMS, {_BY_DEVICE: _index_by_device})
        self.slices = informers.of(RESOURCE_SLICES)

    def users(self, claim: Object) -> list[Object]:
        """Returns the pods that name the claim."""
        return self.pods.cache.by(_BY_CLAIM, "/".join(key_of(claim)))

    def claims_of(self, pod: Object) -> list[Object]:
        """Returns the claims that the pod uses."""
        namespace = key_of(pod)[0]
        found = (self.claims.cache.get(name, namespace=namespace) for _, name in claims_used(pod))
        return [claim for claim in found if claim is not None and uses(pod, claim)]

    def holders(self, device: DeviceID) -> list[Object]:
        """Returns the claims that hold the device."""
        return self.claims.cache.by(_BY_DEVICE, "/".join(device))

    async def selected(self, rule: Object) -> list[Object]:
        """Returns claims that hold a device that the rule selects, whether or not it is still published."""
        if not rules.has_selector(rule):
            return []
        selector = rule["spec"]["deviceSelector"]
        driver, pool, device = (selector.get(member) or "" for member in ("driver", "pool", "device"))
        if driver and pool and device:
            return self.holders((driver, pool, device))
        found = []
        for number, claim in enumerate(self.claims.cache, 1):
            if number % _BREATH == 0:
                await asyncio.sleep(0)
            if any(rules.selects(rule, allocated) for allocated in devices_of(claim)):
                found.append(claim)
        return found

    async def published(self, rule: Object) -> int:
        """Returns how many published devices the rule selects, in the newest generation of each pool."""
        if not rules.has_selector(rule):
            return 0
        found: dict[tuple[str, str], tuple[int, int]] = {}
        for number, document in enumerate(self.slices.cache, 1):
            if number % _BREATH == 0:
                await asyncio.sleep(0)
            spec = document["spec"]
            pool, generation = (spec["driver"], spec["pool"]["name"]), spec["pool"].get("generation") or 0
            newest, count = found.get(pool, (-1, 0))
            if generation < newest:
                continue
            devices = spec.get("devices") or ()
            more = sum(rules.selects(rule, (*pool, device["name"])) for device in devices)
            found[pool] = generation, more + (count if generation == newest else 0)
        return sum(count for _, count in found.values())


def _index_by_device(claim: Object) -> list[str]:
    return ["/".join(device) for device in devices_of(claim)]
