"""The catalogue of kinds: what there is, under which group and versions, and how each is reached.

A `Kind` is an entry of the catalogue, a `KindVersion` one of its versions (kind.py); cluster_kinds.py has those of
storage and networks. Everything that must know "which kinds are
there" asks here: decoding, conversion, discovery, tables, the command line. To add a kind, add an entry, run
`make schema`, and, where `kubectl get` shows more than name and age, give it columns in tables/.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dray.api.cluster_kinds import CERTIFICATES_GROUP as CERTIFICATES_GROUP
from dray.api.cluster_kinds import CLUSTER_KINDS, COORDINATION_GROUP
from dray.api.kind import RELEASE as RELEASE
from dray.api.kind import VERBS, Lifecycle, Version
from dray.api.kind import Kind as Kind
from dray.api.kind import KindVersion as KindVersion

RESOURCE_GROUP = "resource.k8s.io"
SCHEDULING_GROUP = "scheduling.k8s.io"
RBAC_GROUP = "rbac.authorization.k8s.io"
ADMISSION_GROUP = "admissionregistration.k8s.io"


_BETA1 = Lifecycle((1, 35), (1, 38))
_BETA2 = Lifecycle((1, 36), (1, 39))


# Shown by `kubectl get all`.
_ALL = frozenset("Pod Service Job CronJob DaemonSet StatefulSet Deployment ReplicaSet ReplicationController".split())


def _dra(name: str, plural: str, *, namespaced: bool, status: bool = False, generation: bool = False) -> Kind:
    return Kind(
        RESOURCE_GROUP,
        name,
        plural,
        (
            Version("v1", f"resource_v1.{name}"),
            Version("v1beta2", f"resource_v1beta2.{name}", _BETA2),
            Version("v1beta1", f"resource_v1beta1.{name}", _BETA1),
        ),
        storage="v1",
        namespaced=namespaced,
        subresources=("status",) if status else (),
        generation=generation,
    )


def _gangs(name: str, plural: str, *, status: bool) -> Kind:
    versions = (
        Version("v1beta1", f"scheduling_v1beta1.{name}", Lifecycle((1, 40), (1, 43)), unconditional_update=False),
        Version("v1alpha3", f"scheduling_v1alpha3.{name}", unconditional_update=False),
    )
    return Kind(
        SCHEDULING_GROUP,
        name,
        plural,
        versions,
        storage="v1beta1",
        subresources=("status",) if status else (),
    )


def _v1(
    module: str,
    name: str,
    plural: str,
    *short_names: str,
    group: str = "",
    subresources: str = "",
    categories: str = "",
    **rest: Any,
) -> Kind:
    return Kind(
        group,
        name,
        plural,
        (Version("v1", f"{module}.{name}"),),
        storage="v1",
        short_names=short_names,
        subresources=tuple(subresources.split()),
        categories=("all",) if name in _ALL else tuple(categories.split()),
        **rest,
    )


def _rbac(name: str, plural: str, *, namespaced: bool) -> Kind:
    return _v1("rbac_v1", name, plural, group=RBAC_GROUP, namespaced=namespaced)


def _admission(name: str, plural: str, *, beta: bool = False, status: bool = False) -> Kind:
    versions = ("v1", "v1beta1") if beta else ("v1",)
    return Kind(
        ADMISSION_GROUP,
        name,
        plural,
        tuple(Version(version, f"admissionregistration_{version}.{name}") for version in versions),
        storage="v1",
        namespaced=False,
        subresources=("status",) if status else (),
        categories=("api-extensions",),
        generation=True,
    )


KINDS: tuple[Kind, ...] = (
    _dra("ResourceClaim", "resourceclaims", namespaced=True, status=True),
    _dra("ResourceClaimTemplate", "resourceclaimtemplates", namespaced=True),
    _dra("DeviceClass", "deviceclasses", namespaced=False, generation=True),
    _dra("ResourceSlice", "resourceslices", namespaced=False, generation=True),
    Kind(
        RESOURCE_GROUP,
        "DeviceTaintRule",
        "devicetaintrules",
        (
            Version("v1", "resource_v1.DeviceTaintRule", unconditional_update=False),
            Version("v1beta2", "resource_v1beta2.DeviceTaintRule", Lifecycle((1, 39), (1, 42))),
            Version("v1alpha3", "resource_v1alpha3.DeviceTaintRule", _BETA2),
        ),
        storage="v1beta2",
        namespaced=False,
        subresources=("status",),
        generation=True,
    ),
    Kind(
        RESOURCE_GROUP,
        "ResourcePoolStatusRequest",
        "resourcepoolstatusrequests",
        (
            Version(
                "v1alpha3",
                "resource_v1alpha3.ResourcePoolStatusRequest",
                Lifecycle((1, 39), (1, 42)),
                unconditional_update=False,
            ),
        ),
        storage="v1alpha3",
        namespaced=False,
        subresources=("status",),
    ),
    _gangs("Workload", "workloads", status=False),
    _gangs("PodGroup", "podgroups", status=True),
    Kind(
        SCHEDULING_GROUP,
        "CompositePodGroup",
        "compositepodgroups",
        (Version("v1alpha3", "scheduling_v1alpha3.CompositePodGroup", unconditional_update=False),),
        storage="v1alpha3",
        subresources=("status",),
    ),
    _v1("scheduling_v1", "PriorityClass", "priorityclasses", "pc", group=SCHEDULING_GROUP, namespaced=False),
    _v1(
        "core_v1",
        "Pod",
        "pods",
        "po",
        subresources="attach binding ephemeralcontainers eviction exec log portforward proxy resize status",
        generation=True,
    ),
    _v1("core_v1", "Node", "nodes", "no", subresources="proxy status", namespaced=False),
    _v1(
        "core_v1",
        "Namespace",
        "namespaces",
        "ns",
        subresources="finalize status",
        namespaced=False,
        # They are deleted one by one.
        verbs=tuple(verb for verb in VERBS if verb != "deletecollection"),
    ),
    # These two are not stored: the server answers.
    _v1("core_v1", "Binding", "bindings", verbs=("create",)),
    Kind(
        "",
        "ComponentStatus",
        "componentstatuses",
        (Version("v1", "core_v1.ComponentStatus", Lifecycle((1, 19))),),
        storage="v1",
        namespaced=False,
        short_names=("cs",),
        verbs=("get", "list"),
    ),
    _v1("core_v1", "Event", "events", "ev"),
    _v1("core_v1", "ServiceAccount", "serviceaccounts", "sa", subresources="token"),
    _v1("core_v1", "ConfigMap", "configmaps", "cm"),
    _v1("core_v1", "Secret", "secrets"),
    _v1(
        "core_v1",
        "Service",
        "services",
        "svc",
        subresources="proxy status",
        stored_only="Service has endpoints and an address that nothing routes here: pods have addresses of their own",
    ),
    _v1("core_v1", "LimitRange", "limitranges", "limits"),
    _v1("core_v1", "PodTemplate", "podtemplates", generation=True),
    _v1(
        "core_v1",
        "ReplicationController",
        "replicationcontrollers",
        "rc",
        subresources="scale status",
        generation=True,
    ),
    _v1("core_v1", "ResourceQuota", "resourcequotas", "quota", subresources="status"),
    _v1("events_v1", "Event", "events", "ev", group="events.k8s.io"),
    _v1(
        "policy_v1",
        "PodDisruptionBudget",
        "poddisruptionbudgets",
        "pdb",
        group="policy",
        subresources="status",
        generation=True,
    ),
    _rbac("ClusterRole", "clusterroles", namespaced=False),
    _rbac("ClusterRoleBinding", "clusterrolebindings", namespaced=False),
    _rbac("Role", "roles", namespaced=True),
    _rbac("RoleBinding", "rolebindings", namespaced=True),
    _admission("ValidatingAdmissionPolicy", "validatingadmissionpolicies", status=True),
    _admission("ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings"),
    _admission("MutatingAdmissionPolicy", "mutatingadmissionpolicies", beta=True),
    _admission("MutatingAdmissionPolicyBinding", "mutatingadmissionpolicybindings", beta=True),
    _admission("ValidatingWebhookConfiguration", "validatingwebhookconfigurations"),
    _admission("MutatingWebhookConfiguration", "mutatingwebhookconfigurations"),
    _v1("coordination_v1", "Lease", "leases", group=COORDINATION_GROUP),
    _v1(
        "certificates_v1",
        "CertificateSigningRequest",
        "certificatesigningrequests",
        "csr",
        group=CERTIFICATES_GROUP,
        subresources="approval status",
        namespaced=False,
    ),
    _v1("apps_v1", "ControllerRevision", "controllerrevisions", group="apps"),
    _v1("apps_v1", "DaemonSet", "daemonsets", "ds", group="apps", subresources="status", generation=True),
    _v1("apps_v1", "StatefulSet", "statefulsets", "sts", group="apps", subresources="scale status", generation=True),
    _v1("batch_v1", "CronJob", "cronjobs", "cj", group="batch", subresources="status", generation=True),
    _v1("apps_v1", "Deployment", "deployments", "deploy", group="apps", subresources="scale status", generation=True),
    _v1("apps_v1", "ReplicaSet", "replicasets", "rs", group="apps", subresources="scale status", generation=True),
    _v1("batch_v1", "Job", "jobs", group="batch", subresources="status", generation=True),
    _v1(
        "apiextensions_v1",
        "CustomResourceDefinition",
        "customresourcedefinitions",
        "crd",
        "crds",
        group="apiextensions.k8s.io",
        subresources="status",
        categories="api-extensions",
        namespaced=False,
        generation=True,
    ),
    *CLUSTER_KINDS,
)

_BY_NAME = {(kind.group, kind.name): kind for kind in KINDS}
_BY_PLURAL = {(kind.group, kind.plural): kind for kind in KINDS}


def split_api_version(api_version: str) -> tuple[str, str]:
    """`resource.k8s.io/v1` → (`resource.k8s.io`, `v1`); the core group is the empty string."""
    group, _, version = api_version.rpartition("/")
    return group, version


def find(api_version: object, kind: object) -> KindVersion | None:
    """Returns the catalogue entry for `apiVersion` and `kind`, of any type; None if there is none."""
    if not (isinstance(api_version, str) and isinstance(kind, str)):
        return None
    group, version = split_api_version(api_version)
    entry = _BY_NAME.get((group, kind))
    return entry.version(version) if entry else None


def built_in(api_version: str, kind: str) -> KindVersion:
    """Returns the entry of a kind that is in the catalogue."""
    found = find(api_version, kind)
    assert found is not None, f"{api_version} {kind}"
    return found


def find_plural(group: str, version: str, plural: str) -> KindVersion | None:
    """Returns the entry for the parts of a request path; None if there is none."""
    entry = _BY_PLURAL.get((group, plural))
    return entry.version(version) if entry else None


def every_version() -> Iterator[KindVersion]:
    for kind in KINDS:
        yield from kind.by_version.values()
