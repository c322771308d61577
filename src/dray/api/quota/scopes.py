"""Quota scopes: which pods and volume claims a quota covers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from dray.api.objects import Object, mapping, spec_of, status_of
from dray.api.pod_defaults import qos_class


class Scoped(NamedTuple):
    """The properties of a pod that decide its scopes."""

    is_terminating: bool
    is_best_effort: bool
    crosses_namespaces: bool
    priority_class: str


class ScopedVolume(NamedTuple):
    """The VolumeAttributesClasses that a claim for a volume names: asked for, in force, or on the way."""

    classes: frozenset[str]


def scoped(pod: Object) -> Scoped:
    spec = pod["spec"]
    return Scoped(
        is_terminating=is_terminating(pod),
        is_best_effort=(status_of(pod).get("qosClass") or qos_class(spec)) == "BestEffort",
        crosses_namespaces=_looks_at_other_namespaces(mapping(spec.get("affinity"))),
        priority_class=spec.get("priorityClassName") or "",
    )


def scoped_volume(claim: Object) -> ScopedVolume:
    told = status_of(claim)
    named = (
        spec_of(claim).get("volumeAttributesClassName"),
        told.get("currentVolumeAttributesClassName"),
        mapping(told.get("modifyVolumeStatus")).get("targetVolumeAttributesClassName"),
    )
    return ScopedVolume(frozenset(name for name in named if name))


def is_terminating(pod: Object) -> bool:
    """Returns True if the pod has `activeDeadlineSeconds`. Deletion does not matter."""
    return pod["spec"].get("activeDeadlineSeconds") is not None


def covers(quota: Object, counted: Scoped | ScopedVolume | None) -> bool:
    """Whether an object is in every scope of the quota; None stands for one of a kind that is in no scope at all."""
    return all(_is_in(requirement, counted) for requirement in _requirements(quota["spec"]))


def _requirements(spec: Object) -> Iterator[Object]:
    for scope in spec.get("scopes") or ():
        yield {"scopeName": scope, "operator": "Exists"}
    yield from mapping(spec.get("scopeSelector")).get("matchExpressions") or ()


def _is_in(requirement: Object, counted: Scoped | ScopedVolume | None) -> bool:
    scope = requirement.get("scopeName")
    if isinstance(counted, ScopedVolume):
        return scope == "VolumeAttributesClass" and any(
            _names_class(requirement, name) for name in counted.classes or ("",)
        )
    if counted is None or scope == "VolumeAttributesClass":
        return False
    if scope == "PriorityClass":
        return _names_class(requirement, counted.priority_class)
    test = _SCOPES.get(scope or "")
    return test is not None and test(counted)


def _names_class(requirement: Object, name: str) -> bool:
    values = requirement.get("values") or ()
    match requirement.get("operator"):
        case "Exists":
            return bool(name)
        case "DoesNotExist":
            return not name
        case "In":
            return name in values
        case "NotIn":
            return name not in values
    return False


def _looks_at_other_namespaces(affinity: Object) -> bool:
    for member in ("podAffinity", "podAntiAffinity"):
        rules = mapping(affinity.get(member))
        terms = list(rules.get("requiredDuringSchedulingIgnoredDuringExecution") or ())
        preferred = rules.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
        terms += [mapping(weighted.get("podAffinityTerm")) for weighted in preferred]
        if any(term.get("namespaces") or term.get("namespaceSelector") is not None for term in terms):
            return True
    return False


_SCOPES: Final[dict[str, Callable[[Scoped], bool]]] = {
    "Terminating": lambda pod: pod.is_terminating,
    "NotTerminating": lambda pod: not pod.is_terminating,
    "BestEffort": lambda pod: pod.is_best_effort,
    "NotBestEffort": lambda pod: not pod.is_best_effort,
    "CrossNamespacePodAffinity": lambda pod: pod.crosses_namespaces,
}
