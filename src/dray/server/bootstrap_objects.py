"""Objects that a server has from its start because its clients look for them: the mandatory ones of flow control."""

from __future__ import annotations

from collections.abc import Iterator

from dray.api.cluster_kinds import FLOW_CONTROL_GROUP
from dray.api.objects import Object
from dray.server.authorization import AUTHENTICATED, MASTERS
from dray.server.security.users import UNAUTHENTICATED

_AUTOUPDATE = {"apf.kubernetes.io/autoupdate-spec": "true"}
_ANY = ["*"]


def flow_control() -> Iterator[Object]:
    yield _level("exempt", {"type": "Exempt", "exempt": {"nominalConcurrencyShares": 0, "lendablePercent": 0}})
    limited = {"nominalConcurrencyShares": 5, "lendablePercent": 0, "limitResponse": {"type": "Reject"}}
    yield _level("catch-all", {"type": "Limited", "limited": limited})
    yield _schema("exempt", 1, [MASTERS], by_user=False)
    yield _schema("catch-all", 10_000, [UNAUTHENTICATED, AUTHENTICATED], by_user=True)


def _level(name: str, spec: Object) -> Object:
    return _flow_control("PriorityLevelConfiguration", name, spec)


def _schema(name: str, precedence: int, groups: list[str], *, by_user: bool) -> Object:
    rule = {
        "subjects": [{"kind": "Group", "group": {"name": group}} for group in groups],
        "resourceRules": [
            {"verbs": _ANY, "apiGroups": _ANY, "resources": _ANY, "clusterScope": True, "namespaces": _ANY}
        ],
        "nonResourceRules": [{"verbs": _ANY, "nonResourceURLs": _ANY}],
    }
    spec: Object = {
        "matchingPrecedence": precedence,
        "priorityLevelConfiguration": {"name": name},
        "rules": [rule],
    }
    if by_user:
        spec["distinguisherMethod"] = {"type": "ByUser"}
    return _flow_control("FlowSchema", name, spec)


def _flow_control(kind: str, name: str, spec: Object) -> Object:
    metadata = {"name": name, "annotations": dict(_AUTOUPDATE)}
    return {"apiVersion": f"{FLOW_CONTROL_GROUP}/v1", "kind": kind, "metadata": metadata, "spec": spec}
