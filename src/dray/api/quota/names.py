"""Names in quotas, the objects that each counts, and what it demands that containers state."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from dray.api.catalogue import KINDS, RESOURCE_GROUP, KindVersion
from dray.api.objects import Object, mapping

PODS: Final = "pods"
CLAIMS: Final = f"resourceclaims.{RESOURCE_GROUP}"
SERVICES: Final = "services"
VOLUMES: Final = "persistentvolumeclaims"
OF_STORAGE_CLASS: Final = ".storageclass.storage.k8s.io/"

_BY_QUALIFIED: Final = {kind.qualified: kind for kind in KINDS}
_COMPUTE: Final = ("cpu", "memory", "ephemeral-storage")
# Kinds of the core group whose number has a name of its own.
_PLAIN: Final = frozenset(
    {"configmaps", "persistentvolumeclaims", "replicationcontrollers", "resourcequotas", "secrets", "services"}
)
# The names of quotas that need a value in every container, with the member that holds it.
_STATED: Final = {
    "cpu": ("requests", "cpu"),
    "memory": ("requests", "memory"),
    "requests.cpu": ("requests", "cpu"),
    "requests.memory": ("requests", "memory"),
    "limits.cpu": ("limits", "cpu"),
    "limits.memory": ("limits", "memory"),
}


def counted(name: str) -> tuple[str, ...]:
    """The resources, as `plural.group`, whose objects take from a name; none where nobody counts it."""
    if name.startswith("count/"):
        return (name.removeprefix("count/"),)
    if name in _PLAIN:
        return (name,)
    if name in ("services.nodeports", "services.loadbalancers"):
        return (SERVICES,)
    if name == "requests.storage" or OF_STORAGE_CLASS in name:
        return (VOLUMES,)
    if name.endswith(".deviceclass.resource.k8s.io/devices"):
        return (CLAIMS,)
    plain = name.removeprefix("requests.").removeprefix("limits.")
    if name == PODS or plain in _COMPUTE or plain.startswith("hugepages-"):
        return (PODS,)
    if name.startswith("requests.") and "/" in plain:
        # Extended resources: asked for by pods, or by claims for the class that serves them.
        return (PODS, CLAIMS)
    return ()


def known(qualified: str) -> KindVersion | None:
    """The resource in the version that is stored, if the catalogue has it."""
    kind = _BY_QUALIFIED.get(qualified)
    return kind.version(kind.storage) if kind is not None and kind.namespaced else None


def unstated(pod: Object, names: Iterable[str]) -> str:
    """Returns the containers that must state cpu or memory and do not, by resource; "" if none.

    Kubernetes does not require it of a pod with pod-level resources.
    """
    spec = pod["spec"]
    if _states_as_a_whole(mapping(spec.get("resources"))):
        return ""
    containers = [*spec["containers"], *(spec.get("initContainers") or ())]
    found = []
    for name in sorted(_STATED.keys() & set(names)):
        member, resource = _STATED[name]
        without = {
            container["name"] for container in containers if resource not in mapping(container["resources"].get(member))
        }
        if without:
            found.append(f"{name} for: {','.join(sorted(without))}")
    return "; ".join(found)


def _states_as_a_whole(resources: Object) -> bool:
    return any(
        name in ("cpu", "memory") or name.startswith("hugepages-")
        for member in ("requests", "limits")
        for name in resources.get(member) or ()
    )
