"""Unix accounts of namespaces: pods of a namespace run as the user that the namespace names.

The annotations `dray.dev/run-as-user` and `dray.dev/run-as-group` of a namespace have the numbers. Pods that say
nothing get them, and no program that a pod starts gets more rights by its setuid bit: a pod may mount files of its own
over /etc/passwd. Pods that ask for another user or group, for privileges, for capabilities or for paths of the host
are refused. A path of the host would be mounted by root, past the permissions of the directories above it.
On a node that runs pods as processes, each person's pods are then processes of their own account.

A pod that is there already is not checked again: its containers cannot change, and an update that is refused could
keep it from being deleted. Ephemeral containers that are added to it are checked.
"""

from __future__ import annotations

from typing import Final

from dray.api.objects import Object, annotations_of, mapping, mappings, sequence, spec_of
from dray.server.admission.attributes import Attributes

USER: Final = "dray.dev/run-as-user"
GROUP: Final = "dray.dev/run-as-group"
_MEMBERS: Final = (("runAsUser", USER), ("runAsGroup", GROUP))
_CONTAINERS: Final = ("initContainers", "containers", "ephemeralContainers")
_EPHEMERAL: Final = "ephemeralContainers"
_ESCALATION: Final = "allowPrivilegeEscalation"


def apply(attributes: Attributes) -> None:
    if attributes.subresource != ("" if attributes.old is None else _EPHEMERAL.lower()):
        return
    account = _account(attributes)
    if not account:
        return
    spec = spec_of(attributes.obj)
    if attributes.old is None:
        spec["securityContext"] = {**account, **_said(spec)}
        problem = _volume_problem(spec) or _pod_problem(mapping(spec["securityContext"]), account)
        added = [(member, number) for member in _CONTAINERS for number in range(len(mappings(spec.get(member))))]
    else:
        problem = ""
        known = {container.get("name") for container in mappings(spec_of(attributes.old).get(_EPHEMERAL))}
        found = enumerate(mappings(spec.get(_EPHEMERAL)))
        added = [(_EPHEMERAL, number) for number, each in found if each.get("name") not in known]
    for member, number in added:
        container = spec[member][number]
        # The pod may be older than the account of its namespace.
        given = account if member == _EPHEMERAL else {}
        context = {_ESCALATION: False, **given, **_said(container)}
        container["securityContext"] = context
        problem = problem or _problem(f"spec.{member}[{number}].securityContext", context, account)
    if problem:
        user = account.get("runAsUser", account.get("runAsGroup"))
        raise attributes.forbid(f"{problem}, and pods of namespace {attributes.namespace} run as user {user}")


def _said(owner: Object) -> Object:
    """Returns the security context of a pod or container without members that are null, which say nothing."""
    context = mapping(owner.get("securityContext"))
    return {member: value for member, value in context.items() if value is not None}


def _account(attributes: Attributes) -> dict[str, int]:
    """Returns the numbers that the namespace names; refuses the pod if one of them is no number."""
    found = {}
    annotations = annotations_of(attributes.context.namespace(attributes.namespace) or {})
    for member, name in _MEMBERS:
        text = str(annotations.get(name) or "")
        if text and not text.isdecimal():
            problem = f"annotation {name} of namespace {attributes.namespace} is not the number of an account"
            raise attributes.forbid(f"{problem}: {text[:100]!r}")
        if text:
            found[member] = int(text)
    return found


def _volume_problem(spec: Object) -> str:
    for number, volume in enumerate(mappings(spec.get("volumes"))):
        if "hostPath" in volume:
            return f"spec.volumes[{number}].hostPath is a path of the host"
    return ""


def _pod_problem(context: Object, account: dict[str, int]) -> str:
    place = "spec.securityContext"
    if context.get("fsGroup") not in (None, account.get("runAsGroup")):
        return f"{place}.fsGroup is {context['fsGroup']}"
    if sequence(context.get("supplementalGroups")):
        return f"{place}.supplementalGroups is not empty"
    return _problem(place, context, account)


def _problem(place: str, context: Object, account: dict[str, int]) -> str:
    """Returns the field that would let a container run as another user; empty if there is none."""
    for member, _ in _MEMBERS:
        # Without a group in the namespace, the node uses the group of the account.
        free = member == "runAsUser" and member not in account
        if not free and context.get(member) not in (None, account.get(member)):
            return f"{place}.{member} is {context[member]}"
    if context.get("privileged"):
        return f"{place}.privileged is true"
    if context.get(_ESCALATION):
        return f"{place}.{_ESCALATION} is true"
    if sequence(mapping(context.get("capabilities")).get("add")):
        return f"{place}.capabilities.add is not empty"
    return ""
