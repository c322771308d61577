"""Owners of generated claims: pods and pod groups, as claims name them, and the claim that is made for one.

Its name looks like one the API server completed from `generateName`, but follows from who it is made for: a controller
that does not know whether its last attempt came through asks for the same name again, and gets no second claim.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import Final, NamedTuple

from dray.api.catalogue import KindVersion
from dray.api.objects import Object, annotations_of, controller_of, controller_reference, labels_of, spec_of, uid_of
from dray.api.resource_claims import POD_CLAIM_ANNOTATION, reserved_for
from dray.controllers.kinds import POD_GROUPS, PODS

_LONGEST: Final = 57
_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX: Final = 5


def generate_name(owner: str, entry: str) -> str:
    """Returns the `generateName` for an entry of `spec.resourceClaims`; shortens both parts in proportion."""
    full = f"{owner}-{entry}-"
    length = len(full)
    if length <= _LONGEST:
        return full
    # A dot before the hyphen would make the name invalid.
    start = owner[: len(owner) * _LONGEST // length].rstrip(".")
    return f"{start}-{entry[: len(entry) * _LONGEST // length]}"


def claim_name(owner: str, uid: str, entry: str, avoid: str = "") -> str:
    """Returns a claim name that differs for each name in `avoid`, such as that of a deleted or foreign claim."""
    number = int.from_bytes(blake2b(f"{uid}/{entry}/{avoid}".encode(), digest_size=8).digest(), "big")
    suffix = ""
    for _ in range(_SUFFIX):
        number, digit = divmod(number, len(_ALPHABET))
        suffix += _ALPHABET[digit]
    return generate_name(owner, entry) + suffix


@dataclass(frozen=True, slots=True, eq=False)
class OwnerKind:
    """A kind that owns generated claims: Pod or PodGroup, with `spec.resourceClaims` and `resourceClaimStatuses`.

    The two instances are compared by identity: they are part of the keys of a queue.
    """

    resource: KindVersion

    @property
    def kind(self) -> str:
        return self.resource.kind

    @property
    def api_group(self) -> str:
        return self.resource.group


POD: Final = OwnerKind(PODS)
GROUP: Final = OwnerKind(POD_GROUPS)


class Consumer(NamedTuple):
    """A pod or group, as a claim names it."""

    kind: OwnerKind
    namespace: str
    name: str
    uid: str


def made_for(claim: Object) -> Consumer | None:
    """Returns the pod or group that controls the claim, None if neither does."""
    owner = controller_of(claim)
    if owner is None:
        return None
    group, _, _ = str(owner.get("apiVersion") or "").rpartition("/")
    for kind in (POD, GROUP):
        if owner.get("kind") == kind.kind and group == kind.api_group:
            return Consumer(kind, claim["metadata"]["namespace"], owner["name"], owner["uid"])
    return None


def users(claim: Object) -> list[Consumer | None]:
    """Returns the consumers in `status.reservedFor`, in order; None for consumers that are neither pods nor groups."""
    namespace, found = claim["metadata"]["namespace"], []
    for consumer in reserved_for(claim):
        resource = consumer.get("apiGroup") or "", consumer.get("resource")
        kind = POD if resource == ("", "pods") else GROUP if resource == (POD_GROUPS.group, POD_GROUPS.plural) else None
        found.append(None if kind is None else Consumer(kind, namespace, consumer["name"], consumer.get("uid", "")))
    return found


def reservation(kind: OwnerKind, owner: Object) -> dict[str, str]:
    """Builds an entry of reservedFor."""
    reference = {"resource": kind.resource.plural, "name": owner["metadata"]["name"], "uid": uid_of(owner)}
    return {"apiGroup": kind.api_group, **reference} if kind.api_group else reference


def new_claim(kind: OwnerKind, owner: Object, entry: str, template: Object, avoid: str) -> Object:
    """Builds the claim for an owner's entry, without a finalizer: the allocator adds it."""
    metadata, spec = owner["metadata"], template["spec"]
    made: Object = {
        "name": claim_name(metadata["name"], metadata["uid"], entry, avoid),
        "generateName": generate_name(metadata["name"], entry),
        "namespace": metadata["namespace"],
        "annotations": {**annotations_of(spec), POD_CLAIM_ANNOTATION: entry},
        "ownerReferences": [controller_reference(kind.resource.api_version, kind.kind, owner)],
    }
    if labels := labels_of(spec):
        made["labels"] = labels
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": made,
        "spec": spec_of(spec),
    }
