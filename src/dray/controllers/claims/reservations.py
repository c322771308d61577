"""Reservations of claims: released when consumers have ended, made for pods that were bound without the scheduler.

A consumer that has ended is dropped from reservedFor, and with the last one the allocation, in one write: from then on
the devices are free. The finalizer follows, and a claim whose owner has ended is deleted, after others that wait to be
released. A claim that is being deleted loses allocation and finalizer as soon as nobody uses it. An allocation that
nobody ever reserved stays, unless the claim itself has to go.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from dray.api.objects import Key, Object, controller_uid, is_deleting
from dray.api.pods import claims_used, node_of
from dray.api.resource_claims import FINALIZER, MAX_CONSUMERS, allocation_of, is_protected, reserved_for
from dray.client.api import ApiClient
from dray.client.cache import Cache
from dray.client.errors import NotFound
from dray.controllers.claims.consumers import Consumers, UnknownGroup
from dray.controllers.claims.own_writes import Written
from dray.controllers.claims.owners import GROUP, POD, made_for, reservation, users
from dray.controllers.kinds import RESOURCE_CLAIMS


@dataclass(eq=False, slots=True)
class Reservations:
    client: ApiClient
    claims: Cache
    consumers: Consumers
    written: Written

    def is_release_needed(self, claim: Object) -> bool:
        """Whether, as far as the caches tell, there may be something to take back."""
        if self.written.is_ahead_of(claim):
            # What was made of it comes by watch, and is looked at then.
            return False
        known, reserved = self.consumers.known_to_use, users(claim)
        if reserved:
            return any(user is not None and known(user) is not True for user in reserved)
        if is_deleting(claim):
            return is_protected(claim)
        owner = made_for(claim)
        return owner is not None and known(owner) is not True

    async def release(self, key: Key) -> float | None:
        namespace, name = key
        claim = self.claims.get(name, namespace=namespace)
        if claim is None or not self.is_release_needed(claim):
            return None
        reserved = reserved_for(claim)
        kept = [
            each
            for each, user in zip(reserved, users(claim), strict=True)
            if user is None or await self.consumers.uses(user)
        ]
        over = not kept and await self._is_over(claim)
        freed = len(kept) < len(reserved)
        unused = not kept and is_protected(claim) and (freed or over or is_deleting(claim))
        if freed or (unused and allocation_of(claim) is not None):
            claim = await self.client.update_status(RESOURCE_CLAIMS, _with_status(claim, kept, deallocated=unused))
            self.written.add(claim)
            if over:
                # Devices of others are given back first. What is left to do follows when this write is seen.
                return None
        if unused and allocation_of(claim) is None:
            claim = await self.client.update(RESOURCE_CLAIMS, _unprotected(claim))
            self.written.add(claim)
        if over and not is_deleting(claim):
            await self._delete(claim)
        return None

    async def _is_over(self, claim: Object) -> bool:
        """Whether it was made for somebody who has ended; one that was made by hand never is."""
        owner = made_for(claim)
        return owner is not None and not await self.consumers.uses(owner)

    async def _delete(self, claim: Object) -> None:
        # At this version: somebody may just have taken the owner away from it, to keep it.
        with suppress(NotFound):
            await self.client.delete_object(RESOURCE_CLAIMS, claim, pinned=True)
        self.written.add_deleted(claim)

    def is_needed(self, pod: Object) -> bool:
        return bool(self._lacking(pod))

    async def reserve(self, pod: Object) -> None:
        for claim, reference in self._lacking(pod):
            status = {**claim["status"], "reservedFor": [*reserved_for(claim), reference]}
            self.written.add(await self.client.update_status(RESOURCE_CLAIMS, {**claim, "status": status}))

    def _lacking(self, pod: Object) -> list[tuple[Object, dict[str, str]]]:
        """Returns allocated claims of a bound pod that lack its reservation, with the reservation to add."""
        found: list[tuple[Object, dict[str, str]]] = []
        if not node_of(pod):
            return found
        for entry, name in claims_used(pod):
            claim = self.claims.get(name, namespace=pod["metadata"]["namespace"])
            if claim is None or allocation_of(claim) is None or is_deleting(claim) or self.written.is_ahead_of(claim):
                continue
            if entry.get("resourceClaimTemplateName") and not self.consumers.owns(pod, controller_uid(claim)):
                continue
            try:
                group = self.consumers.group_sharing(pod, entry)
            except UnknownGroup:
                continue
            reference = reservation(POD, pod) if group is None else reservation(GROUP, group)
            listed = reserved_for(claim)
            if len(listed) < MAX_CONSUMERS and all(each.get("uid") != reference["uid"] for each in listed):
                found.append((claim, reference))
        return found


def _with_status(claim: Object, reserved: list[dict[str, str]], *, deallocated: bool) -> Object:
    dropped = {"reservedFor", "allocation"} if deallocated else {"reservedFor"}
    status = {member: value for member, value in claim["status"].items() if member not in dropped}
    if reserved:
        status["reservedFor"] = reserved
    return {**claim, "status": status}


def _unprotected(claim: Object) -> Object:
    metadata = claim["metadata"]
    finalizers = [finalizer for finalizer in metadata["finalizers"] if finalizer != FINALIZER]
    return {**claim, "metadata": {**metadata, "finalizers": finalizers}}
