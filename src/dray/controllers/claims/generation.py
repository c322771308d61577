"""Generates claims from the templates that pods and groups name, and records their names in the owner's status.

For every entry there is one claim: the one the status names, one that was made before but not recorded, or a new one.
What is missing and will come with an event (a template, a group and its claim) is not tried again until then.

The status lists all names as one, so the whole of it is written on the version that was read. If that has changed, it
is read again; a claim that was just made for an entry that names another one by then is taken back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from dray.api.objects import Object, annotations_of, controller_uid, uid_of
from dray.api.pods import claim_entries, claim_names
from dray.api.resource_claims import POD_CLAIM_ANNOTATION
from dray.client.api import ApiClient
from dray.client.cache import Cache
from dray.client.dropped_fields import NotKept
from dray.client.errors import AlreadyExists, ClientError, Conflict, NotFound
from dray.client.events import EventRecorder
from dray.client.informer import Informer
from dray.client.interface import WriteOptions
from dray.controllers.claims.consumers import Consumers, UnknownGroup
from dray.controllers.claims.metrics import Metrics
from dray.controllers.claims.own_writes import CreatedClaims, Written
from dray.controllers.claims.owners import POD, OwnerKind, new_claim
from dray.controllers.kinds import RESOURCE_CLAIMS

_NOTE: Final = WriteOptions(field_manager="ResourceClaimController")
# Others write to the status too, of other things: it may take more than one attempt.
_ATTEMPTS: Final = 4
BY_OWNER: Final = "resourceclaim: controller uid"
"""The index of claims by the uid of their controller."""
# Names that may belong to somebody else before it looks like a mistake.
_NAMES: Final = 4
# For the informer to show a claim that was created.
_UNSEEN: Final = 10.0
# Claims of one owner before others get a turn.
_IN_A_ROW: Final = 8


class ClaimStatuses:
    def __init__(self, client: ApiClient, written: Written) -> None:
        self._client = client
        self._written = written

    async def write(self, kind: OwnerKind, owner: Object, names: Mapping[str, str], made: Mapping[str, Object]) -> None:
        """Writes claim names by entry into the owner's status; `made` are the claims created for it now."""
        before = claim_names(owner)
        left = dict(names)
        for attempt in range(_ATTEMPTS):
            try:
                self._check(kind, left, await self._patch(kind, owner, left))
                return
            except Conflict:
                if attempt == _ATTEMPTS - 1:
                    raise
            metadata = owner["metadata"]
            fresh = await self._client.get(kind.resource, metadata["name"], namespace=metadata["namespace"])
            if uid_of(fresh) != uid_of(owner):
                return
            owner, now = fresh, claim_names(fresh)
            for entry in [entry for entry in left if now.get(entry, "") not in (before.get(entry, ""), left[entry])]:
                del left[entry]
                if entry in made:
                    await self._take_back(made[entry])
            if not left:
                return

    async def _patch(self, kind: OwnerKind, owner: Object, names: Mapping[str, str]) -> Object:
        metadata = owner["metadata"]
        statuses = [
            {"name": entry, "resourceClaimName": name} if name else {"name": entry}
            for entry, name in sorted({**claim_names(owner), **names}.items())
        ]
        # The uid keeps it from another pod of the same name, and the version from what others wrote.
        same = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
        return await self._client.patch(
            kind.resource,
            metadata["name"],
            {"metadata": same, "status": {"resourceClaimStatuses": statuses}},
            namespace=metadata["namespace"],
            subresource="status",
            options=_NOTE,
        )

    def _check(self, kind: OwnerKind, names: Mapping[str, str], answer: Object) -> None:
        self._written.add(answer)
        if any(claim_names(answer).get(entry) != name for entry, name in names.items()):
            raise NotKept(f"status.resourceClaimStatuses of {kind.resource.plural}")

    async def _take_back(self, claim: Object) -> None:
        """Deletes a claim that the owner does not use, unless the claim was changed since. Errors are ignored."""
        with suppress(ClientError):
            await self._client.delete_object(RESOURCE_CLAIMS, claim, pinned=True)


class Waiting(Exception):
    """The owner waits for a missing object, whose creation triggers a retry. The text, if any, is for the user."""


