"""Checks of the level baseline: what lets a container out of its isolation in known ways."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Final

from dray.api.objects import Object, mapping, mappings, strings
from dray.api.pod_security.violations import (
    CheckPod,
    Violation,
    containers,
    containers_called,
    context_of,
    counted,
    has_user_namespace,
    names_of,
    quoted,
    setters,
)

_CAPABILITIES: Final = frozenset(
    (
        "AUDIT_WRITE CHOWN DAC_OVERRIDE FOWNER FSETID KILL MKNOD NET_BIND_SERVICE SETFCAP SETGID SETPCAP SETUID "
        "SYS_CHROOT"
    ).split()
)
_APPARMOR: Final = "container.apparmor.security.beta.kubernetes.io/"
_SECCOMP_OF_POD: Final = "seccomp.security.alpha.kubernetes.io/pod"
_SECCOMP_OF_CONTAINER: Final = "container.seccomp.security.alpha.kubernetes.io/"
_PROFILES: Final = ("RuntimeDefault", "Localhost")
_PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")


def app_armor(annotations: Mapping[str, str], spec: Object) -> Violation | None:
    in_pod, names, values = _profiles(spec, "appArmorProfile")
    set_by = [setters(in_pod, names)] if in_pod or names else []
    forbidden = sorted(
        f"{key}={json.dumps(value, ensure_ascii=False)}"
        for key, value in annotations.items()
        if key.startswith(_APPARMOR) and value not in ("", "runtime/default") and not value.startswith("localhost/")
    )
    if forbidden:
        set_by.append(counted("annotation", "annotations", forbidden))
    if not set_by:
        return None
    found = [*sorted(values), *forbidden]
    reason = counted("forbidden AppArmor profile", "forbidden AppArmor profiles", found)
    return Violation(reason, f"{' and '.join(set_by)} must not set AppArmor profile type to {quoted(found)}")


def _profiles(spec: Object, member: str) -> tuple[bool, list[str], set[str]]:
    """Whether the pod sets a profile of a type that is not allowed, which containers do, and the types."""
    bad: list[Object] = []
    values: set[str] = set()
    for holder in (spec, *containers(spec)):
        profile = context_of(holder).get(member)
        if profile is not None and mapping(profile).get("type") not in _PROFILES:
            bad.append(holder)
            values.add(str(mapping(profile).get("type") or ""))
    return any(holder is spec for holder in bad), names_of(holder for holder in bad if holder is not spec), values


def capabilities(annotations: Mapping[str, str], spec: Object) -> Violation | None:
    bad, added = [], set()
    for container in containers(spec):
        wanted = set(strings(mapping(context_of(container).get("capabilities")).get("add"))) - _CAPABILITIES
        if wanted:
            bad.append(str(container.get("name")))
            added |= wanted
    if not bad:
        return None
    detail = f"{containers_called(bad)} must not include {quoted(sorted(added))} in securityContext.capabilities.add"
    return Violation("non-default capabilities", detail)


def host_namespaces(annotations: Mapping[str, str], spec: Object) -> Violation | None:
    found = [f"{member}=true" for member in ("hostNetwork", "hostPID", "hostIPC") if spec.get(member)]
    return Violation("host namespaces", ", ".join(found)) if found else None


def host_path_volumes(annotations: Mapping[str, str], spec: Object) -> Violation | None:
    found = names_of(volume for volume in mappings(spec.get("volumes")) if volume.get("hostPath") is not None)
    if not found:
        return None
    return Violation("hostPath volumes", f"{counted('volume', 'volumes', found)} {quoted(found)}")


def host_ports(annotations: Mapping[str, str], spec: Object) -> Violation | None:
    bad: list[str] = []
    ports: set[str] = set()
    for container in containers(spec):
        used = {str(port["hostPort"]) for port in mappings(container.get("ports")) if port.get("hostPort")}
        if used:
            bad.append(str(container.get("name")))
            ports |= used
    if not bad:
        return None
    what = f"{counted('uses', 'use', bad)} {counted('hostPort', 'hostPorts', ports)} {', '.join(sorted(ports))}"
    return Violation("hostPort", f"{containers_called(bad)} {what}")


def probe_hosts(annotations: Mapping[str, str], spec: Object) -> Violation | None:
    bad: set[str] = set()
    hosts: set[str] = set()
    for container in containers(spec):
        lifecycle = mapping(container.get("lifecycle"))
        handlers = [mapping(container.get(member)) for member in _PROBES]
        handlers += [mapping(lifecycle.get(member)) for member in ("postStart", "preStop")]
        for handler in handlers:
            found = {str(mapping(handler.get(member)).get("host") or "") for member in ("httpGet", "tcpSocket")} - {""}
            if found:
                bad.add(str(container.get("name")))
                hosts |= found
    if not bad:
        return None
    noun = counted("probe or lifecycle host", "probe or lifecycle hosts", hosts)
    what = f"{counted('uses', 'use', bad)} {noun} {quoted(sorted(hosts))}"
    return Violation("probe or lifecycle host", f"{containers_called(sorted(bad))} {what}")


def privileged(annotations: Mapping[str, str], spec: Object) -> Violation | None:
    bad = names_of(container for container in containers(spec) if context_of(container).get("privileged"))
    if not bad:
        return None
    return Violation("privileged", f"{containers_called(bad)} must not set securityContext.privileged=true")


def proc_mount(annotations: Mapping[str, str], spec: Object) -> Violation | None:
    bad, values = [], set()
    for container in containers(spec):
        value = context_of(container).get("procMount")
        if value is not None and value != "Default":
            bad.append(str(container.get("name")))
            values.add(str(value))
    if not bad:
        return None
    detail = f"{containers_called(bad)} must not set securityContext.procMount to {quoted(sorted(values))}"
    return Violation("procMount", detail)


def unless_user_namespace(check: CheckPod) -> CheckPod:
    """Pods with a user namespace of their own are root in it only."""

    def relaxed(annotations: Mapping[str, str], spec: Object) -> Violation | None:
        return None if has_user_namespace(spec) else check(annotations, spec)

    return relaxed


def seccomp_annotations(annotations: Mapping[str, str], spec: Object) -> Violation | None:
    keys = {_SECCOMP_OF_POD, *(_SECCOMP_OF_CONTAINER + name for name in names_of(containers(spec)))}
    found = sorted(
        f"{key}={json.dumps(annotations[key], ensure_ascii=False)}"
        for key in keys & annotations.keys()
        if annotations[key] not in ("runtime/default", "docker/default")
        and not annotations[key].startswith("localhost/")
    )
    if not found:
        return None
    return Violation("seccompProfile", f"forbidden {counted('annotation', 'annotations', found)} {', '.join(found)}")


def seccomp(annotations: Mapping[str, str], spec: Object) -> Violation | None:
    in_pod, names, values = _profiles(spec, "seccompProfile")
    if not in_pod and not names:
        return None
    what = f"must not set securityContext.seccompProfile.type to {quoted(sorted(values))}"
    return Violation("seccompProfile", f"{setters(in_pod, names)} {what}")


def se_linux(*further: str) -> CheckPod:
    """Limits the type to those of containers, and leaves user and role alone."""
    allowed = {"", "container_t", "container_init_t", "container_kvm_t", *further}

    def check(annotations: Mapping[str, str], spec: Object) -> Violation | None:
        bad: list[Object] = []
        types: set[str] = set()
        members: set[str] = set()
        for holder in (spec, *containers(spec)):
            options = mapping(context_of(holder).get("seLinuxOptions"))
            wrong = {str(options.get("type") or "")} - allowed
            given = {member for member in ("user", "role") if options.get(member)}
            if wrong or given:
                bad.append(holder)
                types |= wrong
                members |= given
        if not bad:
            return None
        data = [f"{counted('type', 'types', types)} {quoted(sorted(types))}"] if types else []
        data += [f"{member} may not be set" for member in ("user", "role") if member in members]
        in_pod = any(holder is spec for holder in bad)
        set_by = setters(in_pod, names_of(holder for holder in bad if holder is not spec))
        detail = f"{set_by} set forbidden securityContext.seLinuxOptions: {'; '.join(data)}"
        return Violation("seLinuxOptions", detail)

    return check


def sysctls(*allowed: str) -> Callable[[Mapping[str, str], Object], Violation | None]:
    names = {name for line in allowed for name in line.split()}

    def check(annotations: Mapping[str, str], spec: Object) -> Violation | None:
        found = [name for name in names_of(mappings(context_of(spec).get("sysctls"))) if name not in names]
        return Violation("forbidden sysctls", ", ".join(found)) if found else None

    return check


def host_process(annotations: Mapping[str, str], spec: Object) -> Violation | None:
    def is_set(holder: Object) -> bool:
        return bool(mapping(context_of(holder).get("windowsOptions")).get("hostProcess"))

    bad = names_of(container for container in containers(spec) if is_set(container))
    if not bad and not is_set(spec):
        return None
    detail = f"{setters(is_set(spec), bad)} must not set securityContext.windowsOptions.hostProcess=true"
    return Violation("hostProcess", detail)
