"""The rules of the kinds of storage, networks, runtime classes, flow control and autoscaling, by kind."""

from __future__ import annotations

from dray.api.cluster_kinds import (
    AUTOSCALING_GROUP,
    CERTIFICATES_GROUP,
    COORDINATION_GROUP,
    DISCOVERY_GROUP,
    FLOW_CONTROL_GROUP,
    MIGRATION_GROUP,
    NETWORKING_GROUP,
    NODE_GROUP,
    REGISTRATION_GROUP,
    STORAGE_GROUP,
)
from dray.api.validation import (
    api_services,
    autoscalers,
    endpoints,
    flow_control,
    ingresses,
    leases,
    metadata,
    network_policies,
    persistent_volumes,
    pod_certificates,
    runtime_classes,
    service_ranges,
    storage,
    storage_migrations,
    trust_bundles,
)
from dray.api.validation.checks import Checks

CHECKS: dict[tuple[str, str], Checks] = {
    ("", "PersistentVolume"): Checks(persistent_volumes.validate_volume, persistent_volumes.validate_volume_update),
    ("", "PersistentVolumeClaim"): Checks(
        persistent_volumes.validate_claim,
        persistent_volumes.validate_claim_update,
        persistent_volumes.validate_claim_status,
    ),
    ("", "Endpoints"): Checks(endpoints.validate, endpoints.validate_update),
    (DISCOVERY_GROUP, "EndpointSlice"): Checks(endpoints.validate_slice, endpoints.validate_slice_update),
    (STORAGE_GROUP, "StorageClass"): Checks(storage.validate_class, storage.validate_class_update),
    (STORAGE_GROUP, "CSIDriver"): Checks(storage.validate_driver, storage.validate_driver_update),
    (STORAGE_GROUP, "CSINode"): Checks(storage.validate_node, storage.validate_node_update),
    (STORAGE_GROUP, "CSIStorageCapacity"): Checks(storage.validate_capacity, storage.validate_capacity_update),
    (STORAGE_GROUP, "VolumeAttachment"): Checks(storage.validate_attachment, storage.validate_attachment_update),
    (STORAGE_GROUP, "VolumeAttributesClass"): Checks(
        storage.validate_attributes_class, storage.validate_attributes_class_update
    ),
    (NETWORKING_GROUP, "Ingress"): Checks(ingresses.validate, ingresses.validate_update),
    (NETWORKING_GROUP, "IngressClass"): Checks(ingresses.validate_class, ingresses.validate_class_update),
    (NETWORKING_GROUP, "NetworkPolicy"): Checks(network_policies.validate, network_policies.validate_update),
    (NETWORKING_GROUP, "IPAddress"): Checks(service_ranges.validate_address, service_ranges.validate_address_update),
    (NETWORKING_GROUP, "ServiceCIDR"): Checks(service_ranges.validate_range, service_ranges.validate_range_update),
    (NODE_GROUP, "RuntimeClass"): Checks(runtime_classes.validate, runtime_classes.validate_update),
    (FLOW_CONTROL_GROUP, "FlowSchema"): Checks(flow_control.validate_schema, flow_control.validate_schema_update),
    (FLOW_CONTROL_GROUP, "PriorityLevelConfiguration"): Checks(
        flow_control.validate_level, flow_control.validate_level_update
    ),
    (REGISTRATION_GROUP, "APIService"): Checks(api_services.validate, api_services.validate_update),
    (AUTOSCALING_GROUP, "HorizontalPodAutoscaler"): Checks(
        autoscalers.validate, autoscalers.validate_update, autoscalers.validate_status
    ),
    (CERTIFICATES_GROUP, "ClusterTrustBundle"): Checks(trust_bundles.validate, trust_bundles.validate_update),
    (CERTIFICATES_GROUP, "PodCertificateRequest"): Checks(
        pod_certificates.validate, pod_certificates.validate_update, pod_certificates.validate_status
    ),
    (COORDINATION_GROUP, "LeaseCandidate"): Checks(leases.validate_candidate, leases.validate_candidate_update),
    (MIGRATION_GROUP, "StorageVersionMigration"): Checks(
        storage_migrations.validate, storage_migrations.validate_update, storage_migrations.validate_status
    ),
}
NAME_RULES: dict[tuple[str, str], metadata.NameRule] = {
    (REGISTRATION_GROUP, "APIService"): metadata.PATH_SEGMENT,
    # Its own rules say more, which depends on the signer.
    (CERTIFICATES_GROUP, "ClusterTrustBundle"): metadata.PATH_SEGMENT,
    (COORDINATION_GROUP, "LeaseCandidate"): metadata.PATH_SEGMENT,
    (NETWORKING_GROUP, "IPAddress"): (service_ranges.is_canonical_address, "must be an IP address in canonical form"),
}
