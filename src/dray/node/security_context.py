"""Security context of a container: that of its pod, with what the container says itself over it. Pure."""

from __future__ import annotations

from pathlib import Path

from dray.api.objects import Object, mapping, mappings, spec_of
from dray.node.errors import SetupError
from dray.node.runtimes.configs import Security


def security_context(pod: Object, container: Object) -> Object:
    """Merges the security contexts of pod and container.

    Raises SetupError for runAsNonRoot with user 0. Without `runAsUser` the runtime determines the user.
    """
    found = {**mapping(spec_of(pod).get("securityContext")), **mapping(container.get("securityContext"))}
    if found.get("runAsNonRoot") and found.get("runAsUser") == 0:
        problem = "container's runAsUser breaks non-root policy"
        message = f"{problem} (container: {container['name']}); give it a runAsUser that is not 0"
        raise SetupError("CreateContainerConfigError", message)
    return found


def security_of(context: Object, profiles: Path) -> Security:
    """Returns the security settings for the runtime; `profiles` is the directory of seccomp profiles.

    Raises SetupError for a profile outside of it.
    """
    capabilities = mapping(context.get("capabilities"))
    profile = mapping(context.get("seccompProfile"))
    file = Path(str(profile.get("localhostProfile") or ""))
    if file.is_absolute() or ".." in file.parts:
        raise SetupError("CreateContainerConfigError", f"seccomp profile {file} is not below {profiles}")
    seccomp = {"Unconfined": "unconfined", "Localhost": str(profiles / file)}
    return Security(
        privileged=bool(context.get("privileged")),
        added_capabilities=tuple(map(str, capabilities.get("add") or ())),
        dropped_capabilities=tuple(map(str, capabilities.get("drop") or ())),
        read_only_root=bool(context.get("readOnlyRootFilesystem")),
        no_new_privileges=context.get("allowPrivilegeEscalation") is False,
        run_as_non_root=bool(context.get("runAsNonRoot")),
        seccomp=seccomp.get(str(profile.get("type")), ""),
    )


def groups_of(context: Object) -> tuple[int, ...]:
    found = [int(group) for group in context.get("supplementalGroups") or ()]
    if context.get("fsGroup") is not None:
        found.append(int(context["fsGroup"]))
    return tuple(found)


def common_user(pod: Object) -> int | None:
    """Returns the user that all containers run as; None if they differ or a container names none."""
    spec = spec_of(pod)
    given = mapping(spec.get("securityContext")).get("runAsUser")
    containers = (*mappings(spec.get("initContainers")), *mappings(spec.get("containers")))
    users = {mapping(container.get("securityContext")).get("runAsUser", given) for container in containers}
    (user, *others) = users or {None}
    return None if others or user is None else int(user)
