"""Unix accounts of namespaces: pods of a namespace run as the user that the namespace names.

The annotations `dray.dev/run-as-user` and `dray.dev/run-as-group` of a namespace have the numbers. Pods that say
nothing get them; pods that ask for another user, for privileges or for capabilities are refused. On a node that runs
pods as processes, each person's pods are then processes of their own account.
"""

from __future__ import annotations

from typing import Final

from dray.api.objects import Object, annotations_of, mapping, mappings, sequence, spec_of
from dray.server.admission.attributes import Attributes

USER: Final = "dray.dev/run-as-user"
GROUP: Final = "dray.dev/run-as-group"
_CONTAINERS: Final = ("initContainers", "containers", "ephemeralContainers")
_OTHER_PARTS: Final = frozenset({"binding", "eviction", "status"})


def apply(attributes: Attributes) -> None:
    if attributes.subresource in _OTHER_PARTS:
        return
    namespace = attributes.context.namespace(attributes.namespace)
    wanted = {
        member: int(text)
        for member, name in (("runAsUser", USER), ("runAsGroup", GROUP))
        if (text := str(annotations_of(namespace or {}).get(name) or "")).isdecimal()
    }
    if not wanted:
        return
    spec = spec_of(attributes.obj)
    if attributes.old is None:
        spec["securityContext"] = {**wanted, **mapping(spec.get("securityContext"))}
    if problem := _problem(spec, wanted):
        user = wanted.get("runAsUser", wanted.get("runAsGroup"))
        raise attributes.forbid(f"{problem}, and pods of namespace {attributes.namespace} run as user {user}")


def _problem(spec: Object, wanted: dict[str, int]) -> str:
    """Returns what would let the pod run as somebody else; empty if nothing does."""
    contexts = [("spec.securityContext", mapping(spec.get("securityContext")))]
    for member in _CONTAINERS:
        for number, container in enumerate(mappings(spec.get(member))):
            contexts.append((f"spec.{member}[{number}].securityContext", mapping(container.get("securityContext"))))
    for place, context in contexts:
        for member, value in wanted.items():
            if context.get(member) not in (None, value):
                return f"{place}.{member} is {context[member]}"
        if context.get("privileged"):
            return f"{place}.privileged is true"
        if sequence(mapping(context.get("capabilities")).get("add")):
            return f"{place}.capabilities.add is not empty"
        if sequence(context.get("supplementalGroups")):
            return f"{place}.supplementalGroups is not empty"
    return ""
