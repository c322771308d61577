"""Validation: every rule of the API, by kind and operation.

Objects are in hub form and normalised by the schema, so members that are always written are there. The three
functions below are the whole surface; a kind without an entry has only its metadata checked.
"""

from __future__ import annotations

from itertools import islice
from typing import Final

from dray.api.catalogue import ADMISSION_GROUP, CERTIFICATES_GROUP, RBAC_GROUP, RESOURCE_GROUP, SCHEDULING_GROUP, Kind
from dray.api.errors import FieldError
from dray.api.objects import Object
from dray.api.rules import Rules
from dray.api.validation import (
    admission_policies,
    certificate_requests,
    claims,
    cluster_kinds,
    config_maps,
    controller_revisions,
    cron_jobs,
    daemon_sets,
    device_classes,
    disruption_budgets,
    events,
    jobs,
    leases,
    limit_ranges,
    metadata,
    nodes,
    pod_groups,
    pod_status,
    pod_updates,
    pods,
    pool_status_requests,
    priority_classes,
    quotas,
    replicas,
    services,
    slices,
    stateful_sets,
    taints,
    webhooks,
    workloads,
)
from dray.api.validation.checks import Checks as _Checks
from dray.api.validation.checks import Create
from dray.api.validation.fields import Errors

# Who has more of them is not helped by the rest, and an answer with all would have a hundred times the object's bytes.
MOST_PROBLEMS: Final = 1000


def _alike(check: Create) -> _Checks:
    """Uses the create checks also for updates."""
    return _Checks(check, lambda obj, old, rules: check(obj, rules))


_CHECKS: dict[tuple[str, str], _Checks] = {
    (ADMISSION_GROUP, "ValidatingAdmissionPolicy"): _alike(admission_policies.validate),
    (ADMISSION_GROUP, "ValidatingAdmissionPolicyBinding"): _alike(admission_policies.validate_binding),
    (ADMISSION_GROUP, "MutatingAdmissionPolicy"): _alike(admission_policies.validate_mutating),
    (ADMISSION_GROUP, "MutatingAdmissionPolicyBinding"): _alike(admission_policies.validate_mutating_binding),
    (ADMISSION_GROUP, "ValidatingWebhookConfiguration"): _alike(webhooks.validate),
    (ADMISSION_GROUP, "MutatingWebhookConfiguration"): _alike(webhooks.validate),
    (RESOURCE_GROUP, "ResourceClaim"): _Checks(claims.validate_create, claims.validate_update, claims.validate_status),
    (RESOURCE_GROUP, "ResourceClaimTemplate"): _Checks(
        claims.validate_template_create, claims.validate_template_update
    ),
    (RESOURCE_GROUP, "DeviceClass"): _Checks(
        device_classes.validate, lambda obj, old, rules: device_classes.validate(obj, rules, old)
    ),
    (RESOURCE_GROUP, "ResourceSlice"): _Checks(
        slices.validate, lambda obj, old, rules: slices.validate(obj, rules, old)
    ),
    (RESOURCE_GROUP, "DeviceTaintRule"): _Checks(
        lambda obj, rules: taints.validate_rule(obj),
        lambda obj, old, rules: taints.validate_rule(obj, old),
        lambda obj, old, rules: taints.validate_rule_status(obj, old),
    ),
    (RESOURCE_GROUP, "ResourcePoolStatusRequest"): _Checks(
        pool_status_requests.validate,
        pool_status_requests.validate_update,
        lambda obj, old, rules: pool_status_requests.validate_status(obj, old),
    ),
    (SCHEDULING_GROUP, "Workload"): _Checks(workloads.validate, workloads.validate_update),
    (SCHEDULING_GROUP, "PodGroup"): _Checks(
        pod_groups.validate, pod_groups.validate_update, pod_groups.validate_status
    ),
    (SCHEDULING_GROUP, "CompositePodGroup"): _Checks(
        pod_groups.validate_composite, pod_groups.validate_composite_update, pod_groups.validate_composite_status
    ),
    (SCHEDULING_GROUP, "PriorityClass"): _Checks(priority_classes.validate, priority_classes.validate_update),
    ("", "ConfigMap"): _Checks(config_maps.validate, config_maps.validate_update),
    ("", "Event"): _Checks(events.validate, lambda obj, old, rules: events.validate(obj, rules)),
    ("", "Node"): _Checks(nodes.validate, nodes.validate_update, nodes.validate_status),
    ("", "LimitRange"): _alike(limit_ranges.validate),
    ("", "Pod"): _Checks(pods.validate, pod_updates.validate_update, pod_status.validate),
    ("", "ResourceQuota"): _Checks(quotas.validate, quotas.validate_update, quotas.validate_status),
    ("", "Secret"): _Checks(config_maps.validate_secret, config_maps.validate_secret_update),
    ("", "Service"): _Checks(services.validate, services.validate_update),
    ("apps", "ControllerRevision"): _Checks(controller_revisions.validate, controller_revisions.validate_update),
    ("apps", "DaemonSet"): _Checks(daemon_sets.validate, daemon_sets.validate_update, daemon_sets.validate_status),
    ("apps", "StatefulSet"): _Checks(
        stateful_sets.validate, stateful_sets.validate_update, stateful_sets.validate_status
    ),
    ("batch", "CronJob"): _Checks(cron_jobs.validate, cron_jobs.validate_update),
    ("", "PodTemplate"): _Checks(
        replicas.validate_pod_template, lambda obj, old, rules: replicas.validate_pod_template(obj, rules)
    ),
    ("", "ReplicationController"): _Checks(
        replicas.validate_replication_controller,
        lambda obj, old, rules: replicas.validate_replication_controller(obj, rules),
        replicas.validate_replicas_status,
    ),
    ("apps", "ReplicaSet"): _Checks(
        replicas.validate_replica_set, replicas.validate_replica_set_update, replicas.validate_replicas_status
    ),
    ("apps", "Deployment"): _Checks(
        replicas.validate_deployment, replicas.validate_deployment_update, replicas.validate_deployment_status
    ),
    ("batch", "Job"): _Checks(jobs.validate, jobs.validate_update, jobs.validate_status),
    ("events.k8s.io", "Event"): _Checks(events.validate_new, events.validate_new_update),
    ("policy", "PodDisruptionBudget"): _Checks(
        disruption_budgets.validate,
        lambda obj, old, rules: disruption_budgets.validate(obj, rules),
        disruption_budgets.validate_status,
    ),
    (CERTIFICATES_GROUP, "CertificateSigningRequest"): _Checks(
        certificate_requests.validate, certificate_requests.validate_update, certificate_requests.validate_status
    ),
    ("coordination.k8s.io", "Lease"): _Checks(
        lambda obj, rules: leases.validate(obj), lambda obj, old, rules: leases.validate(obj)
    ),
    **cluster_kinds.CHECKS,
}
_NAME_RULES: dict[tuple[str, str], metadata.NameRule] = {
    ("", "Namespace"): metadata.LABEL,
    ("", "Service"): metadata.LABEL,
    ("apps", "StatefulSet"): metadata.LABEL,
    (CERTIFICATES_GROUP, "CertificateSigningRequest"): metadata.PATH_SEGMENT,
    (RBAC_GROUP, "ClusterRole"): metadata.PATH_SEGMENT,
    (RBAC_GROUP, "ClusterRoleBinding"): metadata.PATH_SEGMENT,
    (RBAC_GROUP, "Role"): metadata.PATH_SEGMENT,
    (RBAC_GROUP, "RoleBinding"): metadata.PATH_SEGMENT,
    **cluster_kinds.NAME_RULES,
}


