"""Rows of services, quotas, budgets, roles and bindings."""

from __future__ import annotations

from typing import Any

from dray.api.catalogue import ADMISSION_GROUP, RBAC_GROUP
from dray.api.objects import Object, mapping, status_of, walk
from dray.api.tables.column import AGE, NAME, NONE, Column


def _amounts(prefix: str, *, requests: bool) -> Any:
    """`used/hard` of each resource; limits and everything else stand in columns of their own."""

    def cell(quota: Object, now: str) -> str:
        state = status_of(quota)
        hard, used = mapping(quota["spec"].get("hard")), mapping(state.get("used"))
        names = sorted(name for name in hard if name.startswith(prefix) is not requests)
        return ", ".join(f"{name}: {used.get(name, '0')}/{hard[name]}" for name in names)

    return cell


def _ports(service: Object, now: str) -> str:
    shown = []
    for port in service["spec"].get("ports") or []:
        node = f":{port['nodePort']}" if port.get("nodePort") else ""
        shown.append(f"{port['port']}{node}/{port.get('protocol', 'TCP')}")
    return ",".join(shown) or NONE


def _selector(service: Object, now: str) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted(mapping(service["spec"].get("selector")).items())) or NONE


def _bound(member: str) -> Any:
    def cell(budget: Object, now: str) -> str:
        value = budget["spec"].get(member)
        return "N/A" if value is None else str(value)

    return cell


def _role(binding: Object, now: str) -> str:
    return f"{binding['roleRef']['kind']}/{binding['roleRef']['name']}"


def _subjects(kind: str) -> Any:
    def cell(binding: Object, now: str) -> str:
        names = []
        for subject in binding.get("subjects") or []:
            if subject["kind"] == kind:
                prefix = f"{subject.get('namespace', '')}/" if kind == "ServiceAccount" else ""
                names.append(prefix + subject["name"])
        return ", ".join(names)

    return cell


def _count(*path: str) -> Any:
    def cell(obj: Object, now: str) -> int:
        *parts, last = path
        return len(walk(obj, *parts).get(last) or ())

    return cell


def _params(policy: Object, now: str) -> str:
    kind = mapping(policy["spec"].get("paramKind"))
    return f"{kind.get('apiVersion')}/{kind.get('kind')}" if kind else "<unset>"


def _param_ref(binding: Object, now: str) -> str:
    reference = mapping(binding["spec"].get("paramRef"))
    if not reference:
        return "<unset>"
    if not reference.get("name"):
        return "*"
    return f"{reference['namespace']}/{reference['name']}" if reference.get("namespace") else str(reference["name"])


_WEBHOOKS = (NAME, Column("Webhooks", _count("webhooks"), type="integer"), AGE)
_POLICY_BINDING = (
    NAME,
    Column("PolicyName", lambda obj, now: obj["spec"].get("policyName", "")),
    Column("ParamRef", _param_ref),
    AGE,
)
_CREATED = Column("Created At", lambda obj, now: obj["metadata"].get("creationTimestamp", ""), format="date-time")
_BINDING = (
    NAME,
    Column("Role", _role),
    AGE,
    Column("Users", _subjects("User"), wide=True),
    Column("Groups", _subjects("Group"), wide=True),
    Column("ServiceAccounts", _subjects("ServiceAccount"), wide=True),
)

COLUMNS: dict[tuple[str, str], tuple[Column, ...]] = {
    ("", "Service"): (
        NAME,
        Column("Type", lambda obj, now: obj["spec"].get("type") or "ClusterIP"),
        Column("Cluster-IP", lambda obj, now: obj["spec"].get("clusterIP") or NONE),
        Column("External-IP", lambda obj, now: ",".join(obj["spec"].get("externalIPs") or []) or NONE),
        Column("Port(s)", _ports),
        AGE,
        Column("Selector", _selector, wide=True),
    ),
    ("", "ResourceQuota"): (
        NAME,
        Column("Request", _amounts("limits.", requests=True)),
        Column("Limit", _amounts("limits.", requests=False)),
        AGE,
    ),
    ("policy", "PodDisruptionBudget"): (
        NAME,
        Column("Min Available", _bound("minAvailable")),
        Column("Max Unavailable", _bound("maxUnavailable")),
        Column(
            "Allowed Disruptions",
            lambda obj, now: status_of(obj).get("disruptionsAllowed", 0),
            type="integer",
        ),
        AGE,
    ),
    ("", "LimitRange"): (NAME, _CREATED),
    (ADMISSION_GROUP, "ValidatingWebhookConfiguration"): _WEBHOOKS,
    (ADMISSION_GROUP, "MutatingWebhookConfiguration"): _WEBHOOKS,
    (ADMISSION_GROUP, "ValidatingAdmissionPolicy"): (
        NAME,
        Column("Validations", _count("spec", "validations"), type="integer"),
        Column("ParamKind", _params),
        AGE,
    ),
    (ADMISSION_GROUP, "MutatingAdmissionPolicy"): (
        NAME,
        Column("Mutations", _count("spec", "mutations"), type="integer"),
        Column("ParamKind", _params),
        AGE,
    ),
    (ADMISSION_GROUP, "ValidatingAdmissionPolicyBinding"): _POLICY_BINDING,
    (ADMISSION_GROUP, "MutatingAdmissionPolicyBinding"): _POLICY_BINDING,
    (RBAC_GROUP, "Role"): (NAME, _CREATED),
    (RBAC_GROUP, "ClusterRole"): (NAME, _CREATED),
    (RBAC_GROUP, "RoleBinding"): _BINDING,
    (RBAC_GROUP, "ClusterRoleBinding"): _BINDING,
}
