"""Defaults: what an API server fills in when it decodes an object, in the version the client sent.

`now` is handed in, as RFC 3339 text. Defaulting changes the object it is given. The selector of a job is made later,
once it has a name and a uid (`generate_selector`).
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterable

from dray.api import cluster_defaults
from dray.api.catalogue import ADMISSION_GROUP, RESOURCE_GROUP, SCHEDULING_GROUP, KindVersion
from dray.api.gates import FeatureGates
from dray.api.objects import Object, mapping
from dray.api.pod_defaults import default_pod, default_pod_spec
from dray.api.set_defaults import default_cron_job, default_daemon_set, default_failure_policy, default_stateful_set
from dray.api.workload_defaults import default_workload

_HOUR = 3600
_SESSION_SECONDS = 3 * _HOUR
REACHED_FROM_OUTSIDE = ("LoadBalancer", "NodePort")
NAME_LABELS = ("batch.kubernetes.io/job-name", "job-name")
UID_LABEL = "batch.kubernetes.io/controller-uid"
UID_LABELS = (UID_LABEL, "controller-uid")
BACKOFF_LIMIT = 6
_UNLIMITED = 2**31 - 1


def apply(document: Object, target: KindVersion, *, now: str, gates: FeatureGates) -> None:
    default = _DEFAULTS.get((target.group, target.kind))
    if default is not None:
        default(document, target.version, now, gates)
    elif plain := cluster_defaults.DEFAULTS.get((target.group, target.kind)):
        plain(document)


def _request(request: Object) -> None:
    if not request.get("allocationMode"):
        request["allocationMode"] = "ExactCount"
    if request["allocationMode"] == "ExactCount" and not request.get("count"):
        request["count"] = 1


def _tolerations(items: Iterable[Object] | None) -> None:
    for toleration in items or ():
        if not toleration.get("operator"):
            toleration["operator"] = "Equal"


def _requests(devices: Object, version: str) -> None:
    for request in devices["requests"] or ():
        if version == "v1beta1":
            exact = request if request.get("deviceClassName") else None
            _tolerations(request.get("tolerations"))
        else:
            exact = request.get("exactly")
        if exact is not None:
            _request(exact)
            _tolerations(exact.get("tolerations"))
        for subrequest in request.get("firstAvailable") or ():
            _request(subrequest)
            _tolerations(subrequest.get("tolerations"))


def _claim(claim: Object, version: str, now: str, gates: FeatureGates) -> None:
    _requests(claim["spec"]["devices"], version)
    allocation = claim["status"].get("allocation")
    if allocation is not None:
        for result in allocation["devices"].get("results") or ():
            _tolerations(result.get("tolerations"))


def _template(template: Object, version: str, now: str, gates: FeatureGates) -> None:
    _requests(template["spec"]["spec"]["devices"], version)


def _slice(resource_slice: Object, version: str, now: str, gates: FeatureGates) -> None:
    for device in resource_slice["spec"].get("devices") or ():
        for taint in (mapping(device.get("basic")) if version == "v1beta1" else device).get("taints") or ():
            taint.setdefault("timeAdded", now)


def _taint_rule(rule: Object, version: str, now: str, gates: FeatureGates) -> None:
    rule["spec"]["taint"].setdefault("timeAdded", now)


def _pool_status_request(request: Object, version: str, now: str, gates: FeatureGates) -> None:
    request["spec"].setdefault("limit", 100)


def _pod_group(group: Object, version: str, now: str, gates: FeatureGates) -> None:
    spec = group["spec"]
    spec.setdefault("disruptionMode", {"single": {}})
    if gates["PodGroupPreemptionPolicy"]:
        spec.setdefault("preemptionPolicy", "PreemptLowerPriority")


def _pod(pod: Object, version: str, now: str, gates: FeatureGates) -> None:
    default_pod(pod)


def _node(node: Object, version: str, now: str, gates: FeatureGates) -> None:
    """Keeps podCIDR and podCIDRs in step; podCIDR wins if they differ."""
    spec = node["spec"]
    first, ranges = spec.get("podCIDR"), spec.get("podCIDRs")
    if first and (not ranges or ranges[0] != first):
        spec["podCIDRs"] = [first]
    elif ranges:
        spec["podCIDR"] = ranges[0]


def _priority_class(priority: Object, version: str, now: str, gates: FeatureGates) -> None:
    priority.setdefault("preemptionPolicy", "PreemptLowerPriority")


def _job(job: Object, version: str, now: str, gates: FeatureGates) -> None:
    default_job(job)


def _daemon_set(daemon_set: Object, version: str, now: str, gates: FeatureGates) -> None:
    default_daemon_set(daemon_set["spec"])


def _stateful_set(stateful_set: Object, version: str, now: str, gates: FeatureGates) -> None:
    default_stateful_set(stateful_set["spec"])


def _cron_job(cron_job: Object, version: str, now: str, gates: FeatureGates) -> None:
    default_cron_job(cron_job["spec"])


def _workload(workload: Object, version: str, now: str, gates: FeatureGates) -> None:
    default_workload(workload)


def _service(service: Object, version: str, now: str, gates: FeatureGates) -> None:
    default_service(service)


def _secret(secret: Object, version: str, now: str, gates: FeatureGates) -> None:
    """stringData can only be written: it becomes data."""
    text = secret.pop("stringData", None)
    if text:
        encoded = {key: b64encode(value.encode()).decode() for key, value in text.items()}
        secret["data"] = {**mapping(secret.get("data")), **encoded}
    if not secret.get("type"):
        secret["type"] = "Opaque"


def _limit_range(limit_range: Object, version: str, now: str, gates: FeatureGates) -> None:
    """Sets limits of containers: `default` from `max`; `defaultRequest` from `default`, else from `min`."""
    for item in limit_range["spec"].get("limits") or ():
        if item.get("type") == "Container":
            limits = {**mapping(item.get("max")), **mapping(item.get("default"))}
            asked = {**mapping(item.get("min")), **limits, **mapping(item.get("defaultRequest"))}
            item.update(
                {name: amounts for name, amounts in (("default", limits), ("defaultRequest", asked)) if amounts}
            )


def _match_resources(given: Object | None) -> None:
    if given is None:
        return
    given.setdefault("matchPolicy", "Equivalent")
    for member in ("namespaceSelector", "objectSelector"):
        given.setdefault(member, {})
    for member in ("resourceRules", "excludeResourceRules"):
        for rule in given.get(member) or ():
            rule.setdefault("scope", "*")


def _policy(policy: Object, version: str, now: str, gates: FeatureGates) -> None:
    policy["spec"].setdefault("failurePolicy", "Fail")
    _match_resources(policy["spec"].get("matchConstraints"))


def _policy_binding(binding: Object, version: str, now: str, gates: FeatureGates) -> None:
    _match_resources(binding["spec"].get("matchResources"))


def _webhooks(configuration: Object, version: str, now: str, gates: FeatureGates) -> None:
    mutating = configuration["kind"] == "MutatingWebhookConfiguration"
    for webhook in configuration.get("webhooks") or ():
        defaults: Object = {"failurePolicy": "Fail", "matchPolicy": "Equivalent", "timeoutSeconds": 10}
        selectors: Object = {"namespaceSelector": {}, "objectSelector": {}}
        reinvoked = {"reinvocationPolicy": "Never"} if mutating else {}
        webhook.update({**defaults, **selectors, **reinvoked, **webhook})
        for rule in webhook.get("rules") or ():
            rule.setdefault("scope", "*")
        service = webhook["clientConfig"].get("service")
        if service is not None:
            service.setdefault("port", 443)


_DEFAULTS: dict[tuple[str, str], Callable[[Object, str, str, FeatureGates], None]] = {
    (RESOURCE_GROUP, "ResourceClaim"): _claim,
    (RESOURCE_GROUP, "ResourceClaimTemplate"): _template,
    (RESOURCE_GROUP, "ResourceSlice"): _slice,
    (RESOURCE_GROUP, "DeviceTaintRule"): _taint_rule,
    (RESOURCE_GROUP, "ResourcePoolStatusRequest"): _pool_status_request,
    (SCHEDULING_GROUP, "PodGroup"): _pod_group,
    (SCHEDULING_GROUP, "CompositePodGroup"): _pod_group,
    (SCHEDULING_GROUP, "PriorityClass"): _priority_class,
    (ADMISSION_GROUP, "ValidatingAdmissionPolicy"): _policy,
    (ADMISSION_GROUP, "MutatingAdmissionPolicy"): _policy,
    (ADMISSION_GROUP, "ValidatingAdmissionPolicyBinding"): _policy_binding,
    (ADMISSION_GROUP, "MutatingAdmissionPolicyBinding"): _policy_binding,
    (ADMISSION_GROUP, "ValidatingWebhookConfiguration"): _webhooks,
    (ADMISSION_GROUP, "MutatingWebhookConfiguration"): _webhooks,
    ("", "LimitRange"): _limit_range,
    ("", "Pod"): _pod,
    ("", "Secret"): _secret,
    ("", "Node"): _node,
    ("", "Service"): _service,
    ("apps", "DaemonSet"): _daemon_set,
    ("apps", "StatefulSet"): _stateful_set,
    ("batch", "CronJob"): _cron_job,
    ("", "PodTemplate"): _workload,
    ("", "ReplicationController"): _workload,
    ("apps", "Deployment"): _workload,
    ("apps", "ReplicaSet"): _workload,
    ("batch", "Job"): _job,
}


def default_service(service: Object) -> None:
    spec = service["spec"]
    spec.setdefault("type", "ClusterIP")
    spec.setdefault("sessionAffinity", "None")
    if spec["sessionAffinity"] == "ClientIP":
        config = spec.setdefault("sessionAffinityConfig", {}).setdefault("clientIP", {})
        config.setdefault("timeoutSeconds", _SESSION_SECONDS)
    for port in spec.get("ports") or ():
        port.setdefault("protocol", "TCP")
        if port["targetPort"] in (0, ""):
            port["targetPort"] = port["port"]
    if spec["type"] != "ExternalName":
        spec.setdefault("internalTrafficPolicy", "Cluster")
    if spec["type"] in REACHED_FROM_OUTSIDE or spec.get("externalIPs"):
        spec.setdefault("externalTrafficPolicy", "Cluster")
    if spec["type"] == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)


def default_job(job: Object) -> None:
    spec = job["spec"]
    if spec.get("parallelism") is None:
        spec["parallelism"] = 1
        # Without either number it is a job of one pod; with completions alone they run one by one.
        spec.setdefault("completions", 1)
    spec.setdefault("backoffLimit", BACKOFF_LIMIT if spec.get("backoffLimitPerIndex") is None else _UNLIMITED)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    spec.setdefault("manualSelector", False)
    policy = spec.get("podFailurePolicy")
    spec.setdefault("podReplacementPolicy", "TerminatingOrFailed" if policy is None else "Failed")
    default_failure_policy(policy)
    default_pod_spec(spec["template"]["spec"], template=True)
    label(job)


def label(job: Object) -> None:
    """A job without labels has those of its pods."""
    labels = job["spec"]["template"]["metadata"].get("labels")
    if labels and not job["metadata"].get("labels"):
        job["metadata"]["labels"] = dict(labels)


def generate_selector(job: Object) -> None:
    """Pods are told apart by their job's uid, unless the job says that it brings a selector of its own.

    What is there already stays: if it is wrong, validation says so.
    """
    spec, metadata = job["spec"], job["metadata"]
    if spec.get("manualSelector"):
        return
    generated = dict.fromkeys(NAME_LABELS, metadata["name"]) | dict.fromkeys(UID_LABELS, metadata["uid"])
    template: Object = spec["template"]["metadata"]
    template["labels"] = {**generated, **mapping(template.get("labels"))}
    selector: Object = spec.setdefault("selector", {})
    selector["matchLabels"] = {UID_LABEL: metadata["uid"], **mapping(selector.get("matchLabels"))}
    label(job)
