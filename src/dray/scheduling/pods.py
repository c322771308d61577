"""From a pod's document to what the scheduler keeps of it."""

from __future__ import annotations

from dray.api.objects import Object, bounded, is_deleting, key_of, labels_of
from dray.api.quantity import INT32_MAX, INT32_MIN
from dray.scheduling import node_allocatable
from dray.scheduling.model import Pod
from dray.scheduling.resizes import in_force
from dray.scheduling.signatures import Signatures


def read(document: Object, signatures: Signatures, known: Pod | None = None) -> Pod:
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
        # Labels belong to the signature of a pod with terms about others, and change without a new generation.
        # So may anything that plugins sign.
        same = not signatures.signers and (not known.requirements.pod_terms or known.labels == labels_of(document))
        requirements = known.requirements if same else signatures.requirements(document)
    else:
        requirements = signatures.requirements(taking)
    return Pod(
        key_of(document),
        metadata["uid"],
        document,
        requirements,
        bounded(spec.get("priority"), INT32_MIN, INT32_MAX),
        spec.get("preemptionPolicy") != "Never",
        metadata.get("creationTimestamp") or "",
        known.extra if known is not None else node_allocatable.amounts_of(document),
    )


def claims_of(document: Object) -> object:
    """What of a pod that waits says which claims it has, and whether it may be tried."""
    spec = document["spec"]
    statuses = (document.get("status") or {}).get("resourceClaimStatuses")
    return spec.get("resourceClaims"), statuses, spec.get("schedulingGates")


def outward(pod: Pod) -> object:
    """What the terms of other pods see of it."""
    return pod.labels, is_deleting(pod.document)
