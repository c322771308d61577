"""Builders of API objects for tests: plain dictionaries that an API server accepts.

    cluster = dray_cluster(
        node("a"),
        resource_slice("a", device("gpu-0", attributes={"model": "H100"}), nodeName="a"),
        device_class("gpu", 'device.driver == "gpu.example.com"'),
        claim_template("two", request(count=2)),
        pod("training", templates=["two"], priority=10),
    )

Every builder takes a name and what tests usually say about such an object. Any other keyword is a member of the
object's metadata, if metadata has such a member, or of its spec, under the name that Kubernetes gives it:
`labels=`, `nodeName=`. `status=` is the status. What is None is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from dray.api.objects import Object

DRIVER: Final = "gpu.example.com"
HOSTNAME: Final = "kubernetes.io/hostname"

_RESOURCE: Final = "resource.k8s.io/v1"
_METADATA: Final = frozenset(
    "annotations creationTimestamp deletionGracePeriodSeconds deletionTimestamp finalizers generateName generation "
    "labels namespace ownerReferences resourceVersion uid".split()
)
_NODES: Final = frozenset({"nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection"})


def _object(api_version: str, kind: str, name: str, members: Object, spec: Object | None = None) -> Object:
    """Makes an object; without a spec its members are at the top level."""
    given = _present(members)
    metadata = {"name": name, **{key: given.pop(key) for key in _METADATA & given.keys()}}
    made = {"apiVersion": api_version, "kind": kind, "metadata": metadata}
    if spec is None:
        return {**made, **given}
    status = {"status": given.pop("status")} if "status" in given else {}
    return {**made, "spec": {**_present(spec), **given}, **status}


def _present(members: Mapping[str, Any]) -> Object:
    return {key: value for key, value in members.items() if value is not None}


def _selectors(expressions: Iterable[str | Object]) -> list[Object]:
    return [
        {"cel": {"expression": expression}} if isinstance(expression, str) else expression for expression in expressions
    ]


# Nodes and devices


def node(
    name: str,
    *,
    cpu: str = "8",
    memory: str = "32Gi",
    pods: str = "110",
    allocatable: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    status: Object | None = None,
    **members: Any,
) -> Object:
    """Returns a node, labelled with its hostname; `allocatable` has further resources."""
    amounts = {"cpu": cpu, "memory": memory, "pods": pods, **(allocatable or {})}
    status = {"capacity": amounts, "allocatable": dict(amounts), **(status or {})}
    return _object("v1", "Node", name, {**members, "labels": {HOSTNAME: name, **(labels or {})}, "status": status}, {})


def taint(key: str, effect: str = "NoSchedule", **members: Any) -> Object:
    """Returns a taint of a node or of a device."""
    return _present({"key": key, "effect": effect, **members})


def device(
    name: str, *, attributes: Mapping[str, Any] | None = None, capacity: Mapping[str, Any] | None = None, **members: Any
) -> Object:
    """Returns a device of a slice, with its attributes as Python values and its capacity as quantities."""
    made: Object = {"name": name}
    if attributes:
        made["attributes"] = {key: attribute(value) for key, value in attributes.items()}
    if capacity:
        made["capacity"] = {key: {"value": each} if isinstance(each, str) else each for key, each in capacity.items()}
    return {**made, **_present(members)}


def attribute(value: Any) -> Object:
    """Returns a device attribute for a string, number, bool or list of these; a dictionary is used as it is."""
    if isinstance(value, dict):
        return value
    many = isinstance(value, list)
    sample = value[0] if many else value
    kind = "bool" if isinstance(sample, bool) else "int" if isinstance(sample, int) else "string"
    return {f"{kind}s" if many else kind: value}


def resource_slice(
    name: str,
    *devices: str | Object,
    driver: str = DRIVER,
    pool: str | None = None,
    generation: int = 1,
    resourceSliceCount: int = 1,
    **members: Any,
) -> Object:
    """Returns a slice of the pool `pool`, by default of its own name; for all nodes unless a member names one.

    Devices are given by name or as `device` makes them.
    """
    spec: Object = {
        "driver": driver,
        "pool": {"name": pool or name, "generation": generation, "resourceSliceCount": resourceSliceCount},
        "devices": [{"name": device} if isinstance(device, str) else device for device in devices] or None,
    }
    if not _NODES & _present(members).keys():
        spec["allNodes"] = True
    return _object(_RESOURCE, "ResourceSlice", name, members, spec)


def device_class(name: str, *selectors: str | Object, **members: Any) -> Object:
    """Returns a class of the devices for which all these CEL expressions are true."""
    return _object(_RESOURCE, "DeviceClass", name, members, {"selectors": _selectors(selectors)})


def device_taint_rule(name: str, taint: Object, **members: Any) -> Object:
    """Returns a rule that taints the devices of its `deviceSelector`."""
    return _object(_RESOURCE, "DeviceTaintRule", name, members, {"taint": taint})


# Claims


def request(name: str = "gpu", **members: Any) -> Object:
    """Returns a request for devices of the class `gpu`: for one, unless `count` or `allocationMode` is given."""
    return {"name": name, "exactly": _wanted(**members)}


def first_available(name: str, *subrequests: Object) -> Object:
    """Returns a request for the first of its subrequests that can be allocated."""
    return {"name": name, "firstAvailable": list(subrequests)}


def subrequest(name: str, **members: Any) -> Object:
    """Returns an alternative of `first_available`, with the members of a request."""
    return {"name": name, **_wanted(**members)}


def _wanted(
    *,
    deviceClassName: str = "gpu",
    allocationMode: str = "ExactCount",
    count: int = 1,
    selectors: Iterable[str | Object] = (),
    **members: Any,
) -> Object:
    wanted: Object = {"deviceClassName": deviceClassName, "allocationMode": allocationMode}
    if allocationMode == "ExactCount":
        wanted["count"] = count
    if selectors:
        wanted["selectors"] = _selectors(selectors)
    return {**wanted, **_present(members)}


def claim(
    name: str,
    *requests: Object,
    constraints: list[Object] | None = None,
    config: list[Object] | None = None,
    **members: Any,
) -> Object:
    """Returns a claim, by default for one GPU."""
    return _object(_RESOURCE, "ResourceClaim", name, members, _claim_spec(requests, constraints, config))


def claim_template(
    name: str,
    *requests: Object,
    constraints: list[Object] | None = None,
    config: list[Object] | None = None,
    metadata: Object | None = None,
    **members: Any,
) -> Object:
    """Returns a template of claims as `claim` makes them; `metadata` is that of the claims."""
    spec = {"metadata": metadata, "spec": _claim_spec(requests, constraints, config)}
    return _object(_RESOURCE, "ResourceClaimTemplate", name, members, spec)


def _claim_spec(requests: tuple[Object, ...], constraints: list[Object] | None, config: list[Object] | None) -> Object:
    devices = {"requests": list(requests) or [request()], "constraints": constraints or None, "config": config or None}
    return {"devices": _present(devices)}


def allocation(
    *devices: str, pool: str, driver: str = DRIVER, request: str = "gpu", nodeName: str | None = None, **members: Any
) -> Object:
    """Returns an allocation as a scheduler writes it to `status.allocation`: devices of a pool, for use on a node."""
    shared = _present({"request": request, "driver": driver, "pool": pool, **members})
    made: Object = {"devices": {"results": [{**shared, "device": device} for device in devices]}}
    if nodeName:
        field = {"key": "metadata.name", "operator": "In", "values": [nodeName]}
        made["nodeSelector"] = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    return made


def consumer(pod: Object) -> Object:
    """Returns the entry of a stored pod in `status.reservedFor`."""
    return {"resource": "pods", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}


# Pods


def pod(
    name: str,
    *,
    claims: Iterable[str] | Mapping[str, str] = (),
    templates: Iterable[str] | Mapping[str, str] = (),
    requests: Mapping[str, str] | None = None,
    limits: Mapping[str, str] | None = None,
    **members: Any,
) -> Object:
    """Returns a pod with one container, which gets the resources and all claims.

    `claims` are ResourceClaims and `templates` ResourceClaimTemplates: names, or names by the name of their entry in
    `spec.resourceClaims`.
    """
    entries = _entries("resourceClaimName", "claim", claims)
    entries += _entries("resourceClaimTemplateName", "template", templates)
    own = container(requests=requests, limits=limits, claims=[entry["name"] for entry in entries])
    return _object("v1", "Pod", name, members, {"containers": [own], "resourceClaims": entries or None})


def _entries(member: str, stem: str, names: Iterable[str] | Mapping[str, str]) -> list[Object]:
    named = names if isinstance(names, Mapping) else {f"{stem}-{at}": each for at, each in enumerate(names)}
    return [{"name": entry, member: each} for entry, each in named.items()]


def container(
    name: str = "main",
    *,
    image: str = "busybox",
    requests: Mapping[str, str] | None = None,
    limits: Mapping[str, str] | None = None,
    claims: Iterable[str] = (),
    **members: Any,
) -> Object:
    """Returns a container; `claims` are names of entries in the pod's `spec.resourceClaims`."""
    uses = [{"name": claim} for claim in claims]
    resources = _present({"requests": requests or None, "limits": limits or None, "claims": uses or None})
    return _present({"name": name, "image": image, "resources": resources or None, **members})


