"""Values for a field, by its name and its type on the wire: mostly such as occur, some at and beyond the limits."""

from __future__ import annotations

import copy
from random import Random
from typing import Any

from dray.api.wire_types import TYPES

NAMES = [f"o-{number}" for number in range(6)]
NODES = [f"n-{number}" for number in range(5)]
NAMESPACES = ["fz-a", "fz-b"]
DRIVER = "gpu.example.com"
CLASSES = ["gpu", "mig", "shared-gpu", "nic", *NAMES[:3]]
KEYS = ["zone", "num", "app", "example.com/load", "kubernetes.io/hostname"]
CEL = [
    "true",
    "false",
    f'device.driver == "{DRIVER}"',
    f'device.attributes["{DRIVER}"].model == "H100"',
    f'device.attributes["{DRIVER}"].num > 3',
    f'device.capacity["{DRIVER}"].memory.compareTo(quantity("10Gi")) >= 0',
    f'device.attributes["{DRIVER}"].model.matches("^(A|H)+.*$")',
    f'"model" in device.attributes["{DRIVER}"]',
    'device.attributes["nobody.example.com"].nothing == 1',
    f'semver(device.attributes["{DRIVER}"].version).isGreaterThan(semver("1.0.0"))',
    "[1,2,3].all(x, [1,2,3].exists(y, x == y))",
    "1 / 0 == 1",
    "device.allowMultipleAllocations",
    "syntax (",
    "self == self",
    "!has(self.spec) || self.spec.size < 10",
]
# What stands in a field of this name, whatever object it is in.
KNOWN: dict[str, list[Any]] = {
    "name": [*NAMES, "gpu", "nic", "gpu-0", "gpu-1", "c", "d", "memory", "app"],
    "namespace": [*NAMESPACES],
    "generateName": ["gen-", "g"],
    "nodeName": [*NODES, "big", "nowhere"],
    "nominatedNodeName": [*NODES],
    "deviceClassName": CLASSES,
    "resourceClaimName": NAMES,
    "resourceClaimTemplateName": NAMES,
    "driver": [DRIVER, "nic.example.com", "other.example.com"],
    "pool": [*NODES, "big", "cut", "far"],
    "device": ["gpu-0", "gpu-1", "gpu-2"],
    "priorityClassName": [*NAMES[:3], "urgent", "system-node-critical"],
    "preemptionPolicy": ["Never", "PreemptLowerPriority"],
    "schedulerName": ["default-scheduler", "default-scheduler", "other"],
    "serviceAccountName": ["default", *NAMES[:2]],
    "key": KEYS,
    "operator": ["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Equal"],
    "effect": ["NoSchedule", "PreferNoSchedule", "NoExecute", "None"],
    "expression": CEL,
    "rule": CEL,
    "topologyKey": KEYS,
    "whenUnsatisfiable": ["DoNotSchedule", "ScheduleAnyway"],
    "nodeAffinityPolicy": ["Honor", "Ignore"],
    "nodeTaintsPolicy": ["Honor", "Ignore"],
    "matchAttribute": [f"{DRIVER}/model", f"{DRIVER}/num", "resource.kubernetes.io/pcieRoot"],
    "distinctAttribute": [f"{DRIVER}/model", f"{DRIVER}/num", "resource.kubernetes.io/pcieRoot"],
    "allocationMode": ["ExactCount", "All"],
    "restartPolicy": ["Always", "Never", "OnFailure"],
    "phase": ["Pending", "Running", "Succeeded", "Failed", "Active", "Terminating"],
    "status": ["True", "False", "Unknown"],
    "type": ["Ready", "PodScheduled", "DisruptionTarget", "Complete", "Failed", "FailureTarget", "object", "string"],
    "reason": ["Testing", "Unschedulable", "NotFound"],
    "completionMode": ["NonIndexed", "Indexed"],
    "podReplacementPolicy": ["TerminatingOrFailed", "Failed"],
    "managedBy": ["example.com/other"],
    "completedIndexes": ["0-3", "1,3-5", "0", ""],
    "succeededIndexes": ["0-3", "1,3-5", "0"],
    "unhealthyPodEvictionPolicy": ["IfHealthyBudget", "AlwaysAllow"],
    "counterSet": ["set", "gpu-0"],
    "bindingConditions": [["example.com/ready"]],
    "bindingFailureConditions": [["example.com/failed"]],
    "finalizers": [["example.com/wait"], ["foregroundDeletion"], ["orphan"], []],
    "ownerReferences": [
        [{"apiVersion": "v1", "kind": "ConfigMap", "name": "o-1", "uid": "00000000-0000-0000-0000-000000000001"}],
        [{"apiVersion": "batch/v1", "kind": "Job", "name": "o-1", "uid": "x", "controller": True}],
    ],
    "labels": [{"app": "a"}, {"app": "b", "zone": "z"}, {"phase": "Failed"}],
    "nodeSelector": [{"zone": "a"}, {"num": "7"}],
    "values": [["a"], ["a", "b"], ["abc"], ["7"], ["-1"], ["9" * 30], []],
    "matchLabels": [{"app": "a"}, {}],
    "verbs": [["get"], ["*"], ["get", "list", "bind", "escalate"]],
    "apiGroups": [[""], ["*"], ["resource.k8s.io"]],
    "resources": [["pods"], ["*"], ["pods/status", "resourceclaims"]],
    "concurrencyPolicy": ["Allow"],
    "scope": ["Namespaced", "Cluster"],
    "version": ["1.2.3", "0.0.0-a+b"],
    "deletionTimestamp": ["2026-01-01T00:00:00Z"],
    "preferredHolder": ["a"],
    "strategy": ["OldestEmulationVersion", "None"],
}
PLAIN_STRINGS = ["a", "b", "some-name", "example.com", "Some words.", "7", "10.0.0.1"]
ODD_STRINGS = [
    "",
    " ",
    "A",
    "-",
    "..",
    "a/b",
    "a/b/c",
    "1e400",
    "9" * 4301,
    "x" * 64,
    "x" * 254,
    "x" * 5000,
    "ü€😀",
    "\u202eabc",
    "a\u0000b",
    "\ud7ff\uffff",
    "null",
    "%2e%2e",
    "{{.}}",
    "${x}",
    "\r\n",
    "a.b." * 60,
]
PLAIN_NUMBERS = [0, 1, 2, 3, 5, 10, 60]
ODD_NUMBERS = [
    -1,
    100,
    129,
    1000,
    65536,
    2**31 - 1,
    2**31,
    -(2**31),
    2**53 + 1,
    2**63 - 1,
    2**63,
    -(2**63),
    10**30,
    1.5,
]
PLAIN_QUANTITIES = ["1", "2", "100m", "10Gi", "1Ki", "4", "80Gi", 1]
ODD_QUANTITIES = [
    "0",
    "-1",
    "-5Gi",
    "1e400",
    "-1e400",
    "1e-400",
    "0.0000000001",
    "1n",
    "9223372036854775807",
    "9223372036854775808",
    "1000000Ei",
    "1e3",
    "1.5Gi",
    "9" * 300,
    "0.1" + "0" * 200 + "1",
    "1Zi",
    10**25,
    1.5,
]
PLAIN_TIMES = ["2026-11-16T12:00:00Z", "2026-01-01T00:00:00Z"]
ODD_TIMES = [
    "1970-01-01T00:00:00Z",
    "0001-01-01T00:00:00Z",
    "9999-12-31T23:59:59Z",
    "9999-12-31T23:59:59-23:59",
    "0001-01-01T00:00:00+23:59",
    "2026-02-30T00:00:00Z",
    "2026-11-16T12:00:00.123456789Z",
    "2026-12-31T23:59:60Z",
    "2400-01-01T00:00:00.000001Z",
    "soon",
]
_PLAIN: dict[str, list[Any]] = {
    "str": PLAIN_STRINGS,
    "bool": [True, False],
    "int32": PLAIN_NUMBERS,
    "int64": PLAIN_NUMBERS,
    "quantity": PLAIN_QUANTITIES,
    "time": PLAIN_TIMES,
    "microtime": ["2026-11-16T12:00:00.000001Z"],
    "empty": [{}],
    "any": [{}, {"a": 1}, "a", [1], None, True, 1.5],
    "raw": [{"apiVersion": "example.com/v1", "kind": "Parameters", "size": 1}],
    "intstr": [1, "10%", "50%"],
    "float": [1.5, 0],
    "bytes": ["YQ==", ""],
}
_ODD: dict[str, list[Any]] = {
    "str": ODD_STRINGS,
    "int32": ODD_NUMBERS,
    "int64": ODD_NUMBERS,
    "quantity": ODD_QUANTITIES,
    "time": ODD_TIMES,
    "microtime": ODD_TIMES,
    "intstr": ["-1%", "1000%", "9" * 40 + "%", 2**31, -1, "x", "1.5%"],
    "float": [1e308, -1e308, 5e-324, 2**70],
    "bytes": ["=", "YQ", "x" * 1000],
    "empty": [{"a": 1}],
}
_WRONG = [None, "", 0, -1, True, [], {}, [None], {"": None}, [[[[]]]]]


