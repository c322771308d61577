"""Claims for volumes (PersistentVolumeClaims), and where a pod can be because of them.

A pod waits until its claims exist and are bound. Of a bound claim, the node affinity and the zone of the volume say
which nodes reach it. A claim that waits for its first consumer is given the node of the pod, if its class can provision
a volume there, and must be bound before the pod is. What cannot be read (volumes, classes) is no obstacle.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from dray.allocation import node_selectors
from dray.allocation.node_selectors import NodeSelectorError
from dray.api.objects import Object, mapping, mappings, strings, walk
from dray.scheduling.interests import waiting_key
from dray.scheduling.model import Key, Node, key_of

PLURAL: Final = "persistentvolumeclaims"
VOLUMES: Final = "persistentvolumes"
CLASSES: Final = "storageclasses"
ANY_VOLUME: Final = waiting_key(VOLUMES, ("", ""))
"""Who waits for that is told of every new volume or class."""
SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"

OUT_OF_REACH: Final = "node(s) didn't match PersistentVolume's node affinity"
OTHER_ZONE: Final = "node(s) had no available volume zone"
NOT_PROVISIONED: Final = "node(s) didn't find available persistent volumes to bind"
UNBOUND: Final = "pod has unbound immediate PersistentVolumeClaims"

_BOUND: Final = "pv.kubernetes.io/bind-completed"
_NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"
_CLASS: Final = "volume.beta.kubernetes.io/storage-class"
_ZONES: Final = {
    "topology.kubernetes.io/zone": "failure-domain.beta.kubernetes.io/zone",
    "topology.kubernetes.io/region": "failure-domain.beta.kubernetes.io/region",
}


@dataclass(frozen=True, slots=True)
class Reach:
    """Where the volumes of a pod can be used."""

    volumes: tuple[Object, ...]
    """Those that its claims are bound to."""
    waiting: tuple[tuple[Object, Object], ...]
    """Claims that wait for their first consumer, with their classes."""

    def obstacle(self, node: Node) -> str | None:
        for claim, storage_class in self.waiting:
            selected = _annotations(claim).get(SELECTED_NODE)
            if (selected and selected != node.name) or not _provisions(storage_class, node.labels):
                return NOT_PROVISIONED
        for volume in self.volumes:
            if not _matches(walk(volume, "spec", "nodeAffinity").get("required"), node):
                return OUT_OF_REACH
            if not _in_zone(volume, node.labels):
                return OTHER_ZONE
        return None


class VolumeClaims:
    def __init__(self) -> None:
        self.known = False
        """Whether it is known which there are; until then nobody waits for one."""
        self.volumes_known = False
        """Whether volumes and classes are; until then it is not asked what claims are bound to."""
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

    def problem(self, pod: Object) -> tuple[str, tuple[Key, ...]] | None:
        """What is wrong with the first of the pod's claims that cannot be used, in the words of Kubernetes, and what to
        wait for."""
        if not pod["spec"].get("volumes") or not self.known:
            return None
        for key, own in _claims_of(pod):
            claim = self._claims.get(key)
            text = self._problem(pod, claim, key[1], own=own)
            if not text and claim is not None and self.volumes_known:
                text = self._unusable(claim)
            if text:
                return text, (waiting_key(PLURAL, key), ANY_VOLUME)
        return None

    def reach(self, pod: Object) -> Reach | None:
        """None where the pod's volumes, all of which can be used, do not care about nodes."""
        if not pod["spec"].get("volumes") or not (self.known and self.volumes_known):
            return None
        claims = [self._claims[key] for key, _ in _claims_of(pod)]
        waiting = tuple((claim, self._class_of(claim) or {}) for claim in claims if not is_bound(claim))
        bound = [self._volumes[claim["spec"]["volumeName"]] for claim in claims if is_bound(claim)]
        found = Reach(tuple(volume for volume in bound if _cares(volume)), waiting)
        return found if found.volumes or found.waiting else None

    def _problem(self, pod: Object, claim: Object | None, name: str, *, own: bool) -> str:
        if claim is None and own:
            return f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{name}"'
        if claim is None:
            return f'persistentvolumeclaim "{name}" not found'
        if mapping(claim.get("status")).get("phase") == "Lost":
            return _lost(name, mapping(claim.get("spec")).get("volumeName"))
        if claim["metadata"].get("deletionTimestamp"):
            return f'persistentvolumeclaim "{name}" is being deleted'
        if own and not _belongs(claim, pod):
            namespace, of = pod["metadata"].get("namespace") or "", pod["metadata"]["name"]
            return f"PVC {namespace}/{name} was not created for pod {namespace}/{of} (pod is not owner)"
        return ""

    def _unusable(self, claim: Object) -> str:
        """What is wrong with a claim that is there, as far as its volume goes."""
        name, volume = claim["metadata"]["name"], mapping(claim.get("spec")).get("volumeName")
        if is_bound(claim):
            return _lost(name, volume) if volume not in self._volumes else ""
        storage_class = self._class_of(claim)
        if volume or storage_class is None or storage_class.get("volumeBindingMode") != "WaitForFirstConsumer":
            return UNBOUND
        if storage_class.get("provisioner") in (None, "", _NO_PROVISIONER):
            title = storage_class["metadata"]["name"]
            return (
                f'persistentvolumeclaim "{name}" waits for its first consumer, and storage class "{title}" provisions'
                " nothing: bind the claim to a volume, which this scheduler does not do"
            )
        return ""

    def _class_of(self, claim: Object) -> Object | None:
        name = _annotations(claim).get(_CLASS) or mapping(claim.get("spec")).get("storageClassName")
        return self._classes.get(name) if isinstance(name, str) else None


