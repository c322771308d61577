"""Totals of a namespace follow every write and the time."""

from datetime import UTC, datetime, timedelta
from random import Random

from dray.api.quota import charges
from dray.api.quota.names import CLAIMS, PODS
from dray.server.quota_usage import NamespaceUsage

NOW = datetime(2026, 1, 1, tzinfo=UTC)
QUOTAS = [
    {"spec": {}},
    {"spec": {"scopes": ["BestEffort"]}},
    {"spec": {"scopes": ["NotTerminating", "NotBestEffort"]}},
    {"spec": {"scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "Exists"}]}}},
]
NAMES = ["pods", "count/pods", "requests.cpu", "requests.example.com/gpu", "gpu.deviceclass.resource.k8s.io/devices"]


def pod(draw, name):
    requests = draw.choice([{}, {"cpu": "250m"}, {"cpu": "1", "example.com/gpu": "2"}])
    spec = {"containers": [{"name": "c", "resources": {"requests": requests}}]}
    if draw.random() < 0.3:
        spec["activeDeadlineSeconds"] = 5
    if draw.random() < 0.3:
        spec["priorityClassName"] = "high"
    metadata = {"name": name, "uid": f"uid-{name}"}
    if draw.random() < 0.2:
        leaving = (NOW + timedelta(seconds=draw.randrange(60))).isoformat()
        metadata |= {"deletionTimestamp": leaving, "deletionGracePeriodSeconds": 30}
    status = {"phase": draw.choice(["Pending", "Running", "Failed"])}
    if draw.random() < 0.3:
        status["extendedResourceClaimStatus"] = {"resourceClaimName": f"c{draw.randrange(6)}"}
    return {"metadata": metadata, "spec": spec, "status": status}


def claim(draw, name):
    request = {"name": "r", "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 2}}
    metadata = {"name": name, "creationTimestamp": f"2026-01-01T00:00:0{draw.randrange(3)}Z"}
    if draw.random() < 0.7:
        owner = f"p{draw.randrange(6)}"
        metadata["annotations"] = {"resource.kubernetes.io/extended-resource-claim": "true"}
        reference = {"apiVersion": "v1", "kind": "Pod", "name": owner, "uid": f"uid-{owner}", "controller": True}
        metadata["ownerReferences"] = [reference]
    return {"metadata": metadata, "spec": {"devices": {"requests": [request]}}}


def extended(device_class):
    return "example.com/gpu"


def test_a_ledger_that_is_kept_equals_one_that_is_made():
    draw, objects, now = Random(7), {}, NOW

    def read(resource, name):
        return objects.get((resource, name))

    kept = NamespaceUsage(read, extended, ())
    for _ in range(400):
        entry = draw.choice([PODS, CLAIMS]), ""
        entry = entry[0], f"{entry[0][0] if entry[0] == PODS else 'c'}{draw.randrange(6)}"
        if draw.random() < 0.25:
            objects.pop(entry, None)
        else:
            objects[entry] = (pod if entry[0] == PODS else claim)(draw, entry[1])
        kept.expect(entry)
        now += timedelta(seconds=draw.randrange(3))
        made = NamespaceUsage(read, extended, list(objects))
        for quota in QUOTAS:
            for name in NAMES:
                assert kept.used(quota, name, now) == made.used(quota, name, now)


def test_a_pod_stops_to_count_when_its_grace_is_over():
    leaving = {"deletionTimestamp": NOW.isoformat(), "deletionGracePeriodSeconds": 30, "name": "p", "uid": "u"}
    gone = {"metadata": leaving, "spec": {"containers": []}, "status": {}}
    usage = NamespaceUsage(lambda resource, name: gone, extended, [(PODS, "p")])
    assert usage.used(QUOTAS[0], "pods", NOW) == charges.UNIT
    assert usage.used(QUOTAS[0], "pods", NOW + timedelta(seconds=31)) == 0
    assert usage.used(QUOTAS[0], "count/pods", NOW + timedelta(seconds=31)) == charges.UNIT
