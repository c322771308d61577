"""Defaults of the kinds of storage, networks, endpoints, flow control and autoscaling."""

from __future__ import annotations

import copy
from collections.abc import Callable

from dray.api.cluster_kinds import (
    AUTOSCALING_GROUP,
    DISCOVERY_GROUP,
    FLOW_CONTROL_GROUP,
    NETWORKING_GROUP,
    STORAGE_GROUP,
)
from dray.api.objects import Object, mapping

_PRECEDENCE = 1000
_SHARES = 30
_QUEUING = {"queues": 64, "handSize": 8, "queueLengthLimit": 50}
_CPU_PERCENT = 80
_DOUBLED = {"type": "Percent", "value": 100, "periodSeconds": 15}
_SCALING: dict[str, Object] = {
    "scaleUp": {
        "stabilizationWindowSeconds": 0,
        "selectPolicy": "Max",
        "policies": [{"type": "Pods", "value": 4, "periodSeconds": 15}, _DOUBLED],
    },
    "scaleDown": {"selectPolicy": "Max", "policies": [_DOUBLED]},
}
_DRIVER = {
    "attachRequired": True,
    "podInfoOnMount": False,
    "storageCapacity": False,
    "fsGroupPolicy": "ReadWriteOnceWithFSType",
    "requiresRepublish": False,
    "seLinuxMount": False,
}


def _volume(volume: Object) -> None:
    spec = volume["spec"]
    spec.setdefault("persistentVolumeReclaimPolicy", "Retain")
    spec.setdefault("volumeMode", "Filesystem")
    if spec.get("hostPath") is not None:
        spec["hostPath"].setdefault("type", "")
    volume["status"].setdefault("phase", "Pending")


def _claim(claim: Object) -> None:
    default_claim_spec(claim["spec"])
    claim["status"].setdefault("phase", "Pending")


def default_claim_spec(spec: Object) -> None:
    """Sets the defaults of a claim's spec, also in a template."""
    spec.setdefault("volumeMode", "Filesystem")
    # Each of the two says what the other does, where the older one can.
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    if source is not None and reference is None:
        spec["dataSourceRef"] = dict(source)
    elif reference is not None and source is None and not reference.get("namespace"):
        spec["dataSource"] = dict(reference)


def _endpoints(endpoints: Object) -> None:
    for subset in endpoints.get("subsets") or ():
        for port in subset.get("ports") or ():
            port.setdefault("protocol", "TCP")


def _slice(endpoint_slice: Object) -> None:
    for port in endpoint_slice["ports"] or ():
        port.setdefault("name", "")
        port.setdefault("protocol", "TCP")


def _storage_class(storage_class: Object) -> None:
    storage_class.setdefault("reclaimPolicy", "Delete")
    storage_class.setdefault("volumeBindingMode", "Immediate")


def _csi_driver(driver: Object) -> None:
    for member, value in _DRIVER.items():
        driver["spec"].setdefault(member, value)
    if not driver["spec"].get("volumeLifecycleModes"):
        driver["spec"]["volumeLifecycleModes"] = ["Persistent"]


def _ingress_class(ingress_class: Object) -> None:
    parameters = ingress_class["spec"].get("parameters")
    if parameters is not None and parameters.get("scope") is None:
        parameters["scope"] = "Cluster"


def _network_policy(policy: Object) -> None:
    spec = policy["spec"]
    for rule in (*(spec.get("ingress") or ()), *(spec.get("egress") or ())):
        for port in rule.get("ports") or ():
            port.setdefault("protocol", "TCP")
    if not spec.get("policyTypes"):
        spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]


def _flow_schema(schema: Object) -> None:
    schema["spec"]["matchingPrecedence"] = schema["spec"].get("matchingPrecedence") or _PRECEDENCE


def _priority_level(level: Object) -> None:
    spec = level["spec"]
    if spec["type"] == "Exempt":
        exempt = spec["exempt"] = spec.get("exempt") or {}
        exempt.setdefault("nominalConcurrencyShares", 0)
        exempt.setdefault("lendablePercent", 0)
    limited = spec.get("limited")
    if limited is None:
        return
    if limited.get("nominalConcurrencyShares") is None:
        limited["nominalConcurrencyShares"] = _SHARES
    limited.setdefault("lendablePercent", 0)
    queuing = mapping(limited.get("limitResponse")).get("queuing")
    if queuing is not None:
        queuing.update({member: queuing.get(member) or value for member, value in _QUEUING.items()})


def _autoscaler(autoscaler: Object) -> None:
    spec = autoscaler["spec"]
    spec.setdefault("minReplicas", 1)
    # What v1 leaves out follows from its annotations: conversion fills it in.
    if autoscaler["apiVersion"] == f"{AUTOSCALING_GROUP}/v1":
        return
    if not spec.get("metrics"):
        target = {"type": "Utilization", "averageUtilization": _CPU_PERCENT}
        spec["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
    behavior = spec.get("behavior")
    for member, rules in _SCALING.items() if behavior is not None else ():
        given = {name: value for name, value in mapping(behavior.get(member)).items() if value is not None}
        behavior[member] = {**copy.deepcopy(rules), **given}


DEFAULTS: dict[tuple[str, str], Callable[[Object], None]] = {
    ("", "PersistentVolume"): _volume,
    ("", "PersistentVolumeClaim"): _claim,
    ("", "Endpoints"): _endpoints,
    (DISCOVERY_GROUP, "EndpointSlice"): _slice,
    (STORAGE_GROUP, "StorageClass"): _storage_class,
    (STORAGE_GROUP, "CSIDriver"): _csi_driver,
    (NETWORKING_GROUP, "IngressClass"): _ingress_class,
    (NETWORKING_GROUP, "NetworkPolicy"): _network_policy,
    (FLOW_CONTROL_GROUP, "FlowSchema"): _flow_schema,
    (FLOW_CONTROL_GROUP, "PriorityLevelConfiguration"): _priority_level,
    (AUTOSCALING_GROUP, "HorizontalPodAutoscaler"): _autoscaler,
}