def is_bound(claim: Object) -> bool:
    return bool(mapping(claim.get("spec")).get("volumeName")) and _BOUND in _annotations(claim)


def _lost(name: str, volume: object) -> str:
    return f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{volume or ""}"'


def _claims_of(pod: Object) -> Iterator[tuple[Key, bool]]:
    """The keys of the pod's claims, each with whether it is made for the pod alone."""
    namespace = pod["metadata"].get("namespace") or ""
    for volume in mappings(pod["spec"].get("volumes")):
        if "ephemeral" in volume:
            yield (namespace, f"{pod['metadata']['name']}-{volume.get('name')}"), True
        elif name := mapping(volume.get("persistentVolumeClaim")).get("claimName"):
            yield (namespace, str(name)), False


def _annotations(claim: Object) -> Object:
    return mapping(claim["metadata"].get("annotations"))


def _cares(volume: Object) -> bool:
    labels = mapping(volume["metadata"].get("labels"))
    return bool(walk(volume, "spec", "nodeAffinity").get("required")) or any(
        new in labels or old in labels for new, old in _ZONES.items()
    )


def _matches(selector: Object | None, node: Node) -> bool:
    try:
        return selector is None or node_selectors.matches(selector, node.name, node.labels)
    except NodeSelectorError:
        return False


def _in_zone(volume: Object, labels: Mapping[str, str]) -> bool:
    """Zones and regions of a volume, several of them joined by two underscores; a node may be without either."""
    if not any(new in labels or old in labels for new, old in _ZONES.items()):
        return True
    for new, old in _ZONES.items():
        wanted = next((value for key, value in _labels(volume) if key in (new, old)), None)
        if wanted is not None and (labels.get(new) or labels.get(old)) not in wanted.split("__"):
            return False
    return True


def _labels(volume: Object) -> list[tuple[str, str]]:
    return [(key, str(value)) for key, value in mapping(volume["metadata"].get("labels")).items()]


def _provisions(storage_class: Object, labels: Mapping[str, str]) -> bool:
    """Whether the class makes volumes for a node with those labels."""
    terms = mappings(storage_class.get("allowedTopologies"))
    return not terms or any(
        all(labels.get(str(each.get("key"))) in strings(each.get("values")) for each in expressions)
        for term in terms
        if (expressions := mappings(term.get("matchLabelExpressions")))
    )


def _belongs(claim: Object, pod: Object) -> bool:
    owners = mappings(claim["metadata"].get("ownerReferences"))
    return any(each.get("controller") and each.get("uid") == pod["metadata"].get("uid") for each in owners)