class Generation:
    def __init__(
        self,
        client: ApiClient,
        events: EventRecorder,
        claims: Informer,
        templates: Cache,
        consumers: Consumers,
        written: Written,
        metrics: Metrics,
    ) -> None:
        self._client = client
        self._events = events
        self._claims = claims.cache
        self._templates = templates
        self._consumers = consumers
        self._created = CreatedClaims(claims)
        self._written = written
        self._statuses = ClaimStatuses(client, written)
        self._metrics = metrics

    def is_needed(self, owner: Object) -> bool:
        """Whether, as far as the caches tell, a claim is missing or not noted."""
        listed = claim_entries(owner)
        if not listed or self._written.is_ahead_of(owner):
            return False
        names = claim_names(owner)
        for entry in listed:
            if entry.get("resourceClaimTemplateName"):
                name = names.get(entry["name"], "")
                if name is not None and not (name and self._is_known(owner, entry["name"], name)):
                    return True
        return False

    async def generate(self, kind: OwnerKind, owner: Object) -> float | None:
        """Generates the missing claims of an owner. Returns when to look again, in seconds, if at all."""
        if not self.is_needed(owner):
            return None
        names = claim_names(owner)
        found: dict[str, str] = {}
        made: dict[str, Object] = {}
        for entry in claim_entries(owner):
            if not entry.get("resourceClaimTemplateName"):
                continue
            noted = names.get(entry["name"], "")
            if noted is None:
                continue
            try:
                name = await self._claim(kind, owner, entry, noted, made)
            except Waiting as reason:
                if reason.args:
                    self._report(kind, owner, entry, reason)
                return None
            except ClientError as error:
                self._report(kind, owner, entry, error)
                raise
            if name != noted:
                found[entry["name"]] = name
            if found and len(found) % _IN_A_ROW == 0:
                await asyncio.sleep(0)
        if found:
            await self._statuses.write(kind, owner, found, made)
        place = owner["metadata"]["namespace"]
        return None if all(self._claims.get(name, namespace=place) for name in found.values()) else _UNSEEN

    async def _claim(
        self, kind: OwnerKind, owner: Object, entry: dict[str, str], noted: str, made: dict[str, Object]
    ) -> str:
        if noted and await self._is_there(owner, entry["name"], noted):
            return noted
        if kind is POD:
            try:
                group = self._consumers.group_sharing(owner, entry)
            except UnknownGroup:
                raise Waiting from None
            if group is not None:
                return self._claim_of_group(group, entry["name"])
        name = self._unnoted(owner, entry["name"])
        if not name:
            claim = made[entry["name"]] = await self._create(kind, owner, entry, noted)
            name = str(claim["metadata"]["name"])
        return name

    def _is_known(self, owner: Object, entry: str, name: str) -> bool:
        claim = self._claims.get(name, namespace=owner["metadata"]["namespace"])
        if claim is not None:
            return self._consumers.owns(owner, controller_uid(claim))
        return self._created.name(owner, entry) == name

    async def _is_there(self, owner: Object, entry: str, name: str) -> bool:
        namespace = owner["metadata"]["namespace"]
        if self._is_known(owner, entry, name):
            return True
        if self._claims.get(name, namespace=namespace) is not None:
            return False
        claim = await self._get(namespace, name)
        return claim is not None and self._consumers.owns(owner, controller_uid(claim))

    def _claim_of_group(self, group: Object, entry: str) -> str:
        if not self._consumers.workload_claims:
            raise Waiting("the claim belongs to the pod's PodGroup, and claims of PodGroups are disabled")
        name = claim_names(group).get(entry)
        if not name or not self._is_known(group, entry, name):
            raise Waiting
        return name

    def _unnoted(self, owner: Object, entry: str) -> str:
        """Returns the name of a claim that was created for the entry but not recorded in the status; "" if none."""
        for claim in self._claims.by(BY_OWNER, uid_of(owner)):
            if annotations_of(claim).get(POD_CLAIM_ANNOTATION) == entry:
                return str(claim["metadata"]["name"])
        return self._created.name(owner, entry)

    async def _create(self, kind: OwnerKind, owner: Object, entry: dict[str, str], avoid: str) -> Object:
        name = entry["resourceClaimTemplateName"]
        template = self._templates.get(name, namespace=owner["metadata"]["namespace"])
        if template is None:
            missing = f'resourceclaimtemplate.resource.k8s.io "{name}" not found; create it, or correct the name'
            raise Waiting(f'resource claim template "{name}": {missing}')
        for _ in range(_NAMES):
            body = new_claim(kind, owner, entry["name"], template, avoid)
            claim = await self._post(kind, owner, body)
            if claim is not None:
                self._created.add(owner, entry["name"], claim)
                return claim
            avoid = body["metadata"]["name"]
        raise ClientError(f"the names of {_NAMES} claims belong to another owner, {avoid} among them")

    async def _post(self, kind: OwnerKind, owner: Object, body: Object) -> Object | None:
        """Creates the claim, or returns one whose creation was not answered; None if another owner has the name."""
        metadata = body["metadata"]
        try:
            claim = await self._client.create(RESOURCE_CLAIMS, body)
        except AlreadyExists:
            there = await self._get(metadata["namespace"], metadata["name"])
            return there if there is not None and controller_uid(there) == uid_of(owner) else None
        except ClientError:
            self._metrics.created(kind, body, success=False)
            raise
        self._metrics.created(kind, body, success=True)
        return claim

    async def _get(self, namespace: str, name: str) -> Object | None:
        try:
            return await self._client.get(RESOURCE_CLAIMS, name, namespace=namespace)
        except NotFound:
            return None

    def _report(self, kind: OwnerKind, owner: Object, entry: dict[str, str], reason: Exception) -> None:
        about = {"apiVersion": kind.resource.api_version, "kind": kind.kind, "metadata": owner["metadata"]}
        message = f"{kind.kind}ResourceClaim {entry['name']}: {reason}"
        self._events.warning(about, "FailedResourceClaimCreation", message)
