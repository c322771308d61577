"""Which pods a quota is about."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

Object = dict[str, Any]


def has_scopes(quota: Object) -> bool:
    """Such a quota counts nothing but pods."""
    return bool(quota["spec"].get("scopes") or (quota["spec"].get("scopeSelector") or {}).get("matchExpressions"))


def covers(quota: Object, pod: Object) -> bool:
    """Whether the pod is in every scope of the quota."""
    return all(_is_in(requirement, pod) for requirement in _requirements(quota["spec"]))


def _requirements(spec: Object) -> Iterator[Object]:
    for scope in spec.get("scopes") or ():
        yield {"scopeName": scope, "operator": "Exists"}
    yield from (spec.get("scopeSelector") or {}).get("matchExpressions") or ()


def _is_in(requirement: Object, pod: Object) -> bool:
    scope = requirement.get("scopeName")
    if scope == "PriorityClass":
        return _has_priority(requirement, pod["spec"].get("priorityClassName") or "")
    test = _SCOPES.get(scope or "")
    return test is not None and test(pod)


def _has_priority(requirement: Object, name: str) -> bool:
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


def _is_terminating(pod: Object) -> bool:
    """It may not run forever. Nothing to do with being deleted."""
    return pod["spec"].get("activeDeadlineSeconds") is not None


def _is_best_effort(pod: Object) -> bool:
    told = (pod.get("status") or {}).get("qosClass")
    if told:
        return bool(told == "BestEffort")
    spec = pod["spec"]
    holders = [spec, *(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    return not any(
        name in ("cpu", "memory") and str(amount) not in ("0", "")
        for holder in holders
        for member in ("requests", "limits")
        for name, amount in ((holder.get("resources") or {}).get(member) or {}).items()
    )


def _looks_at_other_namespaces(pod: Object) -> bool:
    affinity = pod["spec"].get("affinity") or {}
    for member in ("podAffinity", "podAntiAffinity"):
        rules = affinity.get(member) or {}
        terms = list(rules.get("requiredDuringSchedulingIgnoredDuringExecution") or ())
        preferred = rules.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
        terms += [each.get("podAffinityTerm") or {} for each in preferred]
        if any(term.get("namespaces") or term.get("namespaceSelector") is not None for term in terms):
            return True
    return False


_SCOPES: Final[dict[str, Callable[[Object], bool]]] = {
    "Terminating": _is_terminating,
    "NotTerminating": lambda pod: not _is_terminating(pod),
    "BestEffort": _is_best_effort,
    "NotBestEffort": lambda pod: not _is_best_effort(pod),
    "CrossNamespacePodAffinity": _looks_at_other_namespaces,
}
