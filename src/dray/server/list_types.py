"""List types: which lists and objects are owned and merged item by item, and which only as a whole.

For server-side apply that is Kubernetes' `listType` and `mapType`, for strategic merge patches its `patchStrategy` and
`patchMergeKey`. They say the same of most fields; where they differ, the second half of the table says so.

Fields are named by their type, without the version of the group: `core.PodSpec.containers`. A list that is not named
here is atomic and replaced, an object or map granular and merged.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from dray.api.wire_types import TYPES

# Defaults of keys that an item leaves out.
KEY_DEFAULTS: dict[str, dict[str, Any]] = {
    "core.Container.ports": {"protocol": "TCP"},
    "core.EphemeralContainer.ports": {"protocol": "TCP"},
    "core.ServiceSpec.ports": {"protocol": "TCP"},
    "core.PodSpec.imagePullSecrets": {"name": ""},
}
SETS = frozenset(
    {
        "meta.ObjectMeta.finalizers",
        "core.NodeSpec.podCIDRs",
        "core.NodeAllocatableResourceClaimStatus.containers",
        "core.ContainerRestartRuleOnExitCodes.values",
        "core.NodePodPreemptionPolicy.disableResizePreemption",
        "core.VolumeMount.bindMountOptions",
        "admissionregistration.ValidatingAdmissionPolicyBindingSpec.validationActions",
        "apiserverinternal.ServerStorageVersion.decodableVersions",
        "apiserverinternal.ServerStorageVersion.servedVersions",
        "batch.PodFailurePolicyOnExitCodesRequirement.values",
        "batch.UncountedTerminatedPods.failed",
        "batch.UncountedTerminatedPods.succeeded",
        "discovery.Endpoint.addresses",
        "flowcontrol.NonResourcePolicyRule.nonResourceURLs",
        "flowcontrol.NonResourcePolicyRule.verbs",
        "flowcontrol.ResourcePolicyRule.apiGroups",
        "flowcontrol.ResourcePolicyRule.namespaces",
        "flowcontrol.ResourcePolicyRule.resources",
        "flowcontrol.ResourcePolicyRule.verbs",
        "resource.DeviceRequestAllocationResult.skipNodeOperations",
        "resource.ResourceSliceSpec.skipNodeOperations",
        "storage.CSIDriverSpec.volumeLifecycleModes",
    }
)
ATOMIC_MAPS = frozenset(
    {
        "core.PodSpec.nodeSelector",
        "core.ReplicationControllerSpec.selector",
        "core.ServiceSpec.selector",
        "node.Scheduling.nodeSelector",
    }
)
# Granular objects of an atomic type, and maps that are declared granular.
GRANULAR_OBJECTS = frozenset(
    {"core.PersistentVolumeClaimStatus.allocatedResourceStatuses", "core.PersistentVolumeSpec.claimRef"}
)
_ATOMIC_TYPES = frozenset(
    {
        "meta.LabelSelector",
        "meta.OwnerReference",
        "admissionregistration.MatchResources",
        "admissionregistration.NamedRuleWithOperations",
        "admissionregistration.ParamKind",
        "admissionregistration.ParamRef",
        "admissionregistration.Variable",
        # Only this version.
        "autoscaling_v1.CrossVersionObjectReference",
        "core.ConfigMapKeySelector",
        "core.EndpointAddress",
        "core.EndpointPort",
        "core.EvictionResponder",
        "core.FileKeySelector",
        "core.LocalObjectReference",
        "core.NodeSelector",
        "core.NodeSelectorTerm",
        "core.ObjectFieldSelector",
        "core.ObjectReference",
        "core.ResourceFieldSelector",
        "core.ScopeSelector",
        "core.SecretKeySelector",
        "core.SecretReference",
        "core.TopologySelectorTerm",
        "core.TypedLocalObjectReference",
        "discovery.EndpointPort",
        "lifecycle.Requester",
        "lifecycle.TargetResponder",
        "networking.ServiceBackendPort",
        "rbac.RoleRef",
        "rbac.Subject",
    }
)
# Lists with keys that a strategic merge patch replaces.
REPLACED_LISTS = frozenset(
    {
        "core.ResourceRequirements.claims",
        "core.ResourceStatus.resources",
        "core.PodStatus.volumeHealth",
        "admissionregistration.ValidatingAdmissionPolicyStatus.conditions",
        "apiextensions.CustomResourceDefinitionStatus.conditions",
        "apiserverinternal.StorageVersionStatus.conditions",
        "apiserverinternal.StorageVersionStatus.storageVersions",
        "certificates.CertificateSigningRequestStatus.conditions",
        "resource.AllocatedDeviceStatus.conditions",
        "resource.ResourceClaimStatus.devices",
        "scheduling.WorkloadSpec.podGroupTemplates",
        "scheduling.WorkloadSpec.compositePodGroupTemplates",
        "scheduling.CompositePodGroupTemplate.podGroupTemplates",
        "scheduling.CompositePodGroupTemplate.compositePodGroupTemplates",
    }
)
REPLACED_OBJECTS = frozenset({"policy.PodDisruptionBudgetSpec.selector"})
# Objects of mutually exclusive members: clients' patches name the members to keep (`$retainKeys`).
RETAIN_KEYS = frozenset(
    {
        "apps.DeploymentSpec.strategy",
        "core.PodSpec.resourceClaims",
        "core.PodSpec.volumes",
        "core.PodStatus.resourceClaimStatuses",
        "scheduling.PodGroupSpec.resourceClaims",
        "scheduling.PodGroupStatus.resourceClaimStatuses",
        "scheduling.PodGroupTemplate.resourceClaims",
    }
)
# Type of fields that the schema does not describe.
UNTYPED = "any"


def _keyed(keys: str, *fields: str) -> dict[str, tuple[str, ...]]:
    return dict.fromkeys(fields, tuple(keys.split()))


KEYED: dict[str, tuple[str, ...]] = {
    **_keyed("uid", "meta.ObjectMeta.ownerReferences", "resource.ResourceClaimStatus.reservedFor"),
    **_keyed(
        "name",
        "core.PodSpec.containers",
        "core.PodSpec.initContainers",
        "core.PodSpec.ephemeralContainers",
        "core.PodSpec.evictionResponders",
        "core.PodSpec.volumes",
        "core.PodSpec.imagePullSecrets",
        "core.PodSpec.resourceClaims",
        "core.PodSpec.schedulingGates",
        "core.PodStatus.resourceClaimStatuses",
        "core.Container.env",
        "core.EphemeralContainer.env",
        "core.ResourceRequirements.claims",
        "core.ContainerStatus.allocatedResourcesStatus",
        "core.NodeAllocatableResourceClaimStatus.mapping",
        "core.NodeAllocatableResourceClaimStatus.overhead",
        "core.PodStatus.volumeHealth",
        "core.ServiceAccount.secrets",
        "admissionregistration.MutatingAdmissionPolicySpec.matchConditions",
        "admissionregistration.MutatingWebhook.matchConditions",
        "admissionregistration.MutatingWebhookConfiguration.webhooks",
        "admissionregistration.ValidatingAdmissionPolicySpec.matchConditions",
        "admissionregistration.ValidatingAdmissionPolicySpec.variables",
        "admissionregistration.ValidatingWebhook.matchConditions",
        "admissionregistration.ValidatingWebhookConfiguration.webhooks",
        "batch.JobSchedulingConfiguration.resourceClaims",
        "scheduling.WorkloadSpec.podGroupTemplates",
        "scheduling.WorkloadSpec.compositePodGroupTemplates",
        "scheduling.CompositePodGroupTemplate.podGroupTemplates",
        "scheduling.CompositePodGroupTemplate.compositePodGroupTemplates",
        "scheduling.PodGroupTemplate.resourceClaims",
        "scheduling.PodGroupSpec.resourceClaims",
        "scheduling.PodGroupStatus.resourceClaimStatuses",
        "lifecycle.EvictionStatus.requesters",
        "lifecycle.EvictionStatus.responders",
        "lifecycle.EvictionStatus.targetResponders",
        "storage.CSINodeSpec.drivers",
        "storage.CSINodeStatus.storageHealth",
    ),
    **_keyed("apiServerID", "apiserverinternal.StorageVersionStatus.storageVersions"),
    **_keyed("status reason", "core.PodVolumeHealth.healthConditions", "core.VolumeHealthStatus.healthConditions"),
    **_keyed("containerPort protocol", "core.Container.ports", "core.EphemeralContainer.ports"),
    **_keyed("port protocol", "core.ServiceSpec.ports"),
    **_keyed(
        "mountPath",
        "core.Container.volumeMounts",
        "core.EphemeralContainer.volumeMounts",
        "core.ContainerStatus.volumeMounts",
    ),
    **_keyed("devicePath", "core.Container.volumeDevices", "core.EphemeralContainer.volumeDevices"),
    **_keyed("ip", "core.PodSpec.hostAliases", "core.PodStatus.podIPs"),
    **_keyed("topologyKey whenUnsatisfiable", "core.PodSpec.topologySpreadConstraints"),
    **_keyed("resourceID", "core.ResourceStatus.resources"),
    **_keyed("resourceClaimName", "core.PodStatus.nodeAllocatableResourceClaimStatuses"),
    **_keyed("driver device pool shareID", "resource.ResourceClaimStatus.devices"),
    **_keyed("rule", "apiextensions.JSONSchemaProps.x-kubernetes-validations"),
    **_keyed(
        "type",
        "core.PodStatus.conditions",
        "core.NodeStatus.conditions",
        "core.NodeStatus.addresses",
        "core.NamespaceStatus.conditions",
        "core.ServiceStatus.conditions",
        "apps.DaemonSetStatus.conditions",
        "apps.StatefulSetStatus.conditions",
        "core.ReplicationControllerStatus.conditions",
        "apps.DeploymentStatus.conditions",
        "apps.ReplicaSetStatus.conditions",
        "policy.PodDisruptionBudgetStatus.conditions",
        "certificates.CertificateSigningRequestStatus.conditions",
        "apiextensions.CustomResourceDefinitionStatus.conditions",
        "resource.AllocatedDeviceStatus.conditions",
        "resource.DeviceTaintRuleStatus.conditions",
        "resource.ResourcePoolStatusRequestStatus.conditions",
        "scheduling.PodGroupStatus.conditions",
        "scheduling.CompositePodGroupStatus.conditions",
        "admissionregistration.ValidatingAdmissionPolicyStatus.conditions",
        "apiregistration.APIServiceStatus.conditions",
        "apiserverinternal.StorageVersionStatus.conditions",
        "autoscaling.HorizontalPodAutoscalerStatus.conditions",
        "certificates.PodCertificateRequestStatus.conditions",
        "core.ComponentStatus.conditions",
        "core.PersistentVolumeClaimStatus.conditions",
        "flowcontrol.FlowSchemaStatus.conditions",
        "flowcontrol.PriorityLevelConfigurationStatus.conditions",
        "lifecycle.EvictionRequestStatus.conditions",
        "lifecycle.EvictionStatus.conditions",
        "networking.ServiceCIDRStatus.conditions",
        "storagemigration.StorageVersionMigrationStatus.conditions",
    ),
}


# The key by which a strategic merge patch matches items: the first of several. Plain values match themselves.
MERGE_KEYS: dict[str, str] = {
    **{field: keys[0] for field, keys in KEYED.items() if field not in REPLACED_LISTS},
    "core.PodStatus.hostIPs": "ip",
    "batch.JobStatus.conditions": "type",
    "meta.ObjectMeta.finalizers": "",
    "core.NodeSpec.podCIDRs": "",
}


def versionless(type_name: str) -> str:
    """Removes the version: `core_v1.PodSpec` → `core.PodSpec`."""
    module, _, name = type_name.partition(".")
    return f"{module.partition('_')[0]}.{name}"


def is_atomic(type_name: str) -> bool:
    """Returns True if objects of the type are owned as a whole."""
    return versionless(type_name) in _ATOMIC_TYPES or type_name in _ATOMIC_TYPES


@dataclass(frozen=True, slots=True)
class MergeRule:
    """How a field is merged; `key` is empty for plain values and objects, `replace` is about the whole value."""

    type_name: str
    replace: bool
    key: str = ""


_UNKNOWN = MergeRule(UNTYPED, replace=False)


def merge_rule(type_name: str, field: str) -> MergeRule:
    """Returns how `field` of the type is merged, with the type of its value or items."""
    if type_name.startswith("{}"):
        return MergeRule(type_name[2:], replace=False)
    # Caches known fields only: a patch may name any other field.
    return _known(type_name, field) if field in TYPES.get(type_name, ()) else _UNKNOWN


@cache
def _known(type_name: str, field: str) -> MergeRule:
    mark = TYPES[type_name][field]
    value_type = mark.lstrip("!*")
    path = f"{versionless(type_name)}.{field}"
    if value_type.startswith("[]"):
        return MergeRule(value_type[2:], path not in MERGE_KEYS, MERGE_KEYS.get(path, ""))
    return MergeRule(value_type, replace=path in REPLACED_OBJECTS)
