"""How a strategic merge patch treats each field: Kubernetes' `patchStrategy` and `patchMergeKey`.

The table names a field by its type, without the version of the group: `core.PodSpec.containers`. A list that is not
named is replaced, an object merged. Types come from the structural schema.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from dray.api.wire_types import TYPES

# In place of the type of something the schema knows nothing about.
UNTYPED = "any"


@dataclass(frozen=True, slots=True)
class MergeRule:
    """`key` is empty for lists of plain values and for objects; `replace` holds for the value as a whole."""

    type_name: str
    replace: bool
    key: str = ""


def _lists(merge_key: str, *fields: str) -> dict[str, str]:
    return dict.fromkeys(fields, merge_key)


_MERGED_LISTS: dict[str, str] = {
    **_lists("", "meta.ObjectMeta.finalizers", "core.NodeSpec.podCIDRs"),
    **_lists("uid", "meta.ObjectMeta.ownerReferences", "resource.ResourceClaimStatus.reservedFor"),
    **_lists(
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
        "core.ContainerStatus.allocatedResourcesStatus",
        "core.ServiceAccount.secrets",
        "batch.JobSchedulingConfiguration.resourceClaims",
        "scheduling.PodGroupTemplate.resourceClaims",
        "scheduling.PodGroupSpec.resourceClaims",
        "scheduling.PodGroupStatus.resourceClaimStatuses",
    ),
    **_lists("containerPort", "core.Container.ports", "core.EphemeralContainer.ports"),
    **_lists("port", "core.ServiceSpec.ports"),
    **_lists(
        "mountPath",
        "core.Container.volumeMounts",
        "core.EphemeralContainer.volumeMounts",
        "core.ContainerStatus.volumeMounts",
    ),
    **_lists("devicePath", "core.Container.volumeDevices", "core.EphemeralContainer.volumeDevices"),
    **_lists("ip", "core.PodSpec.hostAliases", "core.PodStatus.podIPs", "core.PodStatus.hostIPs"),
    **_lists("topologyKey", "core.PodSpec.topologySpreadConstraints"),
    **_lists("rule", "apiextensions.JSONSchemaProps.x-kubernetes-validations"),
    **_lists(
        "type",
        "core.PodStatus.conditions",
        "core.NodeStatus.conditions",
        "core.NodeStatus.addresses",
        "core.NamespaceStatus.conditions",
        "core.ServiceStatus.conditions",
        "batch.JobStatus.conditions",
        "policy.PodDisruptionBudgetStatus.conditions",
        "resource.DeviceTaintRuleStatus.conditions",
        "resource.ResourcePoolStatusRequestStatus.conditions",
        "scheduling.PodGroupStatus.conditions",
        "scheduling.CompositePodGroupStatus.conditions",
    ),
}
_REPLACED_OBJECTS = frozenset({"policy.PodDisruptionBudgetSpec.selector"})


def versionless(type_name: str) -> str:
    """`core_v1.PodSpec` → `core.PodSpec`."""
    module, _, name = type_name.partition(".")
    return f"{module.partition('_')[0]}.{name}"


@cache
def rule(type_name: str, field: str) -> MergeRule:
    """How `field` of an object of the type is merged, and the type of its value or of its items."""
    if type_name.startswith("{}"):
        return MergeRule(type_name[2:], replace=False)
    mark = TYPES.get(type_name, {}).get(field)
    if mark is None:
        return MergeRule(UNTYPED, replace=False)
    value_type = mark.lstrip("!*")
    path = f"{versionless(type_name)}.{field}"
    if value_type.startswith("[]"):
        return MergeRule(value_type[2:], path not in _MERGED_LISTS, _MERGED_LISTS.get(path, ""))
    return MergeRule(value_type, replace=path in _REPLACED_OBJECTS)
