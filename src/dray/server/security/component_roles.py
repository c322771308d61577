"""The roles of the parts of a cluster besides controllers, as lines of `builtin_roles`.

Some are of parts that dray does not have, such as kube-proxy: manifests bind them by name.
"""

from __future__ import annotations

from dataclasses import dataclass

from dray.server.security.cluster_roles import EVENTS
from dray.server.security.users import SYSTEM_NAMESPACE

PUBLIC_NAMESPACE = "kube-public"

_SCHEDULER = f"""
    {EVENTS}
    create | LEASES | leases
    get list watch update patch | LEASES | leases | kube-scheduler
    ALL | LEASES | leasecandidates
    READ | core | namespaces nodes pods replicationcontrollers services
    READ | apps | replicasets statefulsets
    READ | policy | poddisruptionbudgets
    delete | core | pods
    update | core | pods/finalizers
    create | core | bindings pods/binding
    patch update | core | pods/status
    get list watch patch update | core | persistentvolumeclaims persistentvolumes
    READ | storage.k8s.io | csidrivers csinodes csistoragecapacities storageclasses volumeattachments
    create | AUTHN | tokenreviews
    create | AUTHZ | subjectaccessreviews
    READ | GANGS | priorityclasses podgroups workloads compositepodgroups
    patch update | GANGS | podgroups/status compositepodgroups/status
    READ | batch | jobs
    READ | scheduling.x-k8s.io scheduling.run.ai | podgroups
    READ | kai.scheduler kueue.x-k8s.io | topologies
    READ | kueue.x-k8s.io | resourceflavors cohorts clusterqueues localqueues workloadpriorityclasses
    patch update | kueue.x-k8s.io | clusterqueues/status localqueues/status
    READ | scheduling.run.ai | queues
    patch update | scheduling.run.ai | queues/status podgroups/status
    READ | cloud.google.com | computeclasses
    READ | karpenter.sh | nodepools
    READ | admissionregistration.k8s.io | validatingwebhookconfigurations
    get | apiextensions.k8s.io | customresourcedefinitions
    READ | DRA | deviceclasses resourceslices devicetaintrules
    get list watch create delete patch update | DRA | resourceclaims
    get list watch patch update | DRA | resourceclaims/status
    patch update | DRA | resourceclaims/binding
"""

_CONTROLLER_MANAGER = f"""
    {EVENTS}
    create | LEASES | leases
    get update patch | LEASES | leases | kube-controller-manager
    get | core | configmaps namespaces secrets serviceaccounts
    create update | core | secrets serviceaccounts
    delete | core | secrets
    create | core | serviceaccounts/token
    create | AUTHN | tokenreviews
    create | AUTHZ | subjectaccessreviews
    list watch | * | *
"""

COMPONENTS = {
    "system:kube-scheduler": _SCHEDULER,
    "system:kube-controller-manager": _CONTROLLER_MANAGER,
    "system:volume-scheduler": """
        get list patch update watch | core | persistentvolumeclaims persistentvolumes
        READ | storage.k8s.io | storageclasses
    """,
    "system:node-proxier": f"""
        list watch | core | endpoints services
        READ | core | nodes
        list watch | discovery.k8s.io | endpointslices
        list watch | networking.k8s.io | servicecidrs
        {EVENTS}
    """,
    "system:node-problem-detector": f"""
        get | core | nodes
        patch | core | nodes/status
        {EVENTS}
    """,
    "system:kubelet-api-admin": """
        get list proxy watch | core | nodes
        * | core | nodes/configz nodes/healthz nodes/log nodes/metrics nodes/pods nodes/proxy nodes/stats
    """,
    "system:kube-dns": """
        list watch | core | endpoints services
    """,
    "system:kube-aggregator": """
        READ | core | endpoints services
    """,
    "system:heapster": """
        READ | core | events namespaces nodes pods
    """,
    "system:persistent-volume-provisioner": f"""
        create delete get list watch | core | persistentvolumes
        get list update watch | core | persistentvolumeclaims
        READ | storage.k8s.io | storageclasses
        watch | core | events
        {EVENTS}
    """,
    "system:cluster-trust-bundle-discovery": """
        READ | CERTS | clustertrustbundles
    """,
}


@dataclass(frozen=True)
class NamespacedRole:
    """A role in one namespace, with the users and service accounts of kube-system that it is bound to."""

    namespace: str
    name: str
    lines: str
    binding: str = ""
    users: tuple[str, ...] = ()
    accounts: tuple[str, ...] = ()


def _leaders(part: str, *accounts: str) -> NamespacedRole:
    lines = "create get list update watch | LEASES | leasecandidates leases"
    return NamespacedRole(
        SYSTEM_NAMESPACE, f"system::leader-locking-{part}", lines, users=(f"system:{part}",), accounts=accounts
    )


def _controller(namespace: str, account: str, lines: str) -> NamespacedRole:
    return NamespacedRole(namespace, f"system:controller:{account}", lines, accounts=(account,))


_CLUSTER_INFO = f"""
    READ | core | configmaps
    update | core | configmaps | cluster-info
    {EVENTS}
"""
_TOKENS = f"""
    delete get list watch | core | secrets
    {EVENTS}
"""

NAMESPACED = (
    NamespacedRole(
        SYSTEM_NAMESPACE,
        "extension-apiserver-authentication-reader",
        "READ | core | configmaps | extension-apiserver-authentication",
        binding="system::extension-apiserver-authentication-reader",
        users=("system:kube-controller-manager", "system:kube-scheduler"),
    ),
    _leaders("kube-controller-manager", "kube-controller-manager", "leader-election-controller"),
    _leaders("kube-scheduler", "kube-scheduler"),
    _controller(SYSTEM_NAMESPACE, "bootstrap-signer", "READ | core | secrets"),
    _controller(PUBLIC_NAMESPACE, "bootstrap-signer", _CLUSTER_INFO),
    _controller(SYSTEM_NAMESPACE, "cloud-provider", "create get list watch | core | configmaps"),
    _controller(SYSTEM_NAMESPACE, "token-cleaner", _TOKENS),
)
