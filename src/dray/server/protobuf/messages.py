"""The messages that are read: for each, its members with their numbers and types.

name=1:str   int32 int64 bool bytes   time microtime quantity intstr   raw (JSON as bytes)
[]T a repeated member   {}T a map from strings   strings: a message whose JSON is the list it holds
+T a message whose members stand in JSON beside those of the one that holds it
anything else is a message of this table

Pods and jobs have the members of Kubernetes 1.33; what came later is read as JSON only.
"""

from __future__ import annotations

from functools import cache

from dray.server.protobuf.job_messages import JOBS
from dray.server.protobuf.node_messages import NODES
from dray.server.protobuf.pod_messages import PLACEMENT, SPEC, STATUS
from dray.server.protobuf.volume_messages import VOLUMES

_OBJECT = "metadata=1:ObjectMeta"
_REFERENCES = "resourceAttributes=1:ResourceAttributes nonResourceAttributes=2:NonResourceAttributes"

_MESSAGES: dict[str, str] = {
    "TypeMeta": "apiVersion=1:str kind=2:str",
    "Unknown": "typeMeta=1:TypeMeta raw=2:bytes contentEncoding=3:str contentType=4:str",
    "ObjectMeta": "name=1:str generateName=2:str namespace=3:str selfLink=4:str uid=5:str resourceVersion=6:str"
    " generation=7:int64 creationTimestamp=8:time deletionTimestamp=9:time deletionGracePeriodSeconds=10:int64"
    " labels=11:{}str annotations=12:{}str ownerReferences=13:[]OwnerReference finalizers=14:[]str"
    " managedFields=17:[]ManagedFieldsEntry",
    "OwnerReference": "kind=1:str name=3:str uid=4:str apiVersion=5:str controller=6:bool blockOwnerDeletion=7:bool",
    "ManagedFieldsEntry": "manager=1:str operation=2:str apiVersion=3:str time=4:time fieldsType=6:str fieldsV1=7:raw"
    " subresource=8:str",
    "LabelSelector": "matchLabels=1:{}str matchExpressions=2:[]Requirement",
    "Requirement": "key=1:str operator=2:str values=3:[]str",
    "Condition": "type=1:str status=2:str observedGeneration=3:int64 lastTransitionTime=4:time reason=5:str"
    " message=6:str",
    "DeleteOptions": "gracePeriodSeconds=1:int64 preconditions=2:Preconditions orphanDependents=3:bool"
    " propagationPolicy=4:str dryRun=5:[]str ignoreStoreReadErrorWithClusterBreakingPotential=6:bool",
    "Preconditions": "uid=1:str resourceVersion=2:str",
    "ObjectReference": "kind=1:str namespace=2:str name=3:str uid=4:str apiVersion=5:str resourceVersion=6:str"
    " fieldPath=7:str",
    "LocalObjectReference": "name=1:str",
    # core
    "Namespace": f"{_OBJECT} spec=2:NamespaceSpec status=3:NamespaceStatus",
    "NamespaceSpec": "finalizers=1:[]str",
    "NamespaceStatus": "phase=1:str conditions=2:[]NamespaceCondition",
    "NamespaceCondition": "type=1:str status=2:str lastTransitionTime=4:time reason=5:str message=6:str",
    "ConfigMap": f"{_OBJECT} data=2:{{}}str binaryData=3:{{}}bytes immutable=4:bool",
    "Secret": f"{_OBJECT} data=2:{{}}bytes type=3:str stringData=4:{{}}str immutable=5:bool",
    "ServiceAccount": f"{_OBJECT} secrets=2:[]ObjectReference imagePullSecrets=3:[]LocalObjectReference"
    " automountServiceAccountToken=4:bool",
    "Binding": f"{_OBJECT} target=2:ObjectReference",
    "Event": f"{_OBJECT} involvedObject=2:ObjectReference reason=3:str message=4:str source=5:EventSource"
    " firstTimestamp=6:time lastTimestamp=7:time count=8:int32 type=9:str eventTime=10:microtime series=11:EventSeries"
    " action=12:str related=13:ObjectReference reportingComponent=14:str reportingInstance=15:str",
    "EventSource": "component=1:str host=2:str",
    "EventSeries": "count=1:int32 lastObservedTime=2:microtime",
    "ResourceQuota": f"{_OBJECT} spec=2:ResourceQuotaSpec status=3:ResourceQuotaStatus",
    "ResourceQuotaSpec": "hard=1:{}quantity scopes=2:[]str scopeSelector=3:ScopeSelector",
    "ResourceQuotaStatus": "hard=1:{}quantity used=2:{}quantity",
    "ScopeSelector": "matchExpressions=1:[]ScopeRequirement",
    "ScopeRequirement": "scopeName=1:str operator=2:str values=3:[]str",
    "Service": f"{_OBJECT} spec=2:ServiceSpec status=3:ServiceStatus",
    "ServiceSpec": "ports=1:[]ServicePort selector=2:{}str clusterIP=3:str type=4:str externalIPs=5:[]str"
    " sessionAffinity=7:str loadBalancerIP=8:str loadBalancerSourceRanges=9:[]str externalName=10:str"
    " externalTrafficPolicy=11:str healthCheckNodePort=12:int32 publishNotReadyAddresses=13:bool"
    " sessionAffinityConfig=14:SessionAffinityConfig ipFamilyPolicy=17:str"
    " clusterIPs=18:[]str ipFamilies=19:[]str allocateLoadBalancerNodePorts=20:bool loadBalancerClass=21:str"
    " internalTrafficPolicy=22:str trafficDistribution=23:str",
    "ServicePort": "name=1:str protocol=2:str port=3:int32 targetPort=4:intstr nodePort=5:int32 appProtocol=6:str",
    "ServiceStatus": "loadBalancer=1:LoadBalancerStatus conditions=2:[]Condition",
    "SessionAffinityConfig": "clientIP=1:ClientIPConfig",
    "ClientIPConfig": "timeoutSeconds=1:int32",
    "LoadBalancerStatus": "ingress=1:[]LoadBalancerIngress",
    "LoadBalancerIngress": "ip=1:str hostname=2:str ipMode=3:str ports=4:[]PortStatus",
    "PortStatus": "port=1:int32 protocol=2:str error=3:str",
    # events.k8s.io
    "events.Event": f"{_OBJECT} eventTime=2:microtime series=3:EventSeries reportingController=4:str"
    " reportingInstance=5:str action=6:str reason=7:str regarding=8:ObjectReference related=9:ObjectReference"
    " note=10:str type=11:str deprecatedSource=12:EventSource deprecatedFirstTimestamp=13:time"
    " deprecatedLastTimestamp=14:time deprecatedCount=15:int32",
    # policy
    "Eviction": f"{_OBJECT} deleteOptions=2:DeleteOptions",
    "PodDisruptionBudget": f"{_OBJECT} spec=2:PodDisruptionBudgetSpec status=3:PodDisruptionBudgetStatus",
    "PodDisruptionBudgetSpec": "minAvailable=1:intstr selector=2:LabelSelector maxUnavailable=3:intstr"
    " unhealthyPodEvictionPolicy=4:str",
    "PodDisruptionBudgetStatus": "observedGeneration=1:int64 disruptedPods=2:{}time disruptionsAllowed=3:int32"
    " currentHealthy=4:int32 desiredHealthy=5:int32 expectedPods=6:int32 conditions=7:[]Condition",
    # coordination.k8s.io and scheduling.k8s.io
    "Lease": f"{_OBJECT} spec=2:LeaseSpec",
    "LeaseSpec": "holderIdentity=1:str leaseDurationSeconds=2:int32 acquireTime=3:microtime renewTime=4:microtime"
    " leaseTransitions=5:int32 strategy=6:str preferredHolder=7:str",
    "PriorityClass": f"{_OBJECT} value=2:int32 globalDefault=3:bool description=4:str preemptionPolicy=5:str",
    # certificates.k8s.io
    "CertificateSigningRequest": f"{_OBJECT} spec=2:CertificateSigningRequestSpec"
    " status=3:CertificateSigningRequestStatus",
    "CertificateSigningRequestSpec": "request=1:bytes username=2:str uid=3:str groups=4:[]str usages=5:[]str"
    " extra=6:{}strings signerName=7:str expirationSeconds=8:int32",
    "CertificateSigningRequestStatus": "conditions=1:[]CertificateSigningRequestCondition certificate=2:bytes",
    "CertificateSigningRequestCondition": "type=1:str reason=2:str message=3:str lastUpdateTime=4:time"
    " lastTransitionTime=5:time status=6:str",
    # rbac.authorization.k8s.io
    "Role": f"{_OBJECT} rules=2:[]PolicyRule",
    "ClusterRole": f"{_OBJECT} rules=2:[]PolicyRule aggregationRule=3:AggregationRule",
    "RoleBinding": f"{_OBJECT} subjects=2:[]Subject roleRef=3:RoleRef",
    "ClusterRoleBinding": f"{_OBJECT} subjects=2:[]Subject roleRef=3:RoleRef",
    "PolicyRule": "verbs=1:[]str apiGroups=2:[]str resources=3:[]str resourceNames=4:[]str nonResourceURLs=5:[]str",
    "AggregationRule": "clusterRoleSelectors=1:[]LabelSelector",
    "Subject": "kind=1:str apiGroup=2:str name=3:str namespace=4:str",
    "RoleRef": "apiGroup=1:str kind=2:str name=3:str",
    # authorization.k8s.io
    "SelfSubjectAccessReview": f"{_OBJECT} spec=2:SelfSubjectAccessReviewSpec status=3:SubjectAccessReviewStatus",
    "SubjectAccessReview": f"{_OBJECT} spec=2:SubjectAccessReviewSpec status=3:SubjectAccessReviewStatus",
    "LocalSubjectAccessReview": f"{_OBJECT} spec=2:SubjectAccessReviewSpec status=3:SubjectAccessReviewStatus",
    "SelfSubjectRulesReview": f"{_OBJECT} spec=2:SelfSubjectRulesReviewSpec status=3:SubjectRulesReviewStatus",
    "SelfSubjectAccessReviewSpec": _REFERENCES,
    "SubjectAccessReviewSpec": f"{_REFERENCES} user=3:str groups=4:[]str extra=5:{{}}strings uid=6:str",
    "SubjectAccessReviewStatus": "allowed=1:bool reason=2:str evaluationError=3:str denied=4:bool",
    "SelfSubjectRulesReviewSpec": "namespace=1:str",
    "SubjectRulesReviewStatus": "resourceRules=1:[]ResourceRule nonResourceRules=2:[]NonResourceRule incomplete=3:bool"
    " evaluationError=4:str",
    "ResourceRule": "verbs=1:[]str apiGroups=2:[]str resources=3:[]str resourceNames=4:[]str",
    "NonResourceRule": "verbs=1:[]str nonResourceURLs=2:[]str",
    "ResourceAttributes": "namespace=1:str verb=2:str group=3:str version=4:str resource=5:str subresource=6:str"
    " name=7:str fieldSelector=8:SelectorAttributes labelSelector=9:SelectorAttributes",
    "SelectorAttributes": "rawSelector=1:str requirements=2:[]Requirement",
    "NonResourceAttributes": "path=1:str verb=2:str",
    # authentication.k8s.io
    "TokenReview": f"{_OBJECT} spec=2:TokenReviewSpec status=3:TokenReviewStatus",
    "TokenReviewSpec": "token=1:str audiences=2:[]str",
    "TokenReviewStatus": "authenticated=1:bool user=2:UserInfo error=3:str audiences=4:[]str",
    "UserInfo": "username=1:str uid=2:str groups=3:[]str extra=4:{}strings",
    "SelfSubjectReview": f"{_OBJECT} status=2:SelfSubjectReviewStatus",
    "SelfSubjectReviewStatus": "userInfo=1:UserInfo",
    "TokenRequest": f"{_OBJECT} spec=2:TokenRequestSpec status=3:TokenRequestStatus",
    "TokenRequestSpec": "audiences=1:[]str boundObjectRef=3:BoundObjectReference expirationSeconds=4:int64",
    "BoundObjectReference": "kind=1:str apiVersion=2:str name=3:str uid=4:str",
    "TokenRequestStatus": "token=1:str expirationTimestamp=2:time",
}
_MESSAGES |= SPEC | PLACEMENT | STATUS | VOLUMES | JOBS | NODES

