"""VolumeClaims: PersistentVolumeClaims, volumes and storage classes, and those that a pod uses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from dray.api.objects import (
    Key,
    Object,
    controller_of,
    is_deleting,
    key_of,
    labels_of,
    spec_of,
    status_of,
    walk,
)
from dray.api.suggestions import suggestion
from dray.api.volumes import NO_PROVISIONER, claims_of, class_name, is_bound
from dray.scheduling.model.reasons import Code, ObjectRef, Reason

CLAIM: Final = "PersistentVolumeClaim"
ANY_VOLUME: Final = ObjectRef("PersistentVolume", "", "")
"""Pods that wait for this object are tried again with every new volume or storage class."""
ZONES: Final = {
    "topology.kubernetes.io/zone": "failure-domain.beta.kubernetes.io/zone",
    "topology.kubernetes.io/region": "failure-domain.beta.kubernetes.io/region",
}


@dataclass(frozen=True, slots=True)
class PodVolumes:
    bound: tuple[Object, ...]
    """Volumes of the pod's bound claims that only some nodes can reach."""
    waiting: tuple[tuple[Object, Object], ...]
    """Claims that wait for their first consumer, with their storage classes."""


class VolumeClaims:
    def __init__(self) -> None:
        self.known = False
        """Whether claims can be read; until then they are not checked."""
        self.volumes_known = False
        """Whether volumes and storage classes can be read; until then they are not checked."""
        self._claims: dict[Key, Object] = {}
        self._volumes: dict[str, Object] = {}
        self._classes: dict[str, Object] = {}

    def put(self, claim: Object) -> None:
        self._claims[key_of(claim)] = claim

    def remove(self, claim: Object) -> None:
        self._claims.pop(key_of(claim), None)

    def get(self, key: Key) -> Object | None:
        return self._claims.get(key)

    def put_volume(self, volume: Object) -> None:
        self._volumes[volume["metadata"]["name"]] = volume

    def remove_volume(self, volume: Object) -> None:
        self._volumes.pop(volume["metadata"]["name"], None)

    def put_class(self, storage_class: Object) -> None:
        self._classes[storage_class["metadata"]["name"]] = storage_class

    def remove_class(self, storage_class: Object) -> None:
        self._classes.pop(storage_class["metadata"]["name"], None)

    def problem(self, pod: Object) -> tuple[Reason, Key] | None:
        """Why the first unusable claim of the pod cannot be used, and the key of the claim; None if all can."""
        if not pod["spec"].get("volumes") or not self.known:
            return None
        for key, own in claims_of(pod):
            claim = self._claims.get(key)
            reason = self._problem(pod, claim, key[1], own=own)
            if reason is None and claim is not None and self.volumes_known:
                reason = self._unusable(claim)
            if reason is not None:
                return reason, key
        return None

    def of(self, pod: Object) -> PodVolumes | None:
        """The volumes that restrict the nodes of the pod; None if there are none. `problem` must have returned None."""
        if not pod["spec"].get("volumes") or not (self.known and self.volumes_known):
            return None
        claims = [self._claims[key] for key, _ in claims_of(pod)]
        waiting = tuple((claim, self._class_of(claim) or {}) for claim in claims if not is_bound(claim))
        bound = [self._volumes[claim["spec"]["volumeName"]] for claim in claims if is_bound(claim)]
        volumes = PodVolumes(tuple(volume for volume in bound if _is_local(volume)), waiting)
        return volumes if volumes.bound or volumes.waiting else None

    def _problem(self, pod: Object, claim: Object | None, name: str, *, own: bool) -> Reason | None:
        if claim is None:
            return Reason(Code.VOLUME_CLAIM_NOT_CREATED if own else Code.VOLUME_CLAIM_NOT_FOUND, (name,))
        if status_of(claim).get("phase") == "Lost":
            return Reason(Code.VOLUME_NOT_FOUND, (name, str(spec_of(claim).get("volumeName") or "")))
        if is_deleting(claim):
            return Reason(Code.VOLUME_CLAIM_DELETED, (name,))
        if own and (controller_of(claim) or {}).get("uid") != pod["metadata"].get("uid"):
            return Reason(Code.VOLUME_CLAIM_NOT_OWNED, (key_of(pod)[0], name, pod["metadata"]["name"]))
        return None

    def _unusable(self, claim: Object) -> Reason | None:
        """Why the volume of an existing claim cannot be used."""
        name, volume = claim["metadata"]["name"], spec_of(claim).get("volumeName")
        if is_bound(claim):
            return Reason(Code.VOLUME_NOT_FOUND, (name, str(volume))) if volume not in self._volumes else None
        storage_class = self._class_of(claim)
        wanted = class_name(claim)
        if wanted and storage_class is None and not volume:
            return Reason(Code.STORAGE_CLASS_NOT_FOUND, (name, wanted, suggestion(wanted, self._classes)))
        if volume or storage_class is None or storage_class.get("volumeBindingMode") != "WaitForFirstConsumer":
            return Reason(Code.VOLUME_CLAIM_UNBOUND, (name,))
        if storage_class.get("provisioner") in (None, "", NO_PROVISIONER):
            return Reason(Code.NO_PROVISIONER, (name, storage_class["metadata"]["name"]))
        return None

    def _class_of(self, claim: Object) -> Object | None:
        return self._classes.get(class_name(claim) or "")


def _is_local(volume: Object) -> bool:
    labels = labels_of(volume)
    return bool(walk(volume, "spec", "nodeAffinity").get("required")) or any(
        new in labels or old in labels for new, old in ZONES.items()
    )
