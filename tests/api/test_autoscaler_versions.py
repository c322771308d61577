"""HorizontalPodAutoscalers of autoscaling/v1: what v2 says more is kept in annotations, and comes back."""

import json

import pytest

from dray.api import conversion, intake
from dray.api.catalogue import built_in

PREFIX = "autoscaling.alpha.kubernetes.io/"
TARGET = {"kind": "Deployment", "name": "web", "apiVersion": "apps/v1"}


def cpu(percent):
    target = {"type": "Utilization", "averageUtilization": percent}
    return {"type": "Resource", "resource": {"name": "cpu", "target": target}}


PODS = {
    "type": "Pods",
    "pods": {"metric": {"name": "queries"}, "target": {"type": "AverageValue", "averageValue": "10"}},
}
OBJECT = {
    "type": "Object",
    "object": {
        "describedObject": {"kind": "Ingress", "name": "front"},
        "metric": {"name": "hits"},
        "target": {"type": "Value", "value": "2k"},
    },
}
BEHAVIOR = {"scaleDown": {"stabilizationWindowSeconds": 60, "policies": [{"type": "Pods", "value": 1}]}}


def autoscaler(**spec):
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web", "annotations": {"mine": "stays"}},
        "spec": {"scaleTargetRef": TARGET, "minReplicas": 1, "maxReplicas": 5, **spec},
        "status": {"currentMetrics": None, "desiredReplicas": 0},
    }


def test_everything_that_v1_lacks_comes_back_from_it():
    status = {
        "desiredReplicas": 2,
        "currentMetrics": [
            {"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 7, "averageValue": "1"}}}
        ],
        "conditions": [{"type": "AbleToScale", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
    }
    before = {**autoscaler(metrics=[PODS, OBJECT, cpu(50)], behavior=BEHAVIOR), "status": status}
    old = conversion.convert(before, "v1")
    assert old["spec"] == {
        "scaleTargetRef": TARGET,
        "minReplicas": 1,
        "maxReplicas": 5,
        "targetCPUUtilizationPercentage": 50,
    }
    assert old["status"] == {"desiredReplicas": 2, "currentCPUUtilizationPercentage": 7}
    annotations = old["metadata"]["annotations"]
    assert json.loads(annotations[PREFIX + "metrics"])[0] == {
        "type": "Pods",
        "pods": {"metricName": "queries", "targetAverageValue": "10"},
    }
    assert json.loads(annotations[PREFIX + "behavior"])["ScaleDown"]["StabilizationWindowSeconds"] == 60
    after = intake._reread(conversion.convert(old, "v2"), built_in("autoscaling/v2", "HorizontalPodAutoscaler"))
    assert after["spec"]["metrics"] == [PODS, OBJECT, cpu(50)]
    assert after["metadata"]["annotations"] == {"mine": "stays"}
    assert after["status"]["conditions"] == status["conditions"]
    assert after["spec"]["behavior"]["scaleDown"]["policies"][0]["value"] == 1


@pytest.mark.parametrize(
    "text", ["[", "7", '[{"type": 3}]', '[{"type": "Pods", "pods": {"metricName": 1}}]', "[" * 3000]
)
def test_an_annotation_that_cannot_be_read_is_dropped(text):
    old = conversion.convert(autoscaler(), "v1")
    old["metadata"]["annotations"] = {PREFIX + "metrics": text, PREFIX + "behavior": text}
    new = conversion.convert(old, "v2")
    assert new["spec"]["metrics"] == [cpu(80)]
    assert "annotations" not in new["metadata"]
