"""The roles and bindings every server starts with, as data.

They are Kubernetes' roles, cut to the kinds there are here, under Kubernetes' names, so that manifests that refer to
them work, and a kube-controller-manager or kube-scheduler beside dray. `view`, `edit` and `admin` are aggregated from
what carries their labels, which is how an installation adds its own kinds to them. A line of a role is
`verbs | groups | resources [| names]`; `core` is the group without a name.

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
from dray.server.security.cluster_roles import EVENTS
from dray.server.security.component_roles import COMPONENTS, NAMESPACED
from dray.server.security.controller_roles import CONTROLLERS
from dray.server.security.policy import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, GROUP, ROLE, ROLE_BINDING
from dray.server.security.rules import PolicyRule, uncovered
from dray.server.security.users import (
    BOOTSTRAPPERS,
    DEVICE_DRIVER,
    NODES,
    SERVICE_ACCOUNTS,
    SYSTEM_NAMESPACE,
    UNAUTHENTICATED,
)

BOOTSTRAPPING = {"kubernetes.io/bootstrapping": "rbac-defaults"}
_AUTOUPDATE = "rbac.authorization.kubernetes.io/autoupdate"
_AGGREGATE = "rbac.authorization.k8s.io/aggregate-to-"

_WORDS = {
    "READ": "get list watch",
    "CHANGE": "create delete deletecollection patch update",
    "ALL": "create delete deletecollection get list patch update watch",
    "DRA": "resource.k8s.io",
    "GANGS": "scheduling.k8s.io",
    "LEASES": "coordination.k8s.io",
    "RBAC": "rbac.authorization.k8s.io",
    "AUTHN": "authentication.k8s.io",
    "AUTHZ": "authorization.k8s.io",
    "METRICS": "metrics.k8s.io",
    "CERTS": "certificates.k8s.io",
}

# Aggregated roles: the roles that collect each of them.
_COLLECTED_BY = {"view": ("edit",), "edit": ("admin",), "admin": ()}

_PARTS = {
    "view": """
        READ | core | bindings configmaps events namespaces namespaces/status pods pods/log pods/status serviceaccounts
        READ | core | endpoints limitranges persistentvolumeclaims persistentvolumeclaims/status resourcequotas
        READ | core | resourcequotas/status services services/status
        READ | core | replicationcontrollers replicationcontrollers/scale replicationcontrollers/status
        READ | discovery.k8s.io | endpointslices
        READ | events.k8s.io | events
        READ | policy | poddisruptionbudgets poddisruptionbudgets/status
        READ | networking.k8s.io | ingresses ingresses/status networkpolicies
        READ | autoscaling | horizontalpodautoscalers horizontalpodautoscalers/status
        READ | apps | controllerrevisions daemonsets daemonsets/status
        READ | apps | deployments deployments/scale deployments/status replicasets replicasets/scale replicasets/status
        READ | apps | statefulsets statefulsets/scale statefulsets/status
        READ | batch | cronjobs cronjobs/status jobs jobs/status
        READ | DRA | resourceclaims resourceclaims/status resourceclaimtemplates
        READ | GANGS | podgroups podgroups/status workloads
        READ | METRICS | nodes pods
    """,
    "edit": """
        READ | core | pods/attach pods/exec pods/portforward pods/proxy secrets
        CHANGE | core | configmaps events pods pods/attach pods/exec pods/portforward pods/proxy
        CHANGE | core | persistentvolumeclaims secrets serviceaccounts services
        ALL | core | services/proxy
        CHANGE | events.k8s.io | events
        CHANGE | policy | poddisruptionbudgets
        CHANGE | networking.k8s.io | ingresses networkpolicies
        CHANGE | autoscaling | horizontalpodautoscalers
        create | core | pods/eviction serviceaccounts/token
        patch update | core | pods/resize
        impersonate | core | serviceaccounts
        CHANGE | core | replicationcontrollers replicationcontrollers/scale
        CHANGE | apps | daemonsets statefulsets statefulsets/scale
        CHANGE | apps | deployments deployments/rollback deployments/scale replicasets replicasets/scale
        CHANGE | batch | cronjobs jobs
        ALL | LEASES | leases
        CHANGE | DRA | resourceclaims resourceclaimtemplates
        CHANGE | GANGS | podgroups workloads
    """,
    "admin": """
        create | AUTHZ | localsubjectaccessreviews
        ALL | RBAC | roles rolebindings
    """,
}

NODE_RULES = f"""
    create | AUTHN | tokenreviews
    create | AUTHZ | localsubjectaccessreviews subjectaccessreviews
    create get list watch patch update | core | nodes
    patch update | core | nodes/status pods/status
    READ | core | configmaps pods secrets
    create delete | core | pods
    create | core | pods/eviction serviceaccounts/token
    {EVENTS}
    create delete get patch update | LEASES | leases
    get | DRA | resourceclaims
    ALL | DRA | resourceslices
    READ | core | services
    get | core | endpoints persistentvolumeclaims persistentvolumes serviceaccounts
    get patch update | core | persistentvolumeclaims/status
    READ | storage.k8s.io | csidrivers
    create delete get patch update | storage.k8s.io | csinodes
    get patch update | storage.k8s.io | csinodes/status
    get | storage.k8s.io | volumeattachments
    READ | node.k8s.io | runtimeclasses
    create get list watch | CERTS | certificatesigningrequests podcertificaterequests
    READ | CERTS | clustertrustbundles
