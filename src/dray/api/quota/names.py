"""Names in quotas, and the objects that each counts."""

from __future__ import annotations

from typing import Final

from dray.api.catalogue import KINDS, RESOURCE_GROUP, KindVersion

PODS: Final = "pods"
CLAIMS: Final = f"resourceclaims.{RESOURCE_GROUP}"
SERVICES: Final = "services"

_BY_QUALIFIED: Final = {kind.qualified: kind for kind in KINDS}
_COMPUTE: Final = ("cpu", "memory", "ephemeral-storage")
# Kinds of the core group whose number has a name of its own.
_PLAIN: Final = frozenset(
    {"configmaps", "persistentvolumeclaims", "replicationcontrollers", "resourcequotas", "secrets", "services"}
)


def counted(name: str) -> tuple[str, ...]:
    """The resources, as `plural.group`, whose objects take from a name; none where nobody counts it."""
    if name.startswith("count/"):
        return (name.removeprefix("count/"),)
    if name in _PLAIN:
        return (name,)
    if name in ("services.nodeports", "services.loadbalancers"):
        return (SERVICES,)
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