def bare(wire: str) -> str:
    """The type without the marks that it is required or may be null."""
    return wire.lstrip("!*")


def value(random: Random, field: str, wire: str, depth: int = 0) -> Any:
    wire = bare(wire)
    chance = random.random()
    if chance < 0.005:
        return copy.deepcopy(random.choice(_WRONG))
    if field in KNOWN and chance < 0.85:
        return copy.deepcopy(random.choice(KNOWN[field]))
    if wire.startswith("[]"):
        number = random.choice([0, 1, 1, 1, 2, 2, 3, 3, 33]) if depth < 3 else 1
        return [value(random, field, wire[2:], depth + 1) for _ in range(number)]
    if wire.startswith("{}"):
        keys = random.sample([*KEYS, "cpu", "memory", "a", "b", "pods", f"{DRIVER}/gpu"], random.randint(0, 3))
        return {key: value(random, key, wire[2:], depth + 1) for key in keys}
    if wire in TYPES:
        return struct(random, wire, depth + 1)
    if wire in {"any", "raw"} and chance > 0.95:
        return nested(random, random.choice([3, 50, 200]))
    return copy.deepcopy(random.choice(_ODD[wire] if wire in _ODD and chance > 0.8 else _PLAIN[wire]))


def struct(random: Random, wire: str, depth: int) -> dict[str, Any]:
    """An object with its required fields and some of the others, fewer the deeper it is."""
    share = 0.4 if depth < 2 else 0.2 if depth < 4 else 0.05
    found = {}
    for field, each in TYPES[wire].items():
        if (each.startswith("!") and depth < 8) or random.random() < share:
            found[field] = value(random, field, each, depth)
    return found


def nested(random: Random, depth: int) -> Any:
    found: Any = copy.deepcopy(random.choice(_WRONG))
    for _ in range(depth):
        found = [found] if random.random() < 0.5 else {random.choice("ab"): found}
    return found
