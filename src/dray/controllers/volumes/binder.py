"""The controller `persistentvolume-binder`: claims get volumes, volumes know whether they are used, and are reclaimed.

Keys are namespace and name of claims; those of volumes have no namespace. A claim and its volume name each other: the
volume is written first, at the version that was read, so a volume never serves two claims.
"""

from __future__ import annotations

from typing import Final

from dray.api.objects import Key, Object, annotations_of, is_deleting, key_of, spec_of, status_of, uid_of
from dray.api.volumes import (
    BIND_COMPLETED,
    BOUND_BY_CONTROLLER,
    SELECTED_NODE,
    VOLUME_DIRECTORY,
    claim_reference,
    class_name,
)
from dray.client.cache import Change
from dray.controllers.environment import Environment, QueueController
from dray.controllers.kinds import CLAIMS_FOR_VOLUMES, NODES, STORAGE_CLASSES, VOLUMES
from dray.controllers.volumes import decisions, host_path
from dray.controllers.volumes.decisions import Act, ClaimDecision
from dray.controllers.volumes.provisioning import Provisioning
from dray.controllers.volumes.reclaiming import Reclaiming

# The key of the class of host-path volumes.
_CLASS: Final = ("", "")


def _called(key: Key) -> str:
    if key == _CLASS:
        return f"StorageClass {host_path.CLASS_NAME}"
    return f"PersistentVolumeClaim {'/'.join(key)}" if key[0] else f"PersistentVolume {key[1]}"


