"""What is to become of a claim and of a volume, from what is there; nothing is written here."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

from dray.api.objects import Object, annotations_of, is_deleting, key_of, spec_of, uid_of
from dray.api.volumes import NO_PROVISIONER, SELECTED_NODE, claim_reference, class_name, is_bound, is_for
from dray.controllers.volumes import matching


class Act(Enum):
    BIND = "bind"
    """Bind: claim and volume name each other and get phase Bound."""
    WAIT = "wait"
    PROVISION = "provision"
    LOSE = "lose"
    """The claim is lost: its volume is gone or bound to another claim."""


class ClaimDecision(NamedTuple):
    act: Act
    volume: Object | None = None
    reason: str = ""
    message: str = ""
    warn: bool = False


def for_claim(
    claim: Object, volumes: Mapping[str, Object], storage_class: Object | None, node: Object | None
) -> ClaimDecision:
    """Decides what to do with a claim. `node` was selected for a claim that waits for its first consumer."""
    name = spec_of(claim).get("volumeName") or ""
    if is_bound(claim):
        return _bound(claim, volumes.get(name), name)
    if name:
        return _chosen(claim, volumes.get(name), name)
    waits = storage_class is not None and storage_class.get("volumeBindingMode") == "WaitForFirstConsumer"
    selected = annotations_of(claim).get(SELECTED_NODE)
    if waits and not selected:
        reserved = next(
            (volume for volume in volumes.values() if claim_reference(volume) and is_for(volume, claim)), None
        )
        if reserved is not None and matching.is_usable(claim, reserved):
            return ClaimDecision(Act.BIND, reserved)
        message = "waiting for first consumer to be created before binding"
        return ClaimDecision(Act.WAIT, reason="WaitForFirstConsumer", message=message)
    found = matching.best(claim, volumes.values(), node if waits else None)
    if found is not None:
        return ClaimDecision(Act.BIND, found)
    if storage_class is None and class_name(claim):
        message = f'storageclass.storage.k8s.io "{class_name(claim)}" not found'
        return ClaimDecision(Act.WAIT, reason="ProvisioningFailed", message=message, warn=True)
    if storage_class is None or storage_class.get("provisioner") == NO_PROVISIONER:
        message = "no persistent volumes available for this claim and no storage class is set"
        return ClaimDecision(Act.WAIT, reason="FailedBinding", message=message)
    return ClaimDecision(Act.PROVISION)


def _bound(claim: Object, volume: Object | None, name: str) -> ClaimDecision:
    if volume is None:
        message = f"Bound claim has lost its PersistentVolume {name}. Data on the volume is lost!"
        return ClaimDecision(Act.LOSE, reason="ClaimLost", message=message, warn=True)
    if claim_reference(volume) and not is_for(volume, claim):
        message = "Two claims are bound to the same volume, this one is bound incorrectly"
        return ClaimDecision(Act.LOSE, reason="ClaimMisbound", message=message, warn=True)
    return ClaimDecision(Act.BIND, volume)


def _chosen(claim: Object, volume: Object | None, name: str) -> ClaimDecision:
    """Decides for a claim that names its volume."""
    if volume is None:
        return ClaimDecision(Act.WAIT, reason="FailedBinding", message=f'volume "{name}" not found')
    if claim_reference(volume) and not is_for(volume, claim):
        message = f'volume "{name}" already bound to a different claim.'
        return ClaimDecision(Act.WAIT, reason="FailedBinding", message=message, warn=True)
    problem = matching.mismatch(claim, volume)
    if problem:
        message = f'Cannot bind to requested volume "{name}": {problem}'
        return ClaimDecision(Act.WAIT, reason="VolumeMismatch", message=message, warn=True)
    return ClaimDecision(Act.BIND, volume)


def volume_phase(volume: Object, claim: Object | None) -> str:
    """Returns the phase of a volume; `claim` is the claim that it names, if it exists."""
    reference = claim_reference(volume)
    if not reference or not reference.get("uid"):
        return "Available"
    if claim is None or uid_of(claim) != reference["uid"]:
        return "Released"
    named = spec_of(claim).get("volumeName")
    return "Released" if named and named != key_of(volume)[1] else "Bound"


def is_to_be_reclaimed(volume: Object, claim: Object | None) -> bool:
    """Whether the volume goes, because its claim has gone and its policy is to delete it."""
    return (
        volume_phase(volume, claim) == "Released"
        and spec_of(volume).get("persistentVolumeReclaimPolicy") == "Delete"
        and not is_deleting(volume)
    )
