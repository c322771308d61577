"""Checks that the level restricted adds: what a hardened pod must say of itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from dray.api.objects import Object, mapping, mappings, strings
from dray.api.pod_security import baseline
from dray.api.pod_security.violations import (
    CheckPod,
    Violation,
    containers,
    containers_called,
    context_of,
    counted,
    is_windows,
    names_of,
    quoted,
    setters,
)

_VOLUMES: Final = frozenset(
    "configMap csi downwardAPI emptyDir ephemeral image persistentVolumeClaim projected secret".split()
)
_OTHER_VOLUMES: Final = (
    "hostPath gcePersistentDisk awsElasticBlockStore gitRepo nfs iscsi glusterfs rbd flexVolume cinder cephfs flocker "
    "fc azureFile vsphereVolume quobyte azureDisk photonPersistentDisk portworxVolume scaleIO storageos"
).split()


def unless_windows(check: CheckPod) -> CheckPod:
    """Pods of Windows cannot say what this check asks for."""

    def relaxed(annotations: Mapping[str, str], spec: Object) -> Violation | None:
        return None if is_windows(spec) else check(annotations, spec)

    return relaxed


def privilege_escalation(annotations: Mapping[str, str], spec: Object) -> Violation | None:
    bad = names_of(
        container
        for container in containers(spec)
        if context_of(container).get("allowPrivilegeEscalation") is not False
    )
    if not bad:
        return None
    detail = f"{containers_called(bad)} must set securityContext.allowPrivilegeEscalation=false"
    return Violation("allowPrivilegeEscalation != false", detail)


def capabilities(annotations: Mapping[str, str], spec: Object) -> Violation | None:
    missing, adding, added = [], [], set()
    for container in containers(spec):
        name, found = str(container.get("name")), mapping(context_of(container).get("capabilities"))
        if "ALL" not in strings(found.get("drop")):
            missing.append(name)
        if wanted := set(strings(found.get("add"))) - {"NET_BIND_SERVICE"}:
            adding.append(name)
            added |= wanted
    details = []
    if missing:
        details.append(f'{containers_called(missing)} must set securityContext.capabilities.drop=["ALL"]')
    if adding:
        what = f"must not include {quoted(sorted(added))} in securityContext.capabilities.add"
        details.append(f"{containers_called(adding)} {what}")
    return Violation("unrestricted capabilities", "; ".join(details)) if details else None


def volumes(annotations: Mapping[str, str], spec: Object) -> Violation | None:
    bad, types = [], set()
    for volume in mappings(spec.get("volumes")):
        sources = {member for member, value in volume.items() if value is not None}
        if not sources & _VOLUMES:
            bad.append(str(volume.get("name")))
            types.add(next((volume_type for volume_type in _OTHER_VOLUMES if volume_type in sources), "unknown"))
    if not bad:
        return None
    noun = counted("restricted volume type", "restricted volume types", types)
    what = f"{counted('uses', 'use', bad)} {noun} {quoted(sorted(types))}"
    return Violation("restricted volume types", f"{counted('volume', 'volumes', bad)} {quoted(bad)} {what}")


def run_as_non_root(annotations: Mapping[str, str], spec: Object) -> Violation | None:
    of_pod = context_of(spec).get("runAsNonRoot")
    said = [(str(container.get("name")), context_of(container).get("runAsNonRoot")) for container in containers(spec)]
    bad = [name for name, value in said if value is False]
    if of_pod is False or bad:
        detail = f"{setters(of_pod is False, bad)} must not set securityContext.runAsNonRoot=false"
        return Violation("runAsNonRoot != true", detail)
    silent = [name for name, value in said if value is None]
    if of_pod or not silent:
        return None
    detail = f"pod or {containers_called(silent)} must set securityContext.runAsNonRoot=true"
    return Violation("runAsNonRoot != true", detail)


def run_as_user(annotations: Mapping[str, str], spec: Object) -> Violation | None:
    in_pod = context_of(spec).get("runAsUser") == 0
    bad = names_of(container for container in containers(spec) if context_of(container).get("runAsUser") == 0)
    if not in_pod and not bad:
        return None
    return Violation("runAsUser=0", f"{setters(in_pod, bad)} must not set runAsUser=0")


def seccomp(annotations: Mapping[str, str], spec: Object) -> Violation | None:
    if (found := baseline.seccomp(annotations, spec)) is not None:
        return found
    if context_of(spec).get("seccompProfile") is not None:
        return None
    silent = names_of(
        container for container in containers(spec) if context_of(container).get("seccompProfile") is None
    )
    if not silent:
        return None
    what = 'must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost"'
    return Violation("seccompProfile", f"pod or {containers_called(silent)} {what}")
