"""The built-in kinds that several controllers work on."""

from __future__ import annotations

from typing import Final

from dray.api.catalogue import built_in

PODS: Final = built_in("v1", "Pod")
PERSISTENT_VOLUME_CLAIMS: Final = built_in("v1", "PersistentVolumeClaim")
NODES: Final = built_in("v1", "Node")
NAMESPACES: Final = built_in("v1", "Namespace")
DEPLOYMENTS: Final = built_in("apps/v1", "Deployment")
REPLICA_SETS: Final = built_in("apps/v1", "ReplicaSet")
REPLICATION_CONTROLLERS: Final = built_in("v1", "ReplicationController")
JOBS: Final = built_in("batch/v1", "Job")
CRON_JOBS: Final = built_in("batch/v1", "CronJob")
DAEMON_SETS: Final = built_in("apps/v1", "DaemonSet")
STATEFUL_SETS: Final = built_in("apps/v1", "StatefulSet")
CONTROLLER_REVISIONS: Final = built_in("apps/v1", "ControllerRevision")
POD_GROUPS: Final = built_in("scheduling.k8s.io/v1beta1", "PodGroup")
RESOURCE_CLAIMS: Final = built_in("resource.k8s.io/v1", "ResourceClaim")
RESOURCE_CLAIM_TEMPLATES: Final = built_in("resource.k8s.io/v1", "ResourceClaimTemplate")
RESOURCE_SLICES: Final = built_in("resource.k8s.io/v1", "ResourceSlice")
VOLUMES: Final = built_in("v1", "PersistentVolume")
CLAIMS_FOR_VOLUMES: Final = built_in("v1", "PersistentVolumeClaim")
STORAGE_CLASSES: Final = built_in("storage.k8s.io/v1", "StorageClass")
