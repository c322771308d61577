"""Security contexts of pods and containers: numbers of users and groups, profiles of seccomp and AppArmor, sysctls.

A profile of type Localhost is a file below the directory of profiles of the node. A name that leaves this directory
would let a pod choose any file of the machine as its profile, also one that it has written itself.
"""

from __future__ import annotations

import re
from typing import Final

from dray.api import errors
from dray.api.objects import Object, mapping, strings
from dray.api.quantity import INT32_MAX
from dray.api.repeats import repeats
from dray.api.validation import fields, paths
from dray.api.validation.fields import Errors

_PROFILES: Final = ["Localhost", "RuntimeDefault", "Unconfined"]
_PROC_MOUNTS: Final = ["Default", "Unmasked"]
_CHANGE_POLICIES: Final = ["Always", "OnRootMismatch"]
_GROUP_POLICIES: Final = ["Merge", "Strict"]
_SYSCTL: Final = re.compile(r"[a-z0-9](?:[-_a-z0-9]*[a-z0-9])?(?:[./][a-z0-9](?:[-_a-z0-9]*[a-z0-9])?)*")
_MAX_SYSCTL: Final = 253
_MAX_APPARMOR: Final = 4095
_ID_RANGE: Final = f"must be between 0 and {INT32_MAX}, inclusive"
_ADMINISTRATION: Final = frozenset({"SYS_ADMIN", "CAP_SYS_ADMIN"})


def validate_pod(context: Object, path: str) -> Errors:
    yield from _ids(context, ("runAsUser", "runAsGroup", "fsGroup"), path)
    for index, group in enumerate(context.get("supplementalGroups") or ()):
        yield from _id(group, f"{path}.supplementalGroups[{index}]")
    yield from fields.enum(context.get("fsGroupChangePolicy"), _CHANGE_POLICIES, f"{path}.fsGroupChangePolicy")
    yield from fields.enum(context.get("supplementalGroupsPolicy"), _GROUP_POLICIES, f"{path}.supplementalGroupsPolicy")
    yield from _sysctls(context.get("sysctls") or [], f"{path}.sysctls")
    yield from _profiles(context, path)


def validate_container(context: Object, path: str) -> Errors:
    yield from _ids(context, ("runAsUser", "runAsGroup"), path)
    yield from fields.enum(context.get("procMount"), _PROC_MOUNTS, f"{path}.procMount")
    if context.get("allowPrivilegeEscalation") is False:
        if context.get("privileged"):
            detail = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
            yield errors.invalid(path, "", detail)
        if not _ADMINISTRATION.isdisjoint(strings(mapping(context.get("capabilities")).get("add"))):
            detail = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"
            yield errors.invalid(path, "", detail)
    yield from _profiles(context, path)


def _ids(context: Object, members: tuple[str, ...], path: str) -> Errors:
    for member in members:
        if context.get(member) is not None:
            yield from _id(context[member], f"{path}.{member}")


def _id(number: int, path: str) -> Errors:
    if not 0 <= number <= INT32_MAX:
        yield errors.invalid(path, number, _ID_RANGE)


def _sysctls(sysctls: list[Object], path: str) -> Errors:
    repeated = repeats(str(setting.get("name") or "").replace("/", ".") for setting in sysctls)
    for index, (sysctl, is_repeated) in enumerate(zip(sysctls, repeated, strict=True)):
        name, at = str(sysctl.get("name") or ""), f"{path}[{index}].name"
        if not name:
            yield errors.required(at)
        elif len(name) > _MAX_SYSCTL or not _SYSCTL.fullmatch(name):
            detail = f"must have at most {_MAX_SYSCTL} characters and match regex {_SYSCTL.pattern}"
            yield errors.invalid(at, name[:_MAX_SYSCTL], detail)
        elif is_repeated:
            yield errors.duplicate(at, name)


def _profiles(context: Object, path: str) -> Errors:
    for member, system in (("seccompProfile", "seccomp"), ("appArmorProfile", "AppArmor")):
        profile = context.get(member)
        if profile is not None:
            yield from _profile(mapping(profile), f"{path}.{member}", system)


def _profile(profile: Object, path: str, system: str) -> Errors:
    yield from fields.enum(profile.get("type"), _PROFILES, f"{path}.type", required=True)
    file, at = profile.get("localhostProfile"), f"{path}.localhostProfile"
    if profile.get("type") != "Localhost":
        if file is not None:
            yield errors.invalid(at, file, f"can only be set when {system} type is Localhost")
    elif not file:
        yield errors.required(at, f"must be set when {system} type is Localhost")
    elif system == "seccomp":
        yield from paths.descending(file, at)
    elif file != file.strip() or len(file) > _MAX_APPARMOR:
        yield errors.invalid(at, file, f"must have at most {_MAX_APPARMOR} characters, and no white space around it")
