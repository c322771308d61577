"""References of a pod: the secrets, config maps, claims and other objects that a node needs to run it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dray.api import volumes
from dray.api.objects import Object

_CONTAINERS = ("initContainers", "containers", "ephemeralContainers")
# Volume sources whose secret stands in a member of its own.
_SECRET_REFERENCES = ("cephfs", "flexVolume", "iscsi", "rbd", "scaleIO", "storageos")


def claims(pod: Object) -> set[str]:
    """Names of ResourceClaims: those it names, those made for it, those for its extended and node resources."""
    names = {claim.get("resourceClaimName") for claim in _list(pod, "spec", "resourceClaims")}
    names |= {entry.get("resourceClaimName") for entry in _list(pod, "status", "resourceClaimStatuses")}
    names |= {entry.get("resourceClaimName") for entry in _list(pod, "status", "nodeAllocatableResourceClaimStatuses")}
    extended = (pod.get("status") or {}).get("extendedResourceClaimStatus") or {}
    return _present({*names, extended.get("resourceClaimName")})


def secrets(pod: Object) -> set[str]:
    names: set[Any] = {item.get("name") for item in _list(pod, "spec", "imagePullSecrets")}
    for source in _environment(pod, "secretKeyRef", "secretRef"):
        names.add(source.get("name"))
    for volume in _list(pod, "spec", "volumes"):
        names.add((volume.get("secret") or {}).get("secretName"))
        names.add((volume.get("azureFile") or {}).get("secretName"))
        names.add(((volume.get("csi") or {}).get("nodePublishSecretRef") or {}).get("name"))
        names |= {((volume.get(kind) or {}).get("secretRef") or {}).get("name") for kind in _SECRET_REFERENCES}
        names |= {(source.get("secret") or {}).get("name") for source in _projected(volume)}
    return _present(names)


def config_maps(pod: Object) -> set[str]:
    names: set[Any] = {source.get("name") for source in _environment(pod, "configMapKeyRef", "configMapRef")}
    for volume in _list(pod, "spec", "volumes"):
        names.add((volume.get("configMap") or {}).get("name"))
        names |= {(source.get("configMap") or {}).get("name") for source in _projected(volume)}
    return _present(names)


def volume_claims(pod: Object) -> set[str]:
    """Names of PersistentVolumeClaims."""
    return {name for (_, name), _ in volumes.claims_of(pod)}


def service_account(pod: Object) -> str:
    return str((pod.get("spec") or {}).get("serviceAccountName") or "default")


def api_objects(pod: Object) -> str:
    """Returns a kind of object that the pod refers to, such as "secrets"; "" if none. For static pods."""
    references = {
        # Every pod is given the account `default`, which by itself carries nothing.
        "a service account": service_account(pod) != "default",
        "secrets": secrets(pod),
        "configmaps": config_maps(pod),
        "resourceclaims": _list(pod, "spec", "resourceClaims") or claims(pod),
        "persistentvolumeclaims": any(volume.get("persistentVolumeClaim") for volume in _list(pod, "spec", "volumes")),
        "clustertrustbundles": any(projections(pod, "clusterTrustBundle")),
        "service account tokens": any(projections(pod, "serviceAccountToken")),
    }
    return next((what for what, present in references.items() if present), "")


def projections(pod: Object, source: str) -> Iterator[Object]:
    """Yields the sources of this kind in projected volumes."""
    for volume in _list(pod, "spec", "volumes"):
        for projection in _projected(volume):
            if (found := projection.get(source)) is not None:
                yield found


def _environment(pod: Object, variable: str, whole: str) -> Iterator[Object]:
    for members in _CONTAINERS:
        for container in _list(pod, "spec", members):
            for entry in container.get("env") or ():
                yield (entry.get("valueFrom") or {}).get(variable) or {}
            for entry in container.get("envFrom") or ():
                yield entry.get(whole) or {}


def _projected(volume: Object) -> Iterator[Object]:
    yield from (volume.get("projected") or {}).get("sources") or ()


def _list(pod: Object, part: str, member: str) -> list[Any]:
    return list((pod.get(part) or {}).get(member) or ())


def _present(names: set[Any]) -> set[str]:
    return {name for name in names if name}
