"""Reserves claims for pods that were bound without the scheduler, which reserves before it binds."""

from __future__ import annotations

from dray.api.objects import Object, controller_uid, is_deleting
from dray.api.pods import claims_used, node_of
from dray.api.resource_claims import MAX_CONSUMERS, allocation_of, reserved_for
from dray.client.api import ApiClient
from dray.client.cache import Cache
from dray.controllers.claims.consumers import Consumers, UnknownGroup
from dray.controllers.claims.own_writes import Written
from dray.controllers.claims.owners import GROUP, POD, reservation
from dray.controllers.kinds import RESOURCE_CLAIMS


class Reservation:
    def __init__(self, client: ApiClient, claims: Cache, consumers: Consumers, written: Written) -> None:
        self._client = client
        self._claims = claims
        self._consumers = consumers
        self._written = written

    def is_needed(self, pod: Object) -> bool:
        return bool(self._lacking(pod))

    async def reserve(self, pod: Object) -> None:
        for claim, reference in self._lacking(pod):
            status = {**claim["status"], "reservedFor": [*reserved_for(claim), reference]}
            self._written.add(await self._client.update_status(RESOURCE_CLAIMS, {**claim, "status": status}))

    def _lacking(self, pod: Object) -> list[tuple[Object, dict[str, str]]]:
        """The allocated claims of a pod on a node that are not reserved for it but could be, and how they would be."""
        found: list[tuple[Object, dict[str, str]]] = []
        if not node_of(pod):
            return found
        for entry, name in claims_used(pod):
            claim = self._claims.get(name, namespace=pod["metadata"]["namespace"])
            if claim is None or allocation_of(claim) is None or is_deleting(claim) or self._written.is_ahead_of(claim):
                continue
            if entry.get("resourceClaimTemplateName") and not self._consumers.owns(pod, controller_uid(claim)):
                continue
            try:
                group = self._consumers.group_sharing(pod, entry)
            except UnknownGroup:
                continue
            reference = reservation(POD, pod) if group is None else reservation(GROUP, group)
            listed = reserved_for(claim)
            if len(listed) < MAX_CONSUMERS and all(each.get("uid") != reference["uid"] for each in listed):
                found.append((claim, reference))
        return found