def _first(problems: Errors) -> list[FieldError]:
    return list(islice(problems, MOST_PROBLEMS))


def _takes_any_finalizer(kind: Kind) -> bool:
    return kind.group == "apiextensions.k8s.io"


def validate_create(obj: Object, kind: Kind, rules: Rules) -> list[FieldError]:
    name_rule = _NAME_RULES.get((kind.group, kind.name), metadata.SUBDOMAIN)
    found = _first(
        metadata.validate_create(
            obj["metadata"], namespaced=kind.namespaced, name_rule=name_rule, any_finalizer=_takes_any_finalizer(kind)
        )
    )
    checks = _CHECKS.get((kind.group, kind.name))
    if checks is not None:
        found.extend(_first(checks.create(obj, rules)))
    return found


def validate_metadata_update(obj: Object, old: Object, kind: Kind) -> list[FieldError]:
    return _first(
        metadata.validate_update(
            obj["metadata"], old["metadata"], namespaced=kind.namespaced, any_finalizer=_takes_any_finalizer(kind)
        )
    )


def validate_update(obj: Object, old: Object, kind: Kind, rules: Rules) -> list[FieldError]:
    """Returns what is wrong with an updated object, without its metadata."""
    checks = _CHECKS.get((kind.group, kind.name))
    return _first(checks.update(obj, old, rules)) if checks is not None else []


def validate_status_update(obj: Object, old: Object, kind: Kind, rules: Rules) -> list[FieldError]:
    checks = _CHECKS.get((kind.group, kind.name))
    return _first(checks.status(obj, old, rules)) if checks is not None and checks.status is not None else []


def validate_approval(obj: Object, old: Object, kind: Kind, rules: Rules) -> list[FieldError]:
    """Validates the approval of a CertificateSigningRequest, the only kind with that subresource."""
    return list(certificate_requests.validate_approval(obj, old, rules))
