"""Defaults of DaemonSets, StatefulSets and CronJobs, and of what they make pods and jobs from."""

from __future__ import annotations

from dray.api.objects import Object, mapping
from dray.api.pod_defaults import default_pod_spec

REVISION_HISTORY_LIMIT = 10
ROLLING_UPDATE = "RollingUpdate"


def default_daemon_set(spec: Object) -> None:
    strategy = spec["updateStrategy"]
    if not strategy.get("type"):
        strategy["type"] = ROLLING_UPDATE
    if strategy["type"] == ROLLING_UPDATE:
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", 1)
        rolling.setdefault("maxSurge", 0)
    spec.setdefault("revisionHistoryLimit", REVISION_HISTORY_LIMIT)
    default_pod_spec(spec["template"]["spec"], template=True)


def default_stateful_set(spec: Object) -> None:
    if not spec.get("podManagementPolicy"):
        spec["podManagementPolicy"] = "OrderedReady"
    strategy = spec["updateStrategy"]
    if not strategy.get("type"):
        strategy["type"] = ROLLING_UPDATE
        strategy.setdefault("rollingUpdate", {})
    if strategy["type"] == ROLLING_UPDATE and strategy.get("rollingUpdate") is not None:
        strategy["rollingUpdate"].setdefault("partition", 0)
        strategy["rollingUpdate"].setdefault("maxUnavailable", 1)
    retention = spec.setdefault("persistentVolumeClaimRetentionPolicy", {})
    for member in ("whenDeleted", "whenScaled"):
        if not retention.get(member):
            retention[member] = "Retain"
    spec.setdefault("replicas", 1)
    spec.setdefault("revisionHistoryLimit", REVISION_HISTORY_LIMIT)
    for claim in spec.get("volumeClaimTemplates") or ():
        claim.update(apiVersion="v1", kind="PersistentVolumeClaim")
        claim["spec"].setdefault("volumeMode", "Filesystem")
        claim["status"].setdefault("phase", "Pending")
    default_pod_spec(spec["template"]["spec"], template=True)


def default_cron_job(spec: Object) -> None:
    """The template of its jobs is left as it is but for their pods: a job has its own defaults when it is made."""
    if not spec.get("concurrencyPolicy"):
        spec["concurrencyPolicy"] = "Allow"
    spec.setdefault("suspend", False)
    spec.setdefault("successfulJobsHistoryLimit", 3)
    spec.setdefault("failedJobsHistoryLimit", 1)
    job = spec["jobTemplate"]["spec"]
    default_failure_policy(job.get("podFailurePolicy"))
    default_pod_spec(job["template"]["spec"], template=True)


def default_failure_policy(policy: Object | None) -> None:
    for rule in mapping(policy).get("rules") or ():
        for pattern in rule.get("onPodConditions") or ():
            if not pattern.get("status"):
                pattern["status"] = "True"
