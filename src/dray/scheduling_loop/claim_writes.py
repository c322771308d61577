"""What is written to a claim before its pod is bound, with optimistic concurrency.

The first try writes on top of the claim as it was when the decision was made. If that is no longer the newest, the
claim is read again and the decision checked against it: losing to somebody else ends the attempt. A write whose answer
is lost may have been done, or be done yet; it is repeated until it is known, since its devices would otherwise be given
to somebody else meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from dray.api.objects import Object, key_of, status_of
from dray.api.resource_claims import (
    EXTENDED_CLAIM_ANNOTATION,
    FINALIZER,
    allocation_of,
    allocation_results,
    reserved_for,
)
from dray.client.api import ApiClient
from dray.client.clock import timestamp
from dray.client.errors import ApiError, ClientError, Conflict, ConnectionFailed, Garbled, NotFound
from dray.client.retries import Retries
from dray.scheduling.model.actions import ClaimWrite
from dray.scheduling.model.pod import Pod
from dray.scheduling_loop.feed import CLAIMS

_TRIES: Final = 6


class Lost(ClientError):
    """Raised if another client changed the claim so that the decision is no longer valid."""


@dataclass(slots=True)
class _Tries:
    """The failures of a write so far, and whether it is uncertain that the last one was carried out.

    `refusal` is a final answer. Even then the claim is read again: the client may have sent the write several times,
    and an earlier one may have succeeded.
    """

    conflicts: int = 0
    failures: int = 0
    uncertain: bool = False
    refusal: ApiError | None = None


class ClaimWriter:
    def __init__(self, client: ApiClient, now: Callable[[], datetime], retries: Retries | None = None) -> None:
        self._client = client
        self._now = now
        self._retries = retries or Retries()

    async def prepare(self, pod: Pod, write: ClaimWrite) -> Object:
        """Returns the claim; creates it if it is a special claim, and adds the finalizer if it is to be allocated."""
        if write.special:
            return await self._create(pod, write.claim)
        return write.claim if write.allocation is None else await self._protected(write.claim, write.allocation)

    async def _protected(self, claim: Object, allocation: Object) -> Object:
        """Returns the claim with its finalizer, without which its devices might never be released."""
        for left in reversed(range(_TRIES)):
            metadata = claim["metadata"]
            finalizers = metadata.get("finalizers") or []
            if FINALIZER in finalizers:
                return claim
            protected = {**claim, "metadata": {**_unowned(metadata), "finalizers": [*finalizers, FINALIZER]}}
            try:
                return await self._client.update(CLAIMS, protected)
            except NotFound:
                raise _deleted(claim) from None
            except Conflict:
                if not left:
                    raise
            fresh = await self._read(claim)
            _check(claim, fresh, allocation)
            claim = fresh
        raise AssertionError("unreachable")

    async def write(
        self, consumer: Object, claim: Object, allocation: Object | None, *, exactly: bool = False
    ) -> Object:
        """Reserves the claim, and allocates it if there is an allocation; returns the claim after the write.

        Raises Lost or another ClientError only if it is certain that nothing was written. With `exactly` the claim is
        written only if it still has this version.
        """
        tries = _Tries()
        while True:
            done = await self._try(self._written(consumer, claim, allocation), tries)
            if done is not None:
                return done
            fresh = await self._read(claim)
            if _is_written(fresh, consumer, allocation):
                return fresh
            if tries.refusal is not None:
                raise tries.refusal
            _check(claim, fresh, allocation)
            if exactly and fresh["metadata"]["resourceVersion"] != claim["metadata"]["resourceVersion"]:
                raise Lost(f"claim {_title(claim)} got changed in the meantime")
            # The other client may have removed the finalizer.
            claim = fresh if allocation is None else await self._protected(fresh, allocation)
            if tries.uncertain:
                await self._retries.pause(tries.failures)

    async def _try(self, claim: Object, tries: _Tries) -> Object | None:
        """Returns the claim after the write; None if the write failed and the caller has to read the claim."""
        tries.uncertain = False
        try:
            return await self._client.update_status(CLAIMS, claim)
        except NotFound:
            raise _deleted(claim) from None
        except ApiError as error:
            conflict = isinstance(error, Conflict)
            tries.conflicts += conflict
            tries.uncertain = error.is_server_fault or error.is_too_many_requests
            if tries.conflicts >= _TRIES or not (conflict or tries.uncertain):
                tries.refusal = error
        except (ConnectionFailed, Garbled):
            tries.uncertain = True
        tries.failures += tries.uncertain
        return None

    def _written(self, consumer: Object, claim: Object, allocation: Object | None) -> Object:
        status = dict(status_of(claim))
        if allocation is not None:
            status["allocation"] = {**allocation, "allocationTimestamp": timestamp(self._now())}
        status["reservedFor"] = [*(status.get("reservedFor") or ()), consumer]
        return {**claim, "metadata": _unowned(claim["metadata"]), "status": status}

    async def _read(self, claim: Object) -> Object:
        """Reads the claim, and retries until the server answers. Raises Lost if the claim was deleted."""
        metadata, failures = claim["metadata"], 0
        while True:
            try:
                fresh = await self._client.get(CLAIMS, metadata["name"], namespace=metadata["namespace"])
            except NotFound:
                raise _deleted(claim) from None
            except (ApiError, ConnectionFailed, Garbled):
                pass
            else:
                if fresh["metadata"]["uid"] != metadata["uid"]:
                    raise _deleted(claim)
                return fresh
            failures += 1
            await self._retries.pause(failures)

    async def _create(self, pod: Pod, claim: Object) -> Object:
        """Creates a claim for extended resources, which the pod owns."""
        namespace, name = pod.key
        owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": pod.uid, "controller": True}
        body: Object = {
            **claim,
            "metadata": {
                "namespace": namespace,
                "generateName": f"{name}-extended-resources-",
                "annotations": {EXTENDED_CLAIM_ANNOTATION: "true"},
                "ownerReferences": [{**owner, "blockOwnerDeletion": True}],
                "finalizers": [FINALIZER],
            },
        }
        return await self._client.create(CLAIMS, body)

    async def leave(self, uid: str, claim: Object, *, keeping: bool = False) -> Object:
        """Removes a pod or group from the consumers of the claim; without other consumers the claim is deallocated.
        Returns the claim after the write.

        Both are one write, as in the claim controller: no controller handles an allocated claim without consumers. With
        `keeping` the claim stays allocated; the next attempt of the pod handles it. The method returns only when it is
        certain that the write is done, since the next attempt relies on it.
        """
        tries = _Tries()
        while (status := _left(uid, claim, keeping)) is not None:
            done = await self._try({**claim, "status": status}, tries)
            if done is not None:
                return done
            if tries.uncertain:
                await self._retries.pause(tries.failures)
            claim = await self._read(claim)
            if tries.refusal is not None and _left(uid, claim, keeping) is not None:
                raise tries.refusal
        return claim

    async def release(self, claim: Object) -> Object:
        """Deallocates the claim if it still has this version; returns the claim after the write."""
        return await self._client.update_status(CLAIMS, {**claim, "status": _without_devices(claim["status"])})

    async def discard(self, claim: Object) -> None:
        """Deletes a claim for extended resources, which may be deleted already."""
        metadata = claim["metadata"]
        name, namespace = metadata["name"], metadata["namespace"]
        finalizers = [each for each in metadata.get("finalizers") or () if each != FINALIZER]
        try:
            if allocation_of(claim):
                await self.release(claim)
            await self._client.patch(CLAIMS, name, {"metadata": {"finalizers": finalizers}}, namespace=namespace)
            await self._client.delete_object(CLAIMS, claim)
        except NotFound:
            pass


def _unowned(metadata: Object) -> Object:
    """Returns the metadata without managedFields, which the server maintains."""
    kept = dict(metadata)
    kept.pop("managedFields", None)
    return kept


def _left(uid: str, claim: Object, keeping: bool) -> Object | None:
    """Returns the status of the claim without the consumer; None if the claim is not reserved for it."""
    status = dict(status_of(claim))
    users = status.get("reservedFor") or []
    status["reservedFor"] = [each for each in users if each.get("uid") != uid]
    if len(status["reservedFor"]) == len(users):
        return None
    return status if status["reservedFor"] or keeping else _without_devices(status)


def _check(claim: Object, fresh: Object, allocation: Object | None) -> None:
    """Raises Lost if the decision about a claim cannot be written any more."""
    if fresh["metadata"].get("deletionTimestamp"):
        raise _deleted(claim)
    known, found = allocation_of(claim), allocation_of(fresh)
    if allocation is not None and found is not None:
        raise Lost(f"claim {_title(claim)} got allocated elsewhere in the meantime")
    if allocation is None and found != known:
        raise Lost(f"claim {_title(claim)} got deallocated elsewhere in the meantime")


def _is_written(claim: Object, consumer: Object, allocation: Object | None) -> bool:
    """Whether the claim has the reservation and allocation already, from an earlier write."""
    if not any(each.get("uid") == consumer["uid"] for each in reserved_for(claim)):
        return False
    found = allocation_of(claim)
    return found is not None and (allocation is None or _devices(found) == _devices(allocation))


def _devices(allocation: Object) -> list[tuple[object, ...]]:
    members = ("request", "driver", "pool", "device", "shareID")
    return [tuple(each.get(member) for member in members) for each in allocation_results(allocation)]


def _without_devices(status: Object) -> Object:
    return {member: each for member, each in status.items() if member not in ("allocation", "reservedFor", "devices")}


def _deleted(claim: Object) -> Lost:
    return Lost(f"claim {_title(claim)} got deleted in the meantime")


def _title(claim: Object) -> str:
    return "/".join(key_of(claim))
