"""From a pod's document to what the scheduler keeps of it."""

from __future__ import annotations

from dray.api.objects import Object, bounded
from dray.api.quantity import INT32_MAX, INT32_MIN
from dray.scheduling import charges
from dray.scheduling.model import Pod, key_of, labels_of
from dray.scheduling.needs import Kinds
from dray.scheduling.resizes import in_force


def read(document: Object, kinds: Kinds, known: Pod | None = None) -> Pod:
    """`known` is the pod as it was before."""
    metadata, spec = document["metadata"], document["spec"]
    generation = metadata.get("generation")
    taking = in_force(document)
    if (
        known is not None
        and generation
        and known.document["metadata"].get("generation") == generation
        and taking is document
        and in_force(known.document) is known.document
    ):
        # Labels belong to what a pod with terms about others needs, and change without a new generation.
        same = not known.needs.social or known.labels == labels_of(document)
        needs = known.needs if same else kinds.needs(document)
    else:
        needs = kinds.needs(taking)
    return Pod(
        key_of(document),
        metadata["uid"],
        document,
        needs,
        bounded(spec.get("priority"), INT32_MIN, INT32_MAX),
        spec.get("preemptionPolicy") != "Never",
        metadata.get("creationTimestamp") or "",
        known.extra if known is not None else charges.amounts_of(document),
    )


def claims_of(document: Object) -> object:
    """What of a pod that waits says which claims it has, and whether it may be tried."""
    spec = document["spec"]
    statuses = (document.get("status") or {}).get("resourceClaimStatuses")
    return spec.get("resourceClaims"), statuses, spec.get("schedulingGates")


def outward(pod: Pod) -> object:
    """What the terms of other pods see of it."""
    return pod.labels, bool(pod.document["metadata"].get("deletionTimestamp"))