class VolumeBinder(QueueController[Key]):
    def __init__(self, environment: Environment) -> None:
        super().__init__(environment)
        self._workers = environment.workers("persistent volumes", self.reconcile, called=_called, count=2)
        self._claims = environment.informers.of(CLAIMS_FOR_VOLUMES)
        self._volumes = environment.informers.of(VOLUMES)
        self._classes = environment.informers.of(STORAGE_CLASSES)
        self._nodes = environment.informers.of(NODES)
        self._provisioning = Provisioning(environment.client, self._classes.cache, self._nodes.cache)
        self._reclaiming = Reclaiming(environment.client, self._nodes.cache)
        self._told: dict[Key, str] = {}
        """The last message reported for each waiting claim."""
        self._claims.add_handler(self._claim_changed)
        self._volumes.add_handler(self._volume_changed)
        self._classes.add_handler(lambda change: self._look_at_waiting())
        self._nodes.add_handler(self._node_changed)

    # What happened

    def _claim_changed(self, change: Change) -> None:
        self._workers.queue.add(change.key)
        if volume := spec_of(change.object).get("volumeName"):
            self._workers.queue.add(("", volume))
        if change.type == "DELETED":
            self._told.pop(change.key, None)

    def _volume_changed(self, change: Change) -> None:
        self._workers.queue.add(change.key)
        reference = claim_reference(change.object)
        if reference:
            self._workers.queue.add((reference.get("namespace") or "", reference.get("name") or ""))
        elif change.type != "DELETED":
            self._look_at_waiting()

    def _look_at_waiting(self) -> None:
        for claim in self._claims.cache:
            if not spec_of(claim).get("volumeName"):
                self._workers.queue.add(key_of(claim))

    def _node_changed(self, change: Change) -> None:
        before, node = change.previous or {}, change.object
        if annotations_of(before) != annotations_of(node) or change.type == "DELETED":
            for volume in self._volumes.cache:
                if host_path.is_ours(volume) and status_of(volume).get("phase") == "Released":
                    self._workers.queue.add(key_of(volume))
        if VOLUME_DIRECTORY in annotations_of(node) and VOLUME_DIRECTORY not in annotations_of(before):
            self._workers.queue.add(_CLASS)

    # What is to be

    async def reconcile(self, key: Key) -> float | None:
        if key == _CLASS:
            await self._provisioning.make_class()
        elif key[0]:
            claim = self._claims.cache.get(key[1], namespace=key[0])
            if claim is not None and not is_deleting(claim):
                await self._settle_claim(claim)
        elif (volume := self._volumes.cache.get(key[1])) is not None:
            await self._settle_volume(volume)
        return None

    async def _settle_claim(self, claim: Object) -> None:
        volumes = {key_of(volume)[1]: volume for volume in self._volumes.cache}
        storage_class = self._classes.cache.get(class_name(claim) or "")
        node = self._nodes.cache.get(annotations_of(claim).get(SELECTED_NODE) or "")
        found = decisions.for_claim(claim, volumes, storage_class, node)
        if found.act is Act.BIND and found.volume is not None:
            await self._bind(claim, found.volume)
        elif found.act is Act.PROVISION and storage_class is not None:
            made = await self._provisioning.provision(claim, storage_class)
            if isinstance(made, ClaimDecision):
                self._tell(claim, made)
            else:
                self._events.normal(
                    claim, "ProvisioningSucceeded", f"Successfully provisioned volume {key_of(made)[1]}"
                )
        else:
            self._tell(claim, found)
            await self._set_phase(claim, "Lost" if found.act is Act.LOSE else "Pending")

    async def _bind(self, claim: Object, volume: Object) -> None:
        if claim_reference(volume).get("uid") != uid_of(claim):
            volume = await self._client.update(VOLUMES, _with_reference(volume, claim))
        if status_of(volume).get("phase") != "Bound":
            await self._client.patch_status(VOLUMES, volume, {"phase": "Bound"})
        name = key_of(volume)[1]
        if spec_of(claim).get("volumeName") != name or BIND_COMPLETED not in annotations_of(claim):
            notes = {**annotations_of(claim), BIND_COMPLETED: "yes"}
            if not spec_of(claim).get("volumeName"):
                notes[BOUND_BY_CONTROLLER] = "yes"
            metadata = {**claim["metadata"], "annotations": notes}
            spec = {**claim["spec"], "volumeName": name}
            claim = await self._client.update(CLAIMS_FOR_VOLUMES, {**claim, "metadata": metadata, "spec": spec})
        wanted = {
            "phase": "Bound",
            "accessModes": list(spec_of(volume).get("accessModes") or ()),
            "capacity": dict(spec_of(volume).get("capacity") or {}),
        }
        if attributes := spec_of(volume).get("volumeAttributesClassName"):
            wanted["currentVolumeAttributesClassName"] = attributes
        status = status_of(claim)
        # What a volume has grown to is told by whoever made it larger.
        if status.get("phase") != "Bound" or not status.get("capacity"):
            await self._client.patch_status(CLAIMS_FOR_VOLUMES, claim, wanted)

    async def _set_phase(self, claim: Object, phase: str) -> None:
        if status_of(claim).get("phase") != phase:
            await self._client.patch_status(CLAIMS_FOR_VOLUMES, claim, {"phase": phase})

    def _tell(self, claim: Object, found: ClaimDecision) -> None:
        """Sends an event, unless it was the last message for this claim."""
        if found.reason and self._told.get(key_of(claim)) != found.message:
            self._told[key_of(claim)] = found.message
            (self._events.warning if found.warn else self._events.normal)(claim, found.reason, found.message)

    async def _settle_volume(self, volume: Object) -> None:
        reference = claim_reference(volume)
        claim = self._claims.cache.get(reference.get("name") or "", namespace=reference.get("namespace") or "")
        phase = decisions.volume_phase(volume, claim)
        if phase != status_of(volume).get("phase"):
            volume = await self._client.patch_status(VOLUMES, volume, {"phase": phase})
        if decisions.is_to_be_reclaimed(volume, claim) and host_path.is_ours(volume):
            await self._reclaiming.reclaim(volume)


def _with_reference(volume: Object, claim: Object) -> Object:
    namespace, name = key_of(claim)
    reference = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": namespace,
        "name": name,
        "uid": uid_of(claim),
    }
    notes = dict(annotations_of(volume))
    if not claim_reference(volume):
        notes[BOUND_BY_CONTROLLER] = "yes"
    metadata = {**volume["metadata"], **({"annotations": notes} if notes else {})}
    return {**volume, "metadata": metadata, "spec": {**volume["spec"], "claimRef": reference}}
