"""Objects that a server has from its start because its clients look for them: those of flow control.

`exempt` and `catch-all` every server must have; the others are those that Kubernetes suggests, under its names. They
keep nodes, leader election and controllers apart from workloads. Seats are not lent, so that nothing says they were.
"""

from __future__ import annotations

from collections.abc import Iterator

from dray.api.cluster_kinds import FLOW_CONTROL_GROUP
from dray.api.objects import Object
from dray.server.authorization import AUTHENTICATED, MASTERS
from dray.server.security.users import NODES, SERVICE_ACCOUNTS, SYSTEM_NAMESPACE, UNAUTHENTICATED

_AUTOUPDATE = {"apf.kubernetes.io/autoupdate-spec": "true"}
_ANY = ["*"]
_EVERYBODY = [UNAUTHENTICATED, AUTHENTICATED]
_QUEUE_LENGTH = 50
# Name, shares, queues, hand size.
_LEVELS = (
    ("system", 30, 64, 6),
    ("node-high", 40, 64, 6),
    ("leader-election", 10, 16, 4),
    ("workload-high", 40, 128, 6),
    ("workload-low", 100, 128, 6),
    ("global-default", 20, 128, 6),
)
_BY_USER, _BY_NAMESPACE = "ByUser", "ByNamespace"


MANDATORY = ("exempt", "catch-all")
"""Levels that every server must have: `exempt` for administrators, `catch-all` for everything else."""


def mandatory_flow_control() -> list[Object]:
    return [obj for obj in flow_control() if obj["metadata"]["name"] in MANDATORY]


def flow_control() -> Iterator[Object]:
    yield _level("exempt", {"type": "Exempt", "exempt": {"nominalConcurrencyShares": 0, "lendablePercent": 0}})
    yield _limited("catch-all", 5, {"type": "Reject"})
    for name, shares, queues, hand in _LEVELS:
        queuing = {"queues": queues, "handSize": hand, "queueLengthLimit": _QUEUE_LENGTH}
        yield _limited(name, shares, {"type": "Queue", "queuing": queuing})
    controllers = [_user("system:kube-controller-manager"), _user("system:kube-scheduler"), _system_accounts()]
    lease = _resources(
        ["create", "get", "update"], ["coordination.k8s.io"], ["leases"], [SYSTEM_NAMESPACE], cluster=False
    )
    node = [
        _resources(_ANY, [""], ["nodes", "nodes/status"], _ANY, cluster=True),
        _resources(_ANY, ["coordination.k8s.io"], ["leases"], ["kube-node-lease"], cluster=False),
    ]
    probes = {"nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": ["/healthz", "/livez", "/readyz"]}]}
    yield _schema("exempt", 1, "exempt", _groups(MASTERS), "", _EVERYTHING)
    yield _schema("probes", 2, "exempt", _groups(*_EVERYBODY), "", probes)
    yield _schema("system-leader-election", 100, "leader-election", controllers, _BY_USER, {"resourceRules": [lease]})
    yield _schema("system-node-high", 400, "node-high", _groups(NODES), _BY_USER, {"resourceRules": node})
    yield _schema("system-nodes", 500, "system", _groups(NODES), _BY_USER, _EVERYTHING)
    for name in ("kube-controller-manager", "kube-scheduler"):
        yield _schema(name, 800, "workload-high", [_user(f"system:{name}")], _BY_NAMESPACE, _EVERYTHING)
    yield _schema(
        "kube-system-service-accounts", 900, "workload-high", [_system_accounts()], _BY_NAMESPACE, _EVERYTHING
    )
    yield _schema("service-accounts", 9000, "workload-low", _groups(SERVICE_ACCOUNTS), _BY_USER, _EVERYTHING)
    yield _schema("global-default", 9900, "global-default", _groups(*_EVERYBODY), _BY_USER, _EVERYTHING)
    yield _schema("catch-all", 10_000, "catch-all", _groups(*_EVERYBODY), _BY_USER, _EVERYTHING)


def _resources(
    verbs: list[str], groups: list[str], resources: list[str], namespaces: list[str], *, cluster: bool
) -> Object:
    found: Object = {"verbs": verbs, "apiGroups": groups, "resources": resources, "namespaces": namespaces}
    return {**found, "clusterScope": True} if cluster else found


_EVERYTHING: Object = {
    "resourceRules": [_resources(_ANY, _ANY, _ANY, _ANY, cluster=True)],
    "nonResourceRules": [{"verbs": _ANY, "nonResourceURLs": _ANY}],
}


def _groups(*names: str) -> list[Object]:
    return [{"kind": "Group", "group": {"name": name}} for name in names]


def _user(name: str) -> Object:
    return {"kind": "User", "user": {"name": name}}


def _system_accounts() -> Object:
    return {"kind": "ServiceAccount", "serviceAccount": {"namespace": SYSTEM_NAMESPACE, "name": "*"}}


def _limited(name: str, shares: int, response: Object) -> Object:
    limited = {"nominalConcurrencyShares": shares, "lendablePercent": 0, "limitResponse": response}
    return _level(name, {"type": "Limited", "limited": limited})


def _level(name: str, spec: Object) -> Object:
    return _flow_control("PriorityLevelConfiguration", name, spec)


def _schema(name: str, precedence: int, level: str, subjects: list[Object], by: str, rules: Object) -> Object:
    spec: Object = {
        "matchingPrecedence": precedence,
        "priorityLevelConfiguration": {"name": level},
        "rules": [{"subjects": subjects, **rules}],
    }
    if by:
        spec["distinguisherMethod"] = {"type": by}
    return _flow_control("FlowSchema", name, spec)


def _flow_control(kind: str, name: str, spec: Object) -> Object:
    metadata = {"name": name, "annotations": dict(_AUTOUPDATE)}
    return {"apiVersion": f"{FLOW_CONTROL_GROUP}/v1", "kind": kind, "metadata": metadata, "spec": spec}
