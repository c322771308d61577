"""PodGroup and CompositePodGroup, and the members they share with the templates of a Workload."""

from __future__ import annotations

from dray.api import errors, names
from dray.api.objects import Object, mapping
from dray.api.rules import Rules
from dray.api.validation import fields
from dray.api.validation.fields import Errors

MAX_CLAIMS = 4
MAX_TOPOLOGY = 1
MAX_PRIORITY = 1_000_000_000
_PREEMPTION = ["Never", "PreemptLowerPriority"]
FIXED = (
    "schedulingConstraints",
    "resourceClaims",
    "disruptionMode",
    "priorityClassName",
    "priority",
    "preemptionPolicy",
)
"""Members that never change, of groups and of the templates of groups."""
_FIXED = ("parentCompositePodGroupName", "workloadRef", *FIXED)


def validate(group: Object, rules: Rules) -> Errors:
    spec = group["spec"]
    yield from _references(spec)
    if spec.get("parentCompositePodGroupName") is not None and spec.get("workloadRef") is None:
        yield errors.required("spec.workloadRef", "needed with parentCompositePodGroupName")
    yield from common(spec, "spec", count="minCount")


def validate_update(group: Object, old: Object, rules: Rules) -> Errors:
    """Validates an update: only the size of the gang may change."""
    spec, old_spec = group["spec"], old["spec"]
    for member in _FIXED:
        yield from fields.immutable(spec.get(member), old_spec.get(member), f"spec.{member}", declarative=True)
    yield from policy_update(spec["schedulingPolicy"], old_spec["schedulingPolicy"], "spec.schedulingPolicy")
    yield from _policy(spec["schedulingPolicy"], "spec.schedulingPolicy", "minCount")


def validate_status(group: Object, old: Object, rules: Rules) -> Errors:
    status = group["status"]
    yield from fields.conditions(status.get("conditions") or [], "status.conditions")
    known = {claim["name"] for claim in group["spec"].get("resourceClaims") or []}

    def check(entry: Object, path: str) -> Errors:
        if entry["name"] not in known:
            yield errors.invalid(
                f"{path}.name", entry["name"], "must match the name of an entry in spec.resourceClaims"
            )
        if entry.get("resourceClaimName") is not None:
            yield from fields.subdomain(entry["resourceClaimName"], f"{path}.resourceClaimName")

    entries = status.get("resourceClaimStatuses") or []
    yield from fields.limited(entries, MAX_CLAIMS, "status.resourceClaimStatuses", check, key=fields.by("name"))


def validate_composite(group: Object, rules: Rules) -> Errors:
    spec = group["spec"]
    yield from _references(spec)
    yield from common(spec, "spec", count="minGroupCount")


def validate_composite_update(group: Object, old: Object, rules: Rules) -> Errors:
    for member in (*_FIXED, "schedulingPolicy"):
        yield from fields.immutable(
            group["spec"].get(member), old["spec"].get(member), f"spec.{member}", declarative=True
        )


def validate_composite_status(group: Object, old: Object, rules: Rules) -> Errors:
    yield from fields.conditions(group["status"].get("conditions") or [], "status.conditions")


def _references(spec: Object) -> Errors:
    if spec.get("parentCompositePodGroupName") is not None:
        yield from fields.subdomain(spec["parentCompositePodGroupName"], "spec.parentCompositePodGroupName")
    reference = spec.get("workloadRef")
    if reference is not None:
        if not reference["workloadName"]:
            yield errors.required("spec.workloadRef.workloadName")
        else:
            yield from fields.subdomain(reference["workloadName"], "spec.workloadRef.workloadName")
        yield from fields.required_label(reference["templateName"], "spec.workloadRef.templateName")


def common(value: Object, path: str, *, count: str) -> Errors:
    """Validates the members that a group and its template share; `count` is the name of the size field."""
    yield from _policy(value["schedulingPolicy"], f"{path}.schedulingPolicy", count)
    topology = mapping(value.get("schedulingConstraints")).get("topology") or []
    yield from fields.limited(topology, MAX_TOPOLOGY, f"{path}.schedulingConstraints.topology", _topology)
    claims = value.get("resourceClaims") or []
    yield from fields.limited(claims, MAX_CLAIMS, f"{path}.resourceClaims", _claim, key=fields.by("name"))
    if value.get("disruptionMode") is not None:
        yield from fields.union(value["disruptionMode"], ("single", "all"), f"{path}.disruptionMode")
    class_name = value.get("priorityClassName")
    if class_name:
        yield from fields.subdomain(class_name, f"{path}.priorityClassName")
    if (value.get("priority") or 0) > MAX_PRIORITY:
        yield errors.invalid(f"{path}.priority", value["priority"], f"must be at most {MAX_PRIORITY}")
    yield from fields.enum(value.get("preemptionPolicy"), _PREEMPTION, f"{path}.preemptionPolicy")


def _policy(policy: Object, path: str, count: str) -> Errors:
    yield from fields.union(policy, ("basic", "gang"), path)
    gang = policy.get("gang")
    if gang is not None:
        if not gang[count]:
            yield errors.required(f"{path}.gang.{count}")
        elif gang[count] < 0:
            yield errors.invalid(f"{path}.gang.{count}", gang[count], "must be greater than zero")


def policy_update(policy: Object, old: Object, path: str) -> Errors:
    yield from fields.immutable(policy.get("basic"), old.get("basic"), f"{path}.basic", declarative=True)
    if (policy.get("gang") is None) != (old.get("gang") is None):
        change = "set" if old.get("gang") is None else "cleared"
        yield errors.invalid(f"{path}.gang", None, f"field cannot be {change} once created")


def _topology(constraint: Object, path: str) -> Errors:
    if not constraint["key"]:
        yield errors.required(f"{path}.key")
    elif not names.is_label_key(constraint["key"]):
        yield errors.invalid(f"{path}.key", constraint["key"], names.LABEL_KEY_DETAIL)


def _claim(claim: Object, path: str) -> Errors:
    yield from fields.required_label(claim["name"], f"{path}.name")
    members = ("resourceClaimName", "resourceClaimTemplateName")
    yield from fields.union(claim, members, path)
    for member in members:
        if claim.get(member) is not None:
            yield from fields.subdomain(claim[member], f"{path}.{member}")