def job(name: str, template: Object | None = None, **members: Any) -> Object:
    """Returns a Job of pods like `template`; by default of a pod with one container that ends."""
    template = template or pod(name, restartPolicy="Never")
    return _object("batch/v1", "Job", name, members, {"template": _template(template)})


def cron_job(name: str, schedule: str, template: Object | None = None, **members: Any) -> Object:
    """Returns a CronJob of Jobs like `template`, by default the builder's own."""
    made = template or job(name)
    return _object("batch/v1", "CronJob", name, members, {"schedule": schedule, "jobTemplate": _template(made)})


def daemon_set(name: str, template: Object | None = None, **members: Any) -> Object:
    """Returns a DaemonSet of pods like `template`, labelled `app: NAME`."""
    return _object("apps/v1", "DaemonSet", name, members, _selecting(name, template))


def stateful_set(name: str, template: Object | None = None, **members: Any) -> Object:
    """Returns a StatefulSet of pods like `template`, labelled `app: NAME`, with a Service of its name."""
    return _object("apps/v1", "StatefulSet", name, members, {"serviceName": name, **_selecting(name, template)})


def replica_set(name: str, template: Object | None = None, **members: Any) -> Object:
    """Returns a ReplicaSet of pods like `template`, labelled `app: NAME`."""
    return _object("apps/v1", "ReplicaSet", name, members, _selecting(name, template))