"""

_PATHS = {
    "system:discovery": "/api /api/* /apis /apis/* /healthz /livez /openapi /openapi/* /readyz /version /version/",
    "system:public-info-viewer": "/healthz /livez /readyz /version /version/",
    "system:monitoring": "/healthz /healthz/* /livez /livez/* /metrics /metrics/slis /readyz /readyz/* /flagz /statusz",
    "system:service-account-issuer-discovery": "/.well-known/openid-configuration /.well-known/openid-configuration/ "
    "/openid/v1/jwks /openid/v1/jwks/",
}

# Resource rules of roles that have mostly paths: a kubelet asks for these before it shows its metrics.
_BESIDE_PATHS = {"system:monitoring": "get | core | nodes/metrics"}

_OTHERS = {
    "system:basic-user": """
        create | AUTHZ | selfsubjectaccessreviews selfsubjectrulesreviews
        create | AUTHN | selfsubjectreviews
    """,
    "system:auth-delegator": """
        create | AUTHN | tokenreviews
        create | AUTHZ | subjectaccessreviews
    """,
    "system:node": NODE_RULES,
    "system:node-bootstrapper": """
        create get list watch | CERTS | certificatesigningrequests
    """,
    # Nobody requests these subresources: requests of users that may create them are approved.
    "system:certificates.k8s.io:certificatesigningrequests:nodeclient": """
        create | CERTS | certificatesigningrequests/nodeclient
    """,
    "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient": """
        create | CERTS | certificatesigningrequests/selfnodeclient
    """,
    "system:certificates.k8s.io:certificatesigningrequests:selfnodeserver": """
        create | CERTS | certificatesigningrequests/selfnodeserver
    """,
    **{
        f"system:certificates.k8s.io:{signer}-approver": f"approve | CERTS | signers | kubernetes.io/{signer}"
        for signer in ("kube-apiserver-client", "kube-apiserver-client-kubelet", "kubelet-serving", "legacy-unknown")
    },
    # What the commands top, devices, usage, queue, explain, plan, snapshot and topology read. For other clusters it is
    # in examples/deploy/viewer.yaml.
    "dray:viewer": """
        READ | core | events namespaces nodes persistentvolumes persistentvolumeclaims pods
        get | core | configmaps | dray-usage
        READ | DRA | deviceclasses devicetaintrules resourceclaims resourceclaimtemplates resourceslices
        READ | GANGS | compositepodgroups podgroups priorityclasses workloads
        READ | policy | poddisruptionbudgets
        READ | storage.k8s.io | storageclasses
        READ | kueue.x-k8s.io | *
        READ | scheduling.run.ai scheduling.x-k8s.io kai.scheduler | *
        READ | apps | daemonsets deployments replicasets statefulsets
        READ | batch | cronjobs jobs
        READ | cloud.google.com | computeclasses
        READ | karpenter.sh | nodepools
        READ | apiextensions.k8s.io | customresourcedefinitions
        READ | admissionregistration.k8s.io | validatingwebhookconfigurations
    """,
    # Drivers in the agent of a node: they write device status into claims of that node.
    "system:device-driver": """
        patch update | DRA | resourceclaims/status
        associated-node:patch associated-node:update | DRA | resourceclaims/driver
    """,
    **COMPONENTS,
    **{f"system:controller:{name}": rules for name, rules in CONTROLLERS.items()},
}
_GROUPS = {
    "cluster-admin": (MASTERS,),
    "system:basic-user": (AUTHENTICATED,),
    "system:discovery": (AUTHENTICATED,),
    "system:public-info-viewer": (AUTHENTICATED, UNAUTHENTICATED),
    "system:monitoring": ("system:monitoring",),
    "system:service-account-issuer-discovery": (SERVICE_ACCOUNTS,),
    "system:cluster-trust-bundle-discovery": (SERVICE_ACCOUNTS,),
    # A node gets its role only from the node authorizer, which tells nodes apart.
    "system:node": (),
    # Machines that join, and nodes that renew their certificates; in a kubeadm cluster kubeadm binds them.
    "system:node-bootstrapper": (BOOTSTRAPPERS,),
    "system:certificates.k8s.io:certificatesigningrequests:nodeclient": (BOOTSTRAPPERS,),
    "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient": (NODES,),
    "system:certificates.k8s.io:certificatesigningrequests:selfnodeserver": (NODES,),
}
_USERS = {
    "system:kube-controller-manager": "system:kube-controller-manager",
    "system:kube-scheduler": "system:kube-scheduler",
    "system:volume-scheduler": "system:kube-scheduler",
    "system:node-proxier": "system:kube-proxy",
    # A kubelet asks whether the API server may read logs and run commands; in a kubeadm cluster kubeadm grants it.
    "system:kubelet-api-admin": "kube-apiserver-kubelet-client",
}


def read_rules(text: str) -> list[Object]:
    rules = []
    for line in filter(None, map(str.strip, text.splitlines())):
        verbs, groups, resources, *names = (_words(column) for column in line.split("|"))
        rule = {"verbs": verbs, "apiGroups": ["" if group == "core" else group for group in groups]}
        rules.append({**rule, "resources": resources, **({"resourceNames": names[0]} if names else {})})
    return rules


def _path_rules(name: str) -> list[Object]:
    paths = {"verbs": ["get"], "nonResourceURLs": _PATHS[name].split()}
    return [paths, *read_rules(_BESIDE_PATHS.get(name, ""))]


def cluster_roles() -> list[Object]:
    everything = [
        {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},
        {"verbs": ["*"], "nonResourceURLs": ["*"]},
    ]
    return [
        _role("cluster-admin", everything),
        *(_aggregated(name) for name in _PARTS),
        *(_role(f"system:aggregate-to-{name}", read_rules(text), (name,)) for name, text in _PARTS.items()),
        *(_role(name, _path_rules(name)) for name in _PATHS),
        *(_role(name, read_rules(text)) for name, text in _OTHERS.items()),
    ]


def _role(name: str, rules: list[Object], collected_by: tuple[str, ...] = (), namespace: str = "") -> Object:
    labels = {**BOOTSTRAPPING, **{_AGGREGATE + role: "true" for role in collected_by}}
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": ROLE if namespace else CLUSTER_ROLE,
        "metadata": _metadata(name, namespace, labels),
        "rules": rules,
    }


def _aggregated(name: str) -> Object:
    selector = {"matchLabels": {_AGGREGATE + name: "true"}}
    return {**_role(name, [], _COLLECTED_BY[name]), "aggregationRule": {"clusterRoleSelectors": [selector]}}


def _words(column: str) -> list[str]:
    return " ".join(_WORDS.get(word, word) for word in column.split()).split()


def cluster_role_bindings() -> list[Object]:
    return [
        *(_binding(role, [_subject("Group", group) for group in groups]) for role, groups in _GROUPS.items()),
        *(_binding(role, [_subject("User", user)]) for role, user in _USERS.items()),
        _binding("system:device-driver", [_service_account(DEVICE_DRIVER)]),
        _binding("system:kube-dns", [_service_account("kube-dns")]),
        *(_binding(f"system:controller:{name}", [_service_account(name)]) for name in CONTROLLERS),
    ]


def namespaced() -> list[Object]:
    """Returns the roles in namespaces, and their bindings."""
    found = []
    for role in NAMESPACED:
        subjects = [
            *(_subject("User", user) for user in role.users),
            *(_service_account(account) for account in role.accounts),
        ]
        found += [
            _role(role.name, read_rules(role.lines), namespace=role.namespace),
            _binding(role.binding or role.name, subjects, role=role.name, namespace=role.namespace),
        ]
    return found


def bootstrap(existing: Iterable[Mapping[str, Any]]) -> Iterator[Object]:
    """Yields the built-in objects to create or update, given the existing roles and bindings."""
    found = {_identity(obj): obj for obj in existing}
    for builtin in (*cluster_roles(), *cluster_role_bindings(), *namespaced()):
        present = found.get(_identity(builtin))
        if present is None:
            yield builtin
        elif (present["metadata"].get("annotations") or {}).get(_AUTOUPDATE) != "false":
            repaired = _repaired(present, builtin)
            if repaired != present:
                yield repaired


def _identity(obj: Mapping[str, Any]) -> tuple[str, str, str]:
    metadata = obj["metadata"]
    return obj["kind"], metadata.get("namespace", ""), metadata["name"]


def _repaired(present: Mapping[str, Any], builtin: Object) -> Object:
    repaired = copy.deepcopy(dict(present))
    if "roleRef" in builtin:
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


def _binding(name: str, subjects: list[Object], *, role: str = "", namespace: str = "") -> Object:
    """Returns a binding of the role `role`, by default of the same name; with a namespace, of a Role in it."""
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": ROLE_BINDING if namespace else CLUSTER_ROLE_BINDING,
        "metadata": _metadata(name, namespace, BOOTSTRAPPING),
        "roleRef": {"apiGroup": GROUP, "kind": ROLE if namespace else CLUSTER_ROLE, "name": role or name},
        **({"subjects": subjects} if subjects else {}),
    }


def _metadata(name: str, namespace: str, labels: Mapping[str, str]) -> Object:
    place = {"namespace": namespace} if namespace else {}
    return {"name": name, **place, "labels": dict(labels), "annotations": {_AUTOUPDATE: "true"}}


def _subject(kind: str, name: str) -> Object:
    return {"kind": kind, "apiGroup": GROUP, "name": name}


def _service_account(name: str) -> Object:
    return {"kind": "ServiceAccount", "name": name, "namespace": SYSTEM_NAMESPACE}
