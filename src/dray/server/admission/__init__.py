"""Admission: what the server checks and fills in besides the rules of the object itself.

A plug-in is a function over `Attributes`; it changes the object in place or raises a refusal. The lists below say for
which kinds, and in which order, they run.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from dray.api.catalogue import ADMISSION_GROUP, RESOURCE_GROUP
from dray.server.admission import (
    admission_policies,
    certificate_requests,
    core_kinds,
    custom_definitions,
    limit_ranges,
    opaque_configs,
    pod_security,
    priority,
    queues,
    quota,
    rights,
    runtime_classes,
    service_accounts,
    services,
    storage,
    stored_kinds,
    unix_accounts,
)
from dray.server.admission.attributes import Attributes
from dray.server.admission.core_kinds import require_namespace
from dray.server.admission.dynamic import validating
from dray.server.admission.service_accounts import await_references
from dray.server.security.node_restriction import CREATE, DELETE, UPDATE
from dray.server.worker import AT_ONCE

__all__ = [
    "CREATE",
    "DELETE",
    "UPDATE",
    "Attributes",
    "admit",
    "await_references",
    "check",
    "recheck",
    "require_namespace",
    "validate",
]

Plugin = Callable[[Attributes], None]
_ROLES = " ".join(
    f"{kind}.rbac.authorization.k8s.io" for kind in ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
)
_GROUPS = "PodGroup.scheduling.k8s.io CompositePodGroup.scheduling.k8s.io"
_DEFINITION = "CustomResourceDefinition.apiextensions.k8s.io"
_SIGNING_REQUEST = "CertificateSigningRequest.certificates.k8s.io"
_API_SERVICE = "APIService.apiregistration.k8s.io"
_TRUST_BUNDLE = "ClusterTrustBundle.certificates.k8s.io"
_POD_CERTIFICATE = "PodCertificateRequest.certificates.k8s.io"
_WEBHOOKS = " ".join(f"{kind}WebhookConfiguration.{ADMISSION_GROUP}" for kind in ("Mutating", "Validating"))
_VOLUME = "PersistentVolumeClaim"
_CONFIGURED = " ".join(f"{kind}.{RESOURCE_GROUP}" for kind in ("ResourceClaim", "ResourceClaimTemplate", "DeviceClass"))
_ALL = "*"
_POLICY = f"ValidatingAdmissionPolicy.{ADMISSION_GROUP}"
# Checks of an object alone that may take long.
_LONG_CHECKS: dict[str, Plugin] = {
    _POLICY: admission_policies.check_policy,
    f"MutatingAdmissionPolicy.{ADMISSION_GROUP}": admission_policies.check_mutating_policy,
    **dict.fromkeys(_WEBHOOKS.split(), admission_policies.check_webhooks),
    _DEFINITION: custom_definitions.check,
}
_PLUGINS: dict[str, tuple[tuple[str, Plugin], ...]] = {
    CREATE: (
        (_ALL, custom_definitions.refuse_while_ending),
        (_ROLES, rights.validate_roles),
        (_ALL, rights.check),
        ("Namespace", core_kinds.fill_namespace),
        ("Node", core_kinds.taint_node),
        ("Pod", runtime_classes.apply),
        ("Pod", unix_accounts.apply),
        (queues.KINDS, queues.choose),
        ("Pod", core_kinds.note_gates),
        ("Job.batch", core_kinds.select_job_pods),
        (_SIGNING_REQUEST, certificate_requests.identify),
        (_SIGNING_REQUEST, certificate_requests.refuse_masters),
        (_TRUST_BUNDLE, certificate_requests.attest),
        ("Pod", limit_ranges.limit_pod),
        (_VOLUME, limit_ranges.limit_volume),
        ("Pod", service_accounts.admit_pod),
        ("Pod", priority.resolve_for_pod),
        (_GROUPS, priority.resolve_for_group),
        ("PriorityClass.scheduling.k8s.io", priority.check_default),
        (_DEFINITION, custom_definitions.establish),
        ("Service", services.allocate),
        ("ServiceCIDR.networking.k8s.io", services.open_range),
        ("PersistentVolumeClaim", storage.choose_class),
        ("PersistentVolume PersistentVolumeClaim", storage.protect),
        ("Ingress.networking.k8s.io", stored_kinds.choose_ingress_class),
        (_API_SERVICE, stored_kinds.mark_available),
        ("Namespace", pod_security.check_namespace),
        ("Pod", pod_security.check_pod),
        (pod_security.WORKLOADS, pod_security.check_workload),
        (_POLICY, admission_policies.note_types),
        (_CONFIGURED, opaque_configs.check),
        (_ALL, quota.charge),
        (_ALL, stored_kinds.warn),
        ("PriorityLevelConfiguration.flowcontrol.apiserver.k8s.io", stored_kinds.warn_of_lending),
    ),
    UPDATE: (
        (_ROLES, rights.validate_roles),
        (_ALL, rights.check),
        ("Namespace", core_kinds.label_namespace),
        ("ResourceClaim.resource.k8s.io", rights.authorize_claim_status),
        (_SIGNING_REQUEST, certificate_requests.authorize),
        (_TRUST_BUNDLE, certificate_requests.attest),
        (_POD_CERTIFICATE, certificate_requests.sign_for_pod),
        (queues.KINDS, queues.keep),
        ("Pod", limit_ranges.limit_pod),
        (_VOLUME, limit_ranges.limit_volume),
        ("PriorityClass.scheduling.k8s.io", priority.check_default),
        (_DEFINITION, custom_definitions.establish),
        ("Service", services.allocate),
        ("PersistentVolumeClaim", storage.check_growth),
        (_API_SERVICE, stored_kinds.mark_available),
        ("Namespace", pod_security.check_namespace),
        ("Pod", pod_security.check_pod),
        (pod_security.WORKLOADS, pod_security.check_workload),
        (_POLICY, admission_policies.note_types),
        (_CONFIGURED, opaque_configs.check),
        (_ALL, quota.charge),
        (_ALL, stored_kinds.warn),
        ("PriorityLevelConfiguration.flowcontrol.apiserver.k8s.io", stored_kinds.warn_of_lending),
    ),
    DELETE: ((_ALL, rights.check), ("Namespace", core_kinds.protect_namespace)),
}


async def check(attributes: Attributes) -> None:
    """Checks kinds with expressions and patterns, which may take long to compile, in a worker."""
    long_check = _LONG_CHECKS.get(attributes.resource.group_kind)
    if long_check is not None:
        await attributes.context.worker.run(AT_ONCE + 1, long_check, attributes)


def admit(attributes: Attributes) -> None:
    for plugin in _chosen(attributes.operation, attributes.resource.group_kind):
        plugin(attributes)


async def validate(attributes: Attributes) -> None:
    """Asks policies and webhooks."""
    await pod_security.warn_of_pods(attributes)
    if await validating.validate(attributes) and attributes.operation != DELETE and attributes.part is None:
        recheck(attributes)


def recheck(attributes: Attributes) -> None:
    """Repeats, after webhooks were called, the checks that must hold when the object is written."""
    if attributes.old is None:
        require_namespace(attributes.context, attributes.resource, attributes.namespace, attributes.name)
    quota.charge(attributes)


@lru_cache(maxsize=512)
def _chosen(operation: str, kind: str) -> tuple[Plugin, ...]:
    return tuple(plugin for kinds, plugin in _PLUGINS[operation] if kinds == _ALL or kind in kinds.split())