def deployment(name: str, template: Object | None = None, **members: Any) -> Object:
    """Returns a Deployment of pods like `template`, labelled `app: NAME`."""
    return _object("apps/v1", "Deployment", name, members, _selecting(name, template))


def replication_controller(name: str, template: Object | None = None, **members: Any) -> Object:
    """Returns a ReplicationController of pods like `template`, labelled `app: NAME`."""
    made = _selecting(name, template)
    return _object("v1", "ReplicationController", name, members, {**made, "selector": made["selector"]["matchLabels"]})


def _selecting(name: str, template: Object | None) -> Object:
    made = _template(template or pod(name))
    labels = {"app": name}
    made["metadata"]["labels"] = {**made["metadata"].get("labels", {}), **labels}
    return {"selector": {"matchLabels": labels}, "template": made}


def _template(made: Object) -> Object:
    metadata = {key: value for key, value in made["metadata"].items() if key in ("labels", "annotations")}
    return {"metadata": metadata, "spec": made["spec"]}


def pod_group(name: str, *, minCount: int | None = None, **members: Any) -> Object:
    """Returns a PodGroup: a gang of at least `minCount` pods, or else pods that may be scheduled one by one."""
    policy = {"basic": {}} if minCount is None else {"gang": {"minCount": minCount}}
    return _object("scheduling.k8s.io/v1beta1", "PodGroup", name, members, {"schedulingPolicy": policy})


def composite_pod_group(name: str, *, minGroupCount: int | None = None, **members: Any) -> Object:
    """Returns a group of groups: at least `minGroupCount` of them are scheduled together, or else each alone."""
    policy = {"basic": {}} if minGroupCount is None else {"gang": {"minGroupCount": minGroupCount}}
    return _object("scheduling.k8s.io/v1alpha3", "CompositePodGroup", name, members, {"schedulingPolicy": policy})


def pod_disruption_budget(name: str, matchLabels: Mapping[str, str], **members: Any) -> Object:
    """Returns a budget for the pods with these labels: `minAvailable=` or `maxUnavailable=`."""
    selector = {"matchLabels": dict(matchLabels)}
    return _object("policy/v1", "PodDisruptionBudget", name, members, {"selector": selector})


# Without a spec


def priority_class(name: str, value: int, **members: Any) -> Object:
    return _object("scheduling.k8s.io/v1", "PriorityClass", name, {"value": value, **members})


def namespace(name: str, **members: Any) -> Object:
    return _object("v1", "Namespace", name, members)


def config_map(name: str, data: Mapping[str, str] | None = None, **members: Any) -> Object:
    return _object("v1", "ConfigMap", name, {"data": dict(data or {}), **members})
