"""`status.resourceClaimStatuses` of a pod or group: written only where no other controller wrote it meanwhile.

The status lists all names as one, so the whole of it is written on the version that was read. If that has changed, it
is read again; a claim that was just made for an entry that names another one by then is taken back.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from dray.api.objects import Object, uid_of
from dray.api.pods import claim_names
from dray.client.api import ApiClient
from dray.client.dropped_fields import NotKept
from dray.client.errors import ClientError, Conflict
from dray.client.interface import WriteOptions
from dray.controllers.claims.own_writes import Written
from dray.controllers.claims.owners import OwnerKind
from dray.controllers.kinds import RESOURCE_CLAIMS

_NOTE: Final = WriteOptions(field_manager="ResourceClaimController")
# Others write to the status too, of other things: it may take more than one attempt.
_ATTEMPTS: Final = 4


class ClaimStatuses:
    def __init__(self, client: ApiClient, written: Written) -> None:
        self._client = client
        self._written = written

    async def write(self, kind: OwnerKind, owner: Object, names: Mapping[str, str], made: Mapping[str, Object]) -> None:
        """`names` are the claims by entry, and `made` those that were made for it now."""
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
        """Unless somebody has taken it up: then its owner's end is its end."""
        with suppress(ClientError):
            await self._client.delete_object(RESOURCE_CLAIMS, claim, pinned=True)
