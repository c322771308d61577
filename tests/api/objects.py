"""Small valid objects to start from, and ways to ask what is wrong with a change of one."""

import copy
from typing import Any

from dray.api import catalogue, intake, schema
from dray.api.gates import ALL_GATES, FeatureGates
from dray.api.intake import Place, Refusal
from dray.api.rules import Rules

NOW = "2026-03-01T00:00:00Z"
RESOURCE = "resource.k8s.io/v1"

CLAIM: dict[str, Any] = {
    "apiVersion": RESOURCE,
    "kind": "ResourceClaim",
    "metadata": {"name": "c", "namespace": "default"},
    "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}},
}
TEMPLATE: dict[str, Any] = {
    "apiVersion": RESOURCE,
    "kind": "ResourceClaimTemplate",
    "metadata": {"name": "t", "namespace": "default"},
    "spec": {"spec": CLAIM["spec"]},
}
CLASS: dict[str, Any] = {
    "apiVersion": RESOURCE,
    "kind": "DeviceClass",
    "metadata": {"name": "gpu"},
    "spec": {
        "selectors": [{"cel": {"expression": "true"}}],
        "config": [{"opaque": {"driver": "d.example.com", "parameters": {}}}],
    },
}
SLICE: dict[str, Any] = {
    "apiVersion": RESOURCE,
    "kind": "ResourceSlice",
    "metadata": {"name": "s"},
    "spec": {
        "driver": "d.example.com",
        "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
        "nodeName": "n",
        "devices": [
            {"name": "a", "taints": [{"key": "k", "effect": "NoSchedule"}], "capacity": {"m": {"value": "1"}}},
            {"name": "b"},
        ],
    },
}
RULE: dict[str, Any] = {
    "apiVersion": RESOURCE,
    "kind": "DeviceTaintRule",
    "metadata": {"name": "r", "resourceVersion": "1"},
    "spec": {"taint": {"key": "k", "effect": "NoSchedule"}},
}
POOL_REQUEST: dict[str, Any] = {
    "apiVersion": "resource.k8s.io/v1alpha3",
    "kind": "ResourcePoolStatusRequest",
    "metadata": {"name": "r", "resourceVersion": "1"},
    "spec": {"driver": "d.example.com"},
}
POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "namespace": "default"},
    "spec": {
        "containers": [{"name": "m", "image": "i", "resources": {"claims": [{"name": "gpu"}]}}],
        "resourceClaims": [{"name": "gpu", "resourceClaimName": "c"}],
    },
}
JOB: dict[str, Any] = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "j", "namespace": "default"},
    "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "m", "image": "i"}]}}},
}
BUDGET: dict[str, Any] = {
    "apiVersion": "policy/v1",
    "kind": "PodDisruptionBudget",
    "metadata": {"name": "b", "namespace": "default"},
    "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
}
SERVICE: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "s", "namespace": "default"},
    "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]},
}
POD_GROUP: dict[str, Any] = {
    "apiVersion": "scheduling.k8s.io/v1beta1",
    "kind": "PodGroup",
    "metadata": {"name": "g", "namespace": "default", "resourceVersion": "1"},
    "spec": {
        "schedulingPolicy": {"gang": {"minCount": 2}},
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "t"}],
    },
}
COMPOSITE: dict[str, Any] = {
    "apiVersion": "scheduling.k8s.io/v1alpha3",
    "kind": "CompositePodGroup",
    "metadata": {"name": "g", "namespace": "default", "resourceVersion": "1"},
    "spec": {
        "workloadRef": {"workloadName": "w", "templateName": "t"},
        "schedulingPolicy": {"gang": {"minGroupCount": 2}},
    },
}
WORKLOAD: dict[str, Any] = {
    "apiVersion": "scheduling.k8s.io/v1beta1",
    "kind": "Workload",
    "metadata": {"name": "w", "namespace": "default", "resourceVersion": "1"},
    "spec": {
        "podGroupTemplates": [
            {"name": "a", "schedulingPolicy": {"basic": {}}},
            {"name": "b", "schedulingPolicy": {"gang": {"minCount": 2}}},
        ]
    },
}


def changed(document: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """A copy with some members set; the path `a.0.b` goes into lists, None removes."""
    result: Any = copy.deepcopy(document)
    for path, value in changes.items():
        *steps, last = path.split(".")
        holder = result
        for step in steps:
            if isinstance(holder, list):
                holder = holder[int(step)]
            else:
                holder = holder.setdefault(step, {})
        if isinstance(holder, list):
            holder[int(last)] = value
        elif value is None:
            holder.pop(last, None)
        else:
            holder[last] = value
    return result


def _target(document: dict[str, Any]) -> catalogue.KindVersion:
    target = catalogue.find(document["apiVersion"], document["kind"])
    assert target is not None
    return target


def _place(document: dict[str, Any]) -> Place:
    return Place(document["metadata"].get("namespace", ""), document["metadata"].get("name", ""))


def create(document: dict[str, Any], *, gates: FeatureGates = ALL_GATES, admin: bool = False) -> Any:
    rules = Rules(gates, admin_namespace=admin)
    return intake.create(copy.deepcopy(document), _target(document), _place(document), rules, now=NOW)


def update(
    document: dict[str, Any],
    old: dict[str, Any],
    subresource: str = "",
    *,
    gates: FeatureGates = ALL_GATES,
    admin: bool = False,
) -> Any:
    """`old` is taken as stored, status included."""
    target = _target(document)
    stored = intake.decode(copy.deepcopy(old), _target(old), now="2026-01-01T00:00:00Z", gates=ALL_GATES)
    assert not isinstance(stored, Refusal), stored
    stored = schema.write(stored, _target(old).entry.hub.schema)
    rules = Rules(gates, admin_namespace=admin)
    body = copy.deepcopy(document)
    return intake.update(body, stored, target, _place(old), rules, now=NOW, subresource=subresource)


def causes(verdict: Any) -> set[str]:
    """`path reason`, the reason without its prefix; empty where the object was accepted."""
    if not isinstance(verdict, Refusal):
        return set()
    return {f"{error.field} {error.reason.removeprefix('FieldValue')}" for error in verdict.errors}
