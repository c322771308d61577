"""The roles of controllers, as data: what each may do under the service account of its name in kube-system.

A line is `verbs | groups | resources`, with the words that `builtin_roles` knows.
"""

from __future__ import annotations

from dray.server.security.cluster_roles import CLUSTER_CONTROLLERS, EVENTS

# ConfigMap with the date since which uses of legacy service account tokens are recorded.
LEGACY_TOKEN_TRACKING = "kube-apiserver-legacy-service-account-token-tracking"

CONTROLLERS = {
    "resource-claim-controller": f"""
        READ | core | pods
        READ | DRA | resourceclaims resourceclaimtemplates
        create delete patch update | DRA | resourceclaims
        patch update | DRA | resourceclaims/status resourceclaims/binding
        patch update | core | pods/status pods/finalizers
        READ | GANGS | podgroups workloads
        patch update | GANGS | podgroups/status podgroups/finalizers
        {EVENTS}
    """,
    "device-taint-eviction-controller": f"""
        READ | core | pods nodes
        delete | core | pods
        patch update | core | pods/status
        READ | DRA | deviceclasses devicetaintrules resourceclaims resourceslices
        patch update | DRA | devicetaintrules/status
        {EVENTS}
    """,
    "resourcepoolstatusrequest-controller": f"""
        READ | DRA | devicetaintrules resourceclaims resourceslices resourcepoolstatusrequests
        delete | DRA | resourcepoolstatusrequests
        patch update | DRA | resourcepoolstatusrequests/status
        {EVENTS}
    """,
    "namespace-controller": """
        delete deletecollection get list watch | * | *
        update | core | namespaces/finalize namespaces/status
    """,
    "generic-garbage-collector": f"""
        delete get list patch update watch | * | *
        {EVENTS}
    """,
    "pod-garbage-collector": """
        READ | core | nodes
        delete list watch | core | pods
        patch | core | pods/status
    """,
    "node-controller": f"""
        delete get list patch update watch | core | nodes
        patch update | core | nodes/status
        READ | core | pods
        delete | core | pods
        patch update | core | pods/status
        READ | LEASES | leases
        {EVENTS}
    """,
    "deployment-controller": f"""
        get list update watch | apps | deployments
        update | apps | deployments/status deployments/finalizers
        create delete get list patch update watch | apps | replicasets
        get list update watch | core | pods
        {EVENTS}
    """,
    "replicaset-controller": f"""
        get list update watch | apps | replicasets
        update | apps | replicasets/status replicasets/finalizers
        create delete list patch watch | core | pods
        {EVENTS}
    """,
    "replication-controller": f"""
        get list update watch | core | replicationcontrollers
        update | core | replicationcontrollers/status replicationcontrollers/finalizers
        create delete list patch watch | core | pods
        {EVENTS}
    """,
    "disruption-controller": f"""
        READ | apps | deployments replicasets statefulsets
        READ | batch | jobs
        READ | core | pods replicationcontrollers
        READ | policy | poddisruptionbudgets
        get | * | */scale
        update | policy | poddisruptionbudgets/status
        patch update | core | pods/status
        {EVENTS}
    """,
    "job-controller": f"""
        get list patch update watch | batch | jobs
        update | batch | jobs/status jobs/finalizers
        create delete list patch watch | core | pods
        READ | GANGS | podgroups workloads
        create delete patch update | GANGS | podgroups workloads
        {EVENTS}
    """,
    "podgroup-protection-controller": """
        READ | core | pods
        get list update watch | GANGS | podgroups
    """,
    "cronjob-controller": f"""
        get list watch update | batch | cronjobs
        update | batch | cronjobs/status cronjobs/finalizers
        create delete get list patch update watch | batch | jobs
        delete list watch | core | pods
        {EVENTS}
    """,
    "daemon-set-controller": f"""
        READ | apps | daemonsets
        update | apps | daemonsets/status daemonsets/finalizers
        READ | core | nodes
        create delete list patch watch | core | pods
        create | core | pods/binding
        create delete get list patch update watch | apps | controllerrevisions
        {EVENTS}
    """,
    "statefulset-controller": f"""
        READ | apps | statefulsets
        update | apps | statefulsets/status statefulsets/finalizers
        create delete get list patch update watch | core | pods
        update | core | pods/finalizers
        create delete get list patch update watch | apps | controllerrevisions
        create delete get list update watch | core | persistentvolumeclaims
        {EVENTS}
    """,
    "resourcequota-controller": f"""
        list watch | * | *
        update | core | resourcequotas/status
        {EVENTS}
    """,
    "service-account-controller": f"""
        create | core | serviceaccounts
        READ | core | namespaces serviceaccounts
        {EVENTS}
    """,
    "root-ca-cert-publisher": f"""
        create update | core | configmaps
        READ | core | configmaps namespaces
        {EVENTS}
    """,
    "certificate-controller": f"""
        delete get list watch | CERTS | certificatesigningrequests
        update | CERTS | certificatesigningrequests/approval certificatesigningrequests/status
        approve | CERTS | signers | kubernetes.io/kube-apiserver-client-kubelet kubernetes.io/kubelet-serving
        sign | CERTS | signers | kubernetes.io/kube-apiserver-client kubernetes.io/kube-apiserver-client-kubelet
        sign | CERTS | signers | kubernetes.io/kubelet-serving kubernetes.io/legacy-unknown
        create | AUTHZ | subjectaccessreviews
        get list watch | core | nodes
        get | core | configmaps
        {EVENTS}
    """,
    "token-cleaner": """
        delete get list watch | core | secrets
    """,
    "legacy-service-account-token-cleaner": f"""
        get | core | configmaps | {LEGACY_TOKEN_TRACKING}
        delete patch | core | secrets
    """,
    "podcertificaterequestcleaner": """
        delete get list watch | CERTS | podcertificaterequests
    """,
    "kube-apiserver-serving-clustertrustbundle-publisher": f"""
        attest | CERTS | signers | kubernetes.io/kube-apiserver-serving
        create delete list update watch | CERTS | clustertrustbundles
        {EVENTS}
    """,
    "horizontal-pod-autoscaler": f"""
        READ | autoscaling | horizontalpodautoscalers
        update | autoscaling | horizontalpodautoscalers/status
        get update | * | */scale
        list watch | core METRICS | pods
        READ | custom.metrics.k8s.io external.metrics.k8s.io | *
        {EVENTS}
    """,
    "ttl-after-finished-controller": f"""
        delete get list watch | batch | jobs
        {EVENTS}
    """,
    "validatingadmissionpolicy-status-controller": f"""
        READ | admissionregistration.k8s.io | validatingadmissionpolicies
        get patch update | admissionregistration.k8s.io | validatingadmissionpolicies/status
        {EVENTS}
    """,
    "storage-version-migrator-controller": """
        list patch | * | *
        get | apiextensions.k8s.io | customresourcedefinitions
        patch | apiextensions.k8s.io | customresourcedefinitions/status
        update | storagemigration.k8s.io | storageversionmigrations/status
    """,
    **CLUSTER_CONTROLLERS,
    "clusterrole-aggregation-controller": """
        escalate get list patch update watch | RBAC | clusterroles
    """,
}
