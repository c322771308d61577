"""Role, ClusterRole and their bindings as objects: what is filled in, and what is refused.

Their names are path segments, not DNS names: `system:node` is one.
"""

from __future__ import annotations

from typing import Any

from dray.api import errors
from dray.api.errors import FieldError
from dray.api.objects import Object
from dray.server.security.policy import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, GROUP, ROLE

Errors = list[FieldError]


def is_name(name: str) -> bool:
    return name not in ("", ".", "..") and "/" not in name and "%" not in name


def fill_defaults(obj: dict[str, Any]) -> None:
    """Fills in the API groups of a binding's role and subjects."""
    reference = obj.get("roleRef")
    if isinstance(reference, dict) and not reference.get("apiGroup"):
        reference["apiGroup"] = GROUP
    for subject in obj.get("subjects") or ():
        if subject.get("kind") in ("User", "Group") and not subject.get("apiGroup"):
            subject["apiGroup"] = GROUP


def validate(kind: str, new: Object, old: Object | None = None) -> Errors:
    """Returns the errors of a role or binding beyond its shape and metadata."""
    if kind in (ROLE, CLUSTER_ROLE):
        return _validate_role(kind, new)
    found = _validate_binding(kind, new)
    if old is not None and old.get("roleRef") != new.get("roleRef"):
        found.append(errors.invalid("roleRef", new.get("roleRef"), "cannot change roleRef"))
    return found


def _validate_role(kind: str, role: Object) -> Errors:
    found = []
    for index, rule in enumerate(role.get("rules") or ()):
        found += _validate_rule(rule, f"rules[{index}]", namespaced=kind == ROLE)
    aggregation = role.get("aggregationRule")
    if kind == CLUSTER_ROLE and aggregation is not None and not aggregation.get("clusterRoleSelectors"):
        what = "at least one clusterRoleSelector required if aggregationRule is non-nil"
        found.append(errors.required("aggregationRule.clusterRoleSelectors", what))
    return found


def _validate_rule(rule: Object, path: str, *, namespaced: bool) -> Errors:
    found = []
    if not rule.get("verbs"):
        found.append(errors.required(f"{path}.verbs", "verbs must contain at least one value"))
    urls = rule.get("nonResourceURLs")
    if urls:
        if namespaced:
            what = "namespaced rules cannot apply to non-resource URLs"
            found.append(errors.invalid(f"{path}.nonResourceURLs", urls, what))
        if rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"):
            what = "rules cannot apply to both regular resources and non-resource URLs"
            found.append(errors.invalid(f"{path}.nonResourceURLs", urls, what))
        return found
    if not rule.get("apiGroups"):
        found.append(errors.required(f"{path}.apiGroups", "resource rules must supply at least one api group"))
    if not rule.get("resources"):
        found.append(errors.required(f"{path}.resources", "resource rules must supply at least one resource"))
    return found


def _validate_binding(kind: str, binding: Object) -> Errors:
    reference = binding.get("roleRef") or {}
    kinds = [CLUSTER_ROLE] if kind == CLUSTER_ROLE_BINDING else [ROLE, CLUSTER_ROLE]
    found = []
    if reference.get("apiGroup") != GROUP:
        found.append(errors.not_supported("roleRef.apiGroup", reference.get("apiGroup") or "", [GROUP]))
    if reference.get("kind") not in kinds:
        found.append(errors.not_supported("roleRef.kind", reference.get("kind") or "", kinds))
    name = reference.get("name") or ""
    if not name:
        found.append(errors.required("roleRef.name"))
    elif not is_name(name):
        found.append(errors.invalid("roleRef.name", name, "may not be '.' or '..' or contain '/' or '%'"))
    for index, subject in enumerate(binding.get("subjects") or ()):
        found += _validate_subject(subject, f"subjects[{index}]", in_namespace=kind != CLUSTER_ROLE_BINDING)
    return found


def _validate_subject(subject: Object, path: str, *, in_namespace: bool) -> Errors:
    found = []
    kind, group = subject.get("kind"), subject.get("apiGroup") or ""
    if not subject.get("name"):
        found.append(errors.required(f"{path}.name"))
    if kind == "ServiceAccount":
        if group:
            found.append(errors.not_supported(f"{path}.apiGroup", group, [""]))
        if not in_namespace and not subject.get("namespace"):
            found.append(errors.required(f"{path}.namespace"))
    elif kind in ("User", "Group"):
        if group != GROUP:
            found.append(errors.not_supported(f"{path}.apiGroup", group, [GROUP]))
    else:
        found.append(errors.not_supported(f"{path}.kind", kind or "", ["ServiceAccount", "User", "Group"]))
    return found
