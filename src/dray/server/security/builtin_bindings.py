"""Built-in role bindings, and how a server comes to have roles and bindings.

`bootstrap` gives what a store lacks at start. As in Kubernetes, a built-in object that lost permissions or subjects
gets them back, unless its owner has set `rbac.authorization.kubernetes.io/autoupdate: "false"` on it; what an owner
has added stays.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from dray.api.objects import Object
from dray.server.authorization import AUTHENTICATED, MASTERS
from dray.server.security.builtin_roles import BOOTSTRAPPING, CONTROLLERS, cluster_roles
from dray.server.security.policy import CLUSTER_ROLE_BINDING, GROUP
from dray.server.security.rules import PolicyRule, uncovered
from dray.server.security.users import (
    BOOTSTRAPPERS,
    DEVICE_DRIVER,
    NODES,
    SERVICE_ACCOUNTS,
    SYSTEM_NAMESPACE,
    UNAUTHENTICATED,
)

_AUTOUPDATE = "rbac.authorization.kubernetes.io/autoupdate"
_GROUPS = {
    "cluster-admin": (MASTERS,),
    "system:basic-user": (AUTHENTICATED,),
    "system:discovery": (AUTHENTICATED,),
    "system:public-info-viewer": (AUTHENTICATED, UNAUTHENTICATED),
    "system:monitoring": ("system:monitoring",),
    "system:service-account-issuer-discovery": (SERVICE_ACCOUNTS,),
    # A node holds its role through the node authorizer only, which tells nodes apart.
    "system:node": (),
    # Machines that join, and nodes that renew what they have; in a kubeadm cluster kubeadm makes these.
    "system:node-bootstrapper": (BOOTSTRAPPERS,),
    "system:certificates.k8s.io:certificatesigningrequests:nodeclient": (BOOTSTRAPPERS,),
    "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient": (NODES,),
    "system:certificates.k8s.io:certificatesigningrequests:selfnodeserver": (NODES,),
}
_USERS = ("system:kube-controller-manager", "system:kube-scheduler")


def cluster_role_bindings() -> list[Object]:
    return [
        *(_binding(role, [_subject("Group", group) for group in groups]) for role, groups in _GROUPS.items()),
        *(_binding(user, [_subject("User", user)]) for user in _USERS),
        _binding("system:device-driver", [_service_account(DEVICE_DRIVER)]),
        *(_binding(f"system:controller:{name}", [_service_account(name)]) for name in CONTROLLERS),
    ]


def bootstrap(existing: Iterable[Mapping[str, Any]]) -> Iterator[Object]:
    """The built-in objects to create or update, given the cluster roles and cluster role bindings there are."""
    found = {(obj["kind"], obj["metadata"]["name"]): obj for obj in existing}
    for builtin in (*cluster_roles(), *cluster_role_bindings()):
        present = found.get((builtin["kind"], builtin["metadata"]["name"]))
        if present is None:
            yield builtin
        elif (present["metadata"].get("annotations") or {}).get(_AUTOUPDATE) != "false":
            repaired = _repaired(present, builtin)
            if repaired != present:
                yield repaired


def _repaired(present: Mapping[str, Any], builtin: Object) -> Object:
    repaired = copy.deepcopy(dict(present))
    if builtin["kind"] == CLUSTER_ROLE_BINDING:
        if present.get("roleRef") == builtin["roleRef"]:
            subjects = list(present.get("subjects") or ())
            missing = [subject for subject in builtin.get("subjects", ()) if subject not in subjects]
            repaired.update({"subjects": subjects + missing} if missing else {})
        return repaired
    if "aggregationRule" in builtin:
        repaired.setdefault("aggregationRule", builtin["aggregationRule"])
        return repaired
    held = [PolicyRule.read(rule) for rule in present.get("rules") or ()]
    missing = [rule.document() for rule in uncovered(held, map(PolicyRule.read, builtin["rules"]))]
    repaired.update({"rules": [*(present.get("rules") or ()), *missing]} if missing else {})
    return repaired


def _binding(role: str, subjects: list[Object]) -> Object:
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": CLUSTER_ROLE_BINDING,
        "metadata": {"name": role, "labels": dict(BOOTSTRAPPING), "annotations": {_AUTOUPDATE: "true"}},
        "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": role},
        **({"subjects": subjects} if subjects else {}),
    }


def _subject(kind: str, name: str) -> Object:
    return {"kind": kind, "apiGroup": GROUP, "name": name}


def _service_account(name: str) -> Object:
    return {"kind": "ServiceAccount", "name": name, "namespace": SYSTEM_NAMESPACE}
