"""Matching of claims and volumes: class, size, modes, labels and node."""

from __future__ import annotations

from collections.abc import Iterable

from dray.allocation.node_selectors import selects
from dray.api.label_selectors import from_object
from dray.api.objects import Object, is_deleting, key_of, labels_of, spec_of, walk
from dray.api.volumes import capacity, claim_reference, class_name, is_for, requested


def best(claim: Object, volumes: Iterable[Object], node: Object | None = None) -> Object | None:
    """Returns the volume reserved for the claim, else the smallest that fits; usable from the node, if given."""
    found = [volume for volume in volumes if is_usable(claim, volume) and (node is None or is_reached(volume, node))]
    reserved = [volume for volume in found if claim_reference(volume)]
    return min(reserved or found, key=lambda volume: (capacity(volume).nanos, key_of(volume)), default=None)


def is_usable(claim: Object, volume: Object) -> bool:
    if is_deleting(volume) or (claim_reference(volume) and not is_for(volume, claim)):
        return False
    return not mismatch(claim, volume) and _is_selected(claim, volume)


def mismatch(claim: Object, volume: Object) -> str:
    """Returns why the volume does not fit the claim; "" if it does."""
    wanted, given = spec_of(claim), spec_of(volume)
    if requested(claim) > capacity(volume):
        return "requested PV is too small"
    if (class_name(claim) or "") != (class_name(volume) or ""):
        return "storageClassName does not match"
    if (wanted.get("volumeAttributesClassName") or "") != (given.get("volumeAttributesClassName") or ""):
        return "volumeAttributesClassName does not match"
    if (wanted.get("volumeMode") or "Filesystem") != (given.get("volumeMode") or "Filesystem"):
        return "incompatible volumeMode"
    if not set(wanted.get("accessModes") or ()) <= set(given.get("accessModes") or ()):
        return "incompatible accessMode"
    return ""


def _is_selected(claim: Object, volume: Object) -> bool:
    selector = spec_of(claim).get("selector")
    return selector is None or from_object(selector)(labels_of(volume))


def is_reached(volume: Object, node: Object) -> bool:
    required = walk(volume, "spec", "nodeAffinity").get("required")
    return required is None or selects(required, node["metadata"]["name"], labels_of(node))
