"""Validation: every rule of the API, by kind and operation.

Objects are in hub form and normalised by the schema, so members that are always written are there. The three
functions below are the whole surface; a kind without an entry has only its metadata checked.
"""

from __future__ import annotations

from collections.abc import Callable

from dray.api.catalogue import RBAC_GROUP, RESOURCE_GROUP, SCHEDULING_GROUP, Kind
from dray.api.errors import FieldError
from dray.api.objects import Object
from dray.api.rules import Rules
from dray.api.validation import (
    claims,
    config_maps,
    device_classes,
    disruption_budgets,
    events,
    jobs,
    leases,
    metadata,
    nodes,
    pod_groups,
    pod_status,
    pod_updates,
    pods,
    pool_status_requests,
    priority_classes,
    quotas,
    services,
    slices,
    taints,
    workloads,
)
from dray.api.validation.fields import Errors

_Create = Callable[[Object, Rules], Errors]
_Update = Callable[[Object, Object, Rules], Errors]

_CREATE: dict[tuple[str, str], _Create] = {
    (RESOURCE_GROUP, "ResourceClaim"): claims.validate_create,
    (RESOURCE_GROUP, "ResourceClaimTemplate"): claims.validate_template_create,
    (RESOURCE_GROUP, "DeviceClass"): device_classes.validate,
    (RESOURCE_GROUP, "ResourceSlice"): slices.validate,
    (RESOURCE_GROUP, "DeviceTaintRule"): lambda obj, rules: taints.validate_rule(obj),
    (RESOURCE_GROUP, "ResourcePoolStatusRequest"): pool_status_requests.validate,
    (SCHEDULING_GROUP, "Workload"): workloads.validate,
    (SCHEDULING_GROUP, "PodGroup"): pod_groups.validate,
    (SCHEDULING_GROUP, "CompositePodGroup"): pod_groups.validate_composite,
    (SCHEDULING_GROUP, "PriorityClass"): priority_classes.validate,
    ("", "ConfigMap"): config_maps.validate,
    ("", "Event"): events.validate,
    ("", "Node"): nodes.validate,
    ("", "Pod"): pods.validate,
    ("", "ResourceQuota"): quotas.validate,
    ("", "Secret"): config_maps.validate_secret,
    ("", "Service"): services.validate,
    ("batch", "Job"): jobs.validate,
    ("events.k8s.io", "Event"): events.validate_new,
    ("policy", "PodDisruptionBudget"): disruption_budgets.validate,
    ("coordination.k8s.io", "Lease"): lambda obj, rules: leases.validate(obj),
}
_UPDATE: dict[tuple[str, str], _Update] = {
    (RESOURCE_GROUP, "ResourceClaim"): claims.validate_update,
    (RESOURCE_GROUP, "ResourceClaimTemplate"): claims.validate_template_update,
    (RESOURCE_GROUP, "DeviceClass"): lambda obj, old, rules: device_classes.validate(obj, rules, old),
    (RESOURCE_GROUP, "ResourceSlice"): lambda obj, old, rules: slices.validate(obj, rules, old),
    (RESOURCE_GROUP, "DeviceTaintRule"): lambda obj, old, rules: taints.validate_rule(obj, old),
    (RESOURCE_GROUP, "ResourcePoolStatusRequest"): pool_status_requests.validate_update,
    (SCHEDULING_GROUP, "Workload"): workloads.validate_update,
    (SCHEDULING_GROUP, "PodGroup"): pod_groups.validate_update,
    (SCHEDULING_GROUP, "CompositePodGroup"): pod_groups.validate_composite_update,
    (SCHEDULING_GROUP, "PriorityClass"): priority_classes.validate_update,
    ("", "ConfigMap"): config_maps.validate_update,
    ("", "Event"): lambda obj, old, rules: events.validate(obj, rules),
    ("", "Node"): nodes.validate_update,
    ("", "Pod"): pod_updates.validate_update,
    ("", "ResourceQuota"): quotas.validate_update,
    ("", "Secret"): config_maps.validate_secret_update,
    ("", "Service"): services.validate_update,
    ("batch", "Job"): jobs.validate_update,
    ("events.k8s.io", "Event"): events.validate_new_update,
    ("policy", "PodDisruptionBudget"): lambda obj, old, rules: disruption_budgets.validate(obj, rules),
    ("coordination.k8s.io", "Lease"): lambda obj, old, rules: leases.validate(obj),
}
_NAME_RULES: dict[tuple[str, str], metadata.NameRule] = {
    ("", "Namespace"): metadata.LABEL,
    ("", "Service"): metadata.LABEL,
    (RBAC_GROUP, "ClusterRole"): metadata.PATH_SEGMENT,
    (RBAC_GROUP, "ClusterRoleBinding"): metadata.PATH_SEGMENT,
    (RBAC_GROUP, "Role"): metadata.PATH_SEGMENT,
    (RBAC_GROUP, "RoleBinding"): metadata.PATH_SEGMENT,
}
_STATUS: dict[tuple[str, str], _Update] = {
    (RESOURCE_GROUP, "ResourceClaim"): claims.validate_status,
    (RESOURCE_GROUP, "DeviceTaintRule"): lambda obj, old, rules: taints.validate_rule_status(obj, old),
    (RESOURCE_GROUP, "ResourcePoolStatusRequest"): lambda obj, old, rules: pool_status_requests.validate_status(
        obj, old
    ),
    (SCHEDULING_GROUP, "PodGroup"): pod_groups.validate_status,
    (SCHEDULING_GROUP, "CompositePodGroup"): pod_groups.validate_composite_status,
    ("", "Node"): nodes.validate_status,
    ("", "Pod"): pod_status.validate,
    ("", "ResourceQuota"): quotas.validate_status,
    ("batch", "Job"): jobs.validate_status,
    ("policy", "PodDisruptionBudget"): disruption_budgets.validate_status,
}


def validate_metadata(meta: Object, kind: Kind) -> list[FieldError]:
    """The part of `validate_create` that concerns the metadata."""
    name_rule = _NAME_RULES.get((kind.group, kind.name), metadata.SUBDOMAIN)
    return list(
        metadata.validate_create(
            meta, namespaced=kind.namespaced, name_rule=name_rule, any_finalizer=_takes_any_finalizer(kind)
        )
    )


def _takes_any_finalizer(kind: Kind) -> bool:
    return kind.group == "apiextensions.k8s.io"


def validate_create(obj: Object, kind: Kind, rules: Rules) -> list[FieldError]:
    found = validate_metadata(obj["metadata"], kind)
    check = _CREATE.get((kind.group, kind.name))
    if check is not None:
        found.extend(check(obj, rules))
    return found


def validate_metadata_update(obj: Object, old: Object, kind: Kind) -> list[FieldError]:
    return list(
        metadata.validate_update(
            obj["metadata"], old["metadata"], namespaced=kind.namespaced, any_finalizer=_takes_any_finalizer(kind)
        )
    )


def validate_update(obj: Object, old: Object, kind: Kind, rules: Rules) -> list[FieldError]:
    """What is wrong with an object besides its metadata."""
    check = _UPDATE.get((kind.group, kind.name))
    return list(check(obj, old, rules)) if check is not None else []


def validate_status_update(obj: Object, old: Object, kind: Kind, rules: Rules) -> list[FieldError]:
    check = _STATUS.get((kind.group, kind.name))
    return list(check(obj, old, rules)) if check is not None else []
