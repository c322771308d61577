"""Pods, groups and claims as this controller reads and writes them; nothing here asks or remembers anything."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, cast

from dray.api.objects import Object
from dray.client.interface import GroupVersionResource
from dray.controllers.claims.naming import claim_name, generate_name

FINALIZER: Final = "resource.kubernetes.io/delete-protection"
ENTRY_ANNOTATION: Final = "resource.kubernetes.io/pod-claim-name"
EXTENDED_ANNOTATION: Final = "resource.kubernetes.io/extended-resource-claim"
# What the API allows in reservedFor.
MOST_CONSUMERS: Final = 256

PODS: Final = GroupVersionResource("", "v1", "pods")
GROUPS: Final = GroupVersionResource("scheduling.k8s.io", "v1beta1", "podgroups")
CLAIMS: Final = GroupVersionResource("resource.k8s.io", "v1", "resourceclaims")
TEMPLATES: Final = GroupVersionResource("resource.k8s.io", "v1", "resourceclaimtemplates")


@dataclass(frozen=True, slots=True, eq=False)
class OwnerKind:
    """Whom claims are made for. Pods and groups have the same `spec.resourceClaims` and `resourceClaimStatuses`.

    There are two, compared by identity: they are part of the keys of a queue.
    """

    kind: str
    api_version: str
    resource: GroupVersionResource

    @property
    def api_group(self) -> str:
        return self.resource.group


POD: Final = OwnerKind("Pod", "v1", PODS)
GROUP: Final = OwnerKind("PodGroup", "scheduling.k8s.io/v1beta1", GROUPS)


class Consumer(NamedTuple):
    """A pod or group, as a claim names it."""

    kind: OwnerKind
    namespace: str
    name: str
    uid: str


def is_done(pod: Object) -> bool:
    """It will never use its claims again: it has ended, or is deleted and never went to a node."""
    if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
        return True
    return is_deleting(pod) and not node_of(pod)


def is_deleting(value: Object) -> bool:
    return bool(value["metadata"].get("deletionTimestamp"))


def node_of(pod: Object) -> str:
    return str((pod.get("spec") or {}).get("nodeName") or "")


def uid_of(value: Object) -> str:
    return str(value["metadata"].get("uid") or "")


def group_name(pod: Object) -> str:
    """Of the PodGroup the pod belongs to."""
    return str(((pod.get("spec") or {}).get("schedulingGroup") or {}).get("podGroupName") or "")


def entries(owner: Object) -> list[dict[str, str]]:
    return (owner.get("spec") or {}).get("resourceClaims") or []


def recorded(owner: Object) -> dict[str, str | None]:
    """The claims that the status names, by entry; None where it says that none is needed."""
    statuses = (owner.get("status") or {}).get("resourceClaimStatuses") or ()
    return {each["name"]: each.get("resourceClaimName") for each in statuses}


def extended_claim(pod: Object) -> str:
    return str(((pod.get("status") or {}).get("extendedResourceClaimStatus") or {}).get("resourceClaimName") or "")


def claims_used(owner: Object) -> Iterator[tuple[dict[str, str], str]]:
    """The entries whose claim is known, and its name."""
    names = recorded(owner)
    for entry in entries(owner):
        name = entry.get("resourceClaimName") or names.get(entry["name"])
        if name:
            yield entry, name


def waiting_entries(owner: Object) -> Iterator[dict[str, str]]:
    """The entries with a template for which the status does not name a claim yet."""
    listed = entries(owner)
    if listed:
        names = recorded(owner)
        for entry in listed:
            if entry.get("resourceClaimTemplateName") and entry["name"] not in names:
                yield entry


def lists(group: Object, entry: dict[str, str]) -> bool:
    """Whether the group has the same entry: same name, same claim or template."""
    members = ("name", "resourceClaimName", "resourceClaimTemplateName")
    wanted = [entry.get(member) or "" for member in members]
    return any([each.get(member) or "" for member in members] == wanted for each in entries(group))


def controller_of(value: Object) -> Mapping[str, Any] | None:
    for reference in value["metadata"].get("ownerReferences") or ():
        if reference.get("controller"):
            return cast(Mapping[str, Any], reference)
    return None


def controller_uid(value: Object) -> str:
    reference = controller_of(value)
    return "" if reference is None else str(reference.get("uid") or "")


def made_for(claim: Object) -> Consumer | None:
    """The pod or group that controls the claim; a group may be named in any version."""
    owner = controller_of(claim)
    if owner is None:
        return None
    group, _, _ = str(owner.get("apiVersion") or "").rpartition("/")
    for kind in (POD, GROUP):
        if owner.get("kind") == kind.kind and group == kind.api_group:
            return Consumer(kind, claim["metadata"]["namespace"], owner["name"], owner["uid"])
    return None


def users(claim: Object) -> list[Consumer | None]:
    """Whom it is reserved for, in order; None for whom only others know."""
    namespace, found = claim["metadata"]["namespace"], []
    for each in reservations(claim):
        resource = each.get("apiGroup") or "", each.get("resource")
        kind = POD if resource == ("", "pods") else GROUP if resource == (GROUPS.group, GROUPS.plural) else None
        found.append(None if kind is None else Consumer(kind, namespace, each["name"], each.get("uid", "")))
    return found


def reservations(claim: Object) -> list[dict[str, str]]:
    return (claim.get("status") or {}).get("reservedFor") or []


def allocation_of(claim: Object) -> Object | None:
    return (claim.get("status") or {}).get("allocation")


def is_protected(claim: Object) -> bool:
    return FINALIZER in (claim["metadata"].get("finalizers") or ())


def reservation(kind: OwnerKind, owner: Object) -> dict[str, str]:
    """An entry of reservedFor."""
    reference = {"resource": kind.resource.plural, "name": owner["metadata"]["name"], "uid": uid_of(owner)}
    return {"apiGroup": kind.api_group, **reference} if kind.api_group else reference


def uses_admin_access(spec: Object) -> bool:
    requests: Iterable[Object] = (spec.get("devices") or {}).get("requests") or ()
    return any((request.get("exactly") or {}).get("adminAccess") for request in requests)


def new_claim(kind: OwnerKind, owner: Object, entry: str, template: Object, avoid: str) -> Object:
    """The claim of an owner's entry. Whoever allocates it protects it from being deleted then."""
    metadata, spec = owner["metadata"], template["spec"]
    given = spec.get("metadata") or {}
    made: Object = {
        "name": claim_name(metadata["name"], metadata["uid"], entry, avoid),
        "generateName": generate_name(metadata["name"], entry),
        "namespace": metadata["namespace"],
        "annotations": {**(given.get("annotations") or {}), ENTRY_ANNOTATION: entry},
        "ownerReferences": [
            {
                "apiVersion": kind.api_version,
                "kind": kind.kind,
                "name": metadata["name"],
                "uid": metadata["uid"],
                "controller": True,
            }
        ],
    }
    if given.get("labels"):
        made["labels"] = given["labels"]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": made,
        "spec": spec.get("spec") or {},
    }
