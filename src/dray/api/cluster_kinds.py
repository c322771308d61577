"""Kinds of storage, networks, endpoints, runtime classes, flow control, autoscaling and others, for the catalogue.

Some of them are served and validated without being acted upon, because what would act on them (a network, a storage
driver, an ingress controller) is not part of a machine without Kubernetes. Whoever writes one is told so in a warning:
`stored_only`.
"""

from __future__ import annotations

from typing import Any

from dray.api.kind import Kind, Lifecycle, Version

STORAGE_GROUP = "storage.k8s.io"
NETWORKING_GROUP = "networking.k8s.io"
DISCOVERY_GROUP = "discovery.k8s.io"
NODE_GROUP = "node.k8s.io"
FLOW_CONTROL_GROUP = "flowcontrol.apiserver.k8s.io"
REGISTRATION_GROUP = "apiregistration.k8s.io"
AUTOSCALING_GROUP = "autoscaling"
CERTIFICATES_GROUP = "certificates.k8s.io"
COORDINATION_GROUP = "coordination.k8s.io"
MIGRATION_GROUP = "storagemigration.k8s.io"

_NO_CSI = "is stored and has no effect: no CSI driver runs on nodes of dray"
_ENDPOINTS_REPLACED = Lifecycle((1, 33), replacement="discovery.k8s.io/v1 EndpointSlice")


def _kind(
    module: str,
    name: str,
    plural: str,
    *short_names: str,
    group: str = "",
    status: bool = False,
    namespaced: bool = False,
    generation: bool = False,
    lifecycle: Lifecycle | None = None,
    unconditional_update: bool = True,
    categories: str = "",
    stored_only: str = "",
) -> Kind:
    """Builds a kind whose versions are named like its modules; the first is stored."""
    modules = {module_name.rpartition("_")[2]: module_name for module_name in module.split()}
    versions = [
        Version(version, f"{each}.{name}", lifecycle, unconditional_update) for version, each in modules.items()
    ]
    return Kind(
        group,
        name,
        plural,
        tuple(versions),
        storage=versions[0].name,
        namespaced=namespaced,
        short_names=short_names,
        categories=tuple(categories.split()),
        subresources=("status",) if status else (),
        generation=generation,
        stored_only=f"{name} {stored_only}" if stored_only else "",
    )


def _storage(name: str, plural: str, *short_names: str, stored_only: str = "", **rest: Any) -> Kind:
    return _kind("storage_v1", name, plural, *short_names, group=STORAGE_GROUP, stored_only=stored_only, **rest)


def _network(name: str, plural: str, *short_names: str, stored_only: str = "", **rest: Any) -> Kind:
    return _kind("networking_v1", name, plural, *short_names, group=NETWORKING_GROUP, stored_only=stored_only, **rest)


def _flow_control(name: str, plural: str) -> Kind:
    return _kind("flowcontrol_v1", name, plural, group=FLOW_CONTROL_GROUP, status=True, generation=True)


CLUSTER_KINDS: tuple[Kind, ...] = (
    _kind("core_v1", "PersistentVolume", "persistentvolumes", "pv", status=True),
    _kind("core_v1", "PersistentVolumeClaim", "persistentvolumeclaims", "pvc", status=True, namespaced=True),
    _kind("core_v1", "Endpoints", "endpoints", "ep", namespaced=True, lifecycle=_ENDPOINTS_REPLACED),
    _storage("StorageClass", "storageclasses", "sc"),
    _storage("CSIDriver", "csidrivers", stored_only=_NO_CSI),
    _storage("CSINode", "csinodes", status=True, stored_only=_NO_CSI),
    _storage("CSIStorageCapacity", "csistoragecapacities", namespaced=True, stored_only=_NO_CSI),
    _storage("VolumeAttachment", "volumeattachments", status=True, stored_only=_NO_CSI),
    _storage("VolumeAttributesClass", "volumeattributesclasses", "vac", stored_only=_NO_CSI),
    _network(
        "Ingress",
        "ingresses",
        "ing",
        status=True,
        namespaced=True,
        generation=True,
        stored_only="is stored and has no effect: no ingress controller runs unless you run one",
    ),
    _network(
        "IngressClass",
        "ingressclasses",
        generation=True,
        stored_only="is stored and has no effect: no ingress controller runs unless you run one",
    ),
    _network(
        "NetworkPolicy",
        "networkpolicies",
        "netpol",
        namespaced=True,
        generation=True,
        stored_only="is stored and not enforced: traffic of pods is not filtered",
    ),
    _network("IPAddress", "ipaddresses", "ip"),
    _network("ServiceCIDR", "servicecidrs", status=True),
    _kind(
        "discovery_v1",
        "EndpointSlice",
        "endpointslices",
        group=DISCOVERY_GROUP,
        namespaced=True,
        generation=True,
    ),
    _kind("node_v1", "RuntimeClass", "runtimeclasses", group=NODE_GROUP),
    _flow_control("FlowSchema", "flowschemas"),
    _flow_control("PriorityLevelConfiguration", "prioritylevelconfigurations"),
    _kind(
        "apiregistration_v1",
        "APIService",
        "apiservices",
        group=REGISTRATION_GROUP,
        status=True,
        categories="api-extensions",
        stored_only="is stored and has no effect: requests are not passed on to other API servers",
    ),
    _kind(
        "autoscaling_v2 autoscaling_v1",
        "HorizontalPodAutoscaler",
        "horizontalpodautoscalers",
        "hpa",
        group=AUTOSCALING_GROUP,
        status=True,
        namespaced=True,
        categories="all",
        stored_only="is stored and has no effect: nothing scales by measurements here",
    ),
    _kind(
        "certificates_v1",
        "ClusterTrustBundle",
        "clustertrustbundles",
        group=CERTIFICATES_GROUP,
        unconditional_update=False,
        stored_only="is stored and has no effect: nodes of dray do not put trust bundles into pods",
    ),
    _kind(
        "certificates_v1",
        "PodCertificateRequest",
        "podcertificaterequests",
        group=CERTIFICATES_GROUP,
        status=True,
        namespaced=True,
        unconditional_update=False,
        stored_only="waits for a signer of yours: dray signs none, and its nodes do not put certificates into pods",
    ),
    _kind(
        "coordination_v1beta1",
        "LeaseCandidate",
        "leasecandidates",
        group=COORDINATION_GROUP,
        namespaced=True,
        unconditional_update=False,
    ),
    _kind(
        "storagemigration_v1",
        "StorageVersionMigration",
        "storageversionmigrations",
        group=MIGRATION_GROUP,
        status=True,
        unconditional_update=False,
    ),
)