# The kinds by (group, kind), where the message goes by another name or only one group has the kind.
_KINDS: dict[str, tuple[str, ...]] = {
    "": (
        "Binding",
        "ConfigMap",
        "Event",
        "Namespace",
        "Node",
        "Pod",
        "ResourceQuota",
        "Secret",
        "Service",
        "ServiceAccount",
    ),
    "batch": ("Job",),
    "events.k8s.io": ("Event",),
    "policy": ("Eviction", "PodDisruptionBudget"),
    "coordination.k8s.io": ("Lease",),
    "scheduling.k8s.io": ("PriorityClass",),
    "certificates.k8s.io": ("CertificateSigningRequest",),
    "rbac.authorization.k8s.io": ("Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding"),
    "authorization.k8s.io": (
        "SelfSubjectAccessReview",
        "SubjectAccessReview",
        "LocalSubjectAccessReview",
        "SelfSubjectRulesReview",
    ),
    "authentication.k8s.io": ("TokenReview", "SelfSubjectReview", "TokenRequest"),
}


@cache
def members(message: str) -> dict[int, tuple[str, str]]:
    """By number: the name of a member in JSON, and its type."""
    found: dict[int, tuple[str, str]] = {}
    for text in _MESSAGES[message].split():
        name, _, rest = text.partition("=")
        number, _, type_name = rest.partition(":")
        found[int(number)] = (name, type_name)
    return found


def message_of(api_version: str, kind: str) -> str | None:
    """The message that carries a kind, if it is one that is read."""
    if kind == "DeleteOptions":
        # Clients send it in the version of whatever they delete.
        return kind
    group = api_version.rpartition("/")[0]
    if kind not in _KINDS.get(group, ()):
        return None
    return "events.Event" if (group, kind) == ("events.k8s.io", "Event") else kind
