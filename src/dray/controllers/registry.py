"""The controllers by name. Each is imported when it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Final, cast

from dray.controllers.environment import Controller, Environment

CONTROLLERS: Final[Mapping[str, str]] = {
    "resourceclaim": "dray.controllers.claims.controller:ClaimController",
    "device-taint-eviction": "dray.controllers.device_taints.controller:DeviceTaintEviction",
    "resource-pool-status": "dray.controllers.pool_status.controller:PoolStatus",
    "garbage-collector": "dray.controllers.garbage.collector:GarbageCollector",
    "pod-garbage-collector": "dray.controllers.pod_garbage:PodGarbageCollector",
    "namespace": "dray.controllers.namespaces:NamespaceController",
    "serviceaccount": "dray.controllers.service_accounts:ServiceAccountController",
    "serviceaccount-token": "dray.controllers.account_tokens:AccountTokens",
    "root-ca-cert-publisher": "dray.controllers.root_certificates:RootCertificatePublisher",
    "node-lifecycle": "dray.controllers.node_lifecycle.controller:NodeLifecycle",
    "resourcequota": "dray.controllers.quota:QuotaController",
    "disruption": "dray.controllers.disruption.controller:DisruptionController",
    "deployment": "dray.controllers.deployments.controller:DeploymentController",
    "replicaset": "dray.controllers.replica_sets.controller:ReplicaSetController",
    "replicationcontroller": "dray.controllers.replica_sets.controller:ReplicationControllerController",
    "job": "dray.controllers.jobs.controller:JobController",
    "cronjob": "dray.controllers.cron_jobs.controller:CronJobController",
    "daemonset": "dray.controllers.daemon_sets.controller:DaemonSetController",
    "statefulset": "dray.controllers.stateful_sets.controller:StatefulSetController",
    "coscheduling": "dray.controllers.coscheduling:Coscheduling",
    "podgroup-protection": "dray.controllers.pod_groups:PodGroupProtection",
    "certificatesigningrequest-approving": "dray.controllers.certificates.approver:CertificateApprover",
    "certificatesigningrequest-cleaner": "dray.controllers.certificates.cleaner:CertificateCleaner",
    "token-cleaner": "dray.controllers.token_cleaner:TokenCleaner",
    "endpoints": "dray.controllers.endpoints.controller:EndpointsController",
    "endpointslice": "dray.controllers.endpoints.controller:EndpointSliceController",
    "endpointslicemirroring": "dray.controllers.endpoints.mirroring:EndpointSliceMirroring",
    "persistentvolume-binder": "dray.controllers.volumes.binder:VolumeBinder",
    "ephemeral-volume": "dray.controllers.volumes.ephemeral:EphemeralVolumes",
    "persistentvolumeclaim-protection": "dray.controllers.volumes.protection:ClaimProtection",
    "persistentvolume-protection": "dray.controllers.volumes.protection:VolumeProtection",
    "storage-version-migrator": "dray.controllers.storage_migrations:StorageVersionMigrator",
    "leader-election": "dray.controllers.leader_election.controller:LeaderElectionController",
    "device-usage": "dray.controllers.device_usage.controller:DeviceUsage",
    "notifications": "dray.controllers.notifications.controller:Notifications",
    "bare-node": "dray.controllers.bare_nodes:BareNodes",
}


def make(name: str, environment: Environment) -> Controller:
    module, _, attribute = CONTROLLERS[name].partition(":")
    factory = cast(Callable[[Environment], Controller], getattr(import_module(module), attribute))
    return factory(environment)
