"""What is written to a claim before its pod is bound, with optimistic concurrency.

The first try writes on top of the claim as it was when the decision was made. If that is no longer the newest, the
claim is read again and the decision checked against it: losing to somebody else ends the attempt.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Final

from dray.client.clock import timestamp
from dray.client.errors import ApiError, ClientError
from dray.client.interface import Client, DeleteOptions, Object, PatchType
from dray.scheduler.feed import CLAIMS
from dray.scheduling.actions import ClaimWrite
from dray.scheduling.claim_book import EXTENDED_CLAIM
from dray.scheduling.model import Pod

FINALIZER: Final = "resource.kubernetes.io/delete-protection"
_TRIES: Final = 6


class Lost(ClientError):
    """Somebody else changed the claim so that the decision no longer holds."""


class ClaimWriter:
    def __init__(self, client: Client, now: Callable[[], datetime]) -> None:
        self._client = client
        self._now = now

    async def write(self, pod: Pod, write: ClaimWrite) -> Object:
        """The claim as it is afterwards; raises Lost or another ClientError."""
        claim = await self._create(pod, write.claim) if write.special else write.claim
        for left in reversed(range(_TRIES)):
            try:
                return await self._try(pod, claim, write.allocation)
            except ApiError as error:
                if error.is_not_found:
                    raise Lost(f"claim {_title(claim)} got deleted in the meantime") from None
                if not error.is_conflict or not left:
                    raise
            claim = await self._read_again(claim, allocating=write.allocation is not None)
        raise AssertionError("unreachable")

    async def _try(self, pod: Pod, claim: Object, allocation: Object | None) -> Object:
        metadata = claim["metadata"]
        if allocation is not None and FINALIZER not in (metadata.get("finalizers") or ()):
            finalizers = [*(metadata.get("finalizers") or ()), FINALIZER]
            claim = await self._client.update(CLAIMS, {**claim, "metadata": {**metadata, "finalizers": finalizers}})
        status = dict(claim.get("status") or {})
        if allocation is not None:
            status["allocation"] = {**allocation, "allocationTimestamp": timestamp(self._now())}
        consumer = {"resource": "pods", "name": pod.key[1], "uid": pod.uid}
        status["reservedFor"] = [*(status.get("reservedFor") or ()), consumer]
        return await self._client.update_status(CLAIMS, {**claim, "status": status})

    async def _read_again(self, claim: Object, *, allocating: bool) -> Object:
        metadata = claim["metadata"]
        try:
            fresh = await self._client.get(CLAIMS, metadata["name"], namespace=metadata["namespace"])
        except ApiError as error:
            if not error.is_not_found:
                raise
            fresh = {}
        if not fresh or fresh["metadata"]["uid"] != metadata["uid"] or fresh["metadata"].get("deletionTimestamp"):
            raise Lost(f"claim {_title(claim)} got deleted in the meantime")
        allocated = bool((fresh.get("status") or {}).get("allocation"))
        if allocating and allocated:
            raise Lost(f"claim {_title(claim)} got allocated elsewhere in the meantime")
        if not allocating and not allocated:
            raise Lost(f"claim {_title(claim)} got deallocated elsewhere in the meantime")
        return fresh

    async def _create(self, pod: Pod, claim: Object) -> Object:
        """A claim for extended resources, which belongs to the pod."""
        namespace, name = pod.key
        owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": pod.uid, "controller": True}
        body: Object = {
            **claim,
            "metadata": {
                "namespace": namespace,
                "generateName": f"{name}-extended-resources-",
                "annotations": {EXTENDED_CLAIM: "true"},
                "ownerReferences": [{**owner, "blockOwnerDeletion": True}],
                "finalizers": [FINALIZER],
            },
        }
        return await self._client.create(CLAIMS, body)

    async def unreserve(self, pod: Pod, claim: Object) -> None:
        """Takes the pod out of a claim's consumers; the claim keeps its devices."""
        metadata = claim["metadata"]
        body = {
            "metadata": {"uid": metadata["uid"]},
            "status": {"reservedFor": [{"$patch": "delete", "uid": pod.uid}]},
        }
        await self._client.patch(
            CLAIMS,
            metadata["name"],
            body,
            namespace=metadata["namespace"],
            patch_type=PatchType.STRATEGIC,
            subresource="status",
        )

    async def release(self, claim: Object) -> None:
        """Gives the claim's devices back, if it is still as it was."""
        status = {
            member: value
            for member, value in claim["status"].items()
            if member not in ("allocation", "reservedFor", "devices")
        }
        await self._client.update_status(CLAIMS, {**claim, "status": status})

    async def discard(self, claim: Object) -> None:
        """Deletes a claim that was made for extended resources."""
        metadata = claim["metadata"]
        name, namespace = metadata["name"], metadata["namespace"]
        finalizers = [each for each in metadata.get("finalizers") or () if each != FINALIZER]
        if (claim.get("status") or {}).get("allocation"):
            await self.release(claim)
        await self._client.patch(CLAIMS, name, {"metadata": {"finalizers": finalizers}}, namespace=namespace)
        await self._client.delete(CLAIMS, name, namespace=namespace, options=DeleteOptions(uid=metadata["uid"]))


def _title(claim: Object) -> str:
    metadata = claim["metadata"]
    return f"{metadata.get('namespace')}/{metadata['name']}"
