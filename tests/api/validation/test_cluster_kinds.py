"""Kinds of storage, networks, endpoints, runtime classes, flow control and autoscaling: defaults and rules."""

import pytest

from tests.api.objects import causes, changed, create, update


def of(api_version, kind, name="x", namespace="", **members):
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **members}


def in_default(api_version, kind, **members):
    return of(api_version, kind, namespace="default", **members)


CLAIM = in_default(
    "v1",
    "PersistentVolumeClaim",
    spec={"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
)
VOLUME = of(
    "v1",
    "PersistentVolume",
    spec={"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/srv"}},
)
STORAGE_CLASS = of("storage.k8s.io/v1", "StorageClass", provisioner="example.com/disk", parameters={"a": "b"})
DRIVER = of("storage.k8s.io/v1", "CSIDriver", name="d.example.com", spec={})
CSI_NODE = of(
    "storage.k8s.io/v1",
    "CSINode",
    spec={"drivers": [{"name": "d.example.com", "nodeID": "n", "topologyKeys": ["a"]}]},
)
CAPACITY = in_default("storage.k8s.io/v1", "CSIStorageCapacity", storageClassName="c", capacity="1Gi")
ATTACHMENT = of(
    "storage.k8s.io/v1",
    "VolumeAttachment",
    spec={"attacher": "d.example.com", "nodeName": "n", "source": {"persistentVolumeName": "v"}},
)
ATTRIBUTES = of("storage.k8s.io/v1", "VolumeAttributesClass", driverName="d.example.com", parameters={"iops": "9"})
BACKEND = {"service": {"name": "web", "port": {"number": 80}}}
PATH = {"path": "/", "pathType": "Prefix", "backend": BACKEND}
INGRESS = in_default(
    "networking.k8s.io/v1", "Ingress", spec={"rules": [{"host": "a.example.com", "http": {"paths": [PATH]}}]}
)
INGRESS_CLASS = of("networking.k8s.io/v1", "IngressClass", spec={"controller": "example.com/c"})
POLICY = in_default(
    "networking.k8s.io/v1",
    "NetworkPolicy",
    spec={"podSelector": {}, "ingress": [{"from": [{"podSelector": {}}], "ports": [{"port": 80}]}]},
)
ADDRESS = of(
    "networking.k8s.io/v1",
    "IPAddress",
    name="10.96.0.9",
    spec={"parentRef": {"resource": "services", "name": "web", "namespace": "default"}},
)
RANGE = of("networking.k8s.io/v1", "ServiceCIDR", spec={"cidrs": ["10.97.0.0/16"]})
ENDPOINTS = in_default("v1", "Endpoints", subsets=[{"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 80}]}])
SLICE = in_default(
    "discovery.k8s.io/v1",
    "EndpointSlice",
    addressType="IPv4",
    endpoints=[{"addresses": ["10.0.0.1"]}],
    ports=[{"port": 80}],
)
RUNTIME = of("node.k8s.io/v1", "RuntimeClass", handler="runsc", overhead={"podFixed": {"cpu": "100m"}})
SUBJECT = {"kind": "User", "user": {"name": "u"}}
RESOURCES = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"]}
FLOW = of(
    "flowcontrol.apiserver.k8s.io/v1",
    "FlowSchema",
    spec={
        "priorityLevelConfiguration": {"name": "p"},
        "rules": [{"subjects": [SUBJECT], "resourceRules": [RESOURCES]}],
    },
)
LEVEL = of(
    "flowcontrol.apiserver.k8s.io/v1",
    "PriorityLevelConfiguration",
    spec={"type": "Limited", "limited": {"limitResponse": {"type": "Queue", "queuing": {}}}},
)
API_SERVICE = of(
    "apiregistration.k8s.io/v1",
    "APIService",
    name="v1.example.com",
    spec={"group": "example.com", "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 15},
)
AUTOSCALER = in_default(
    "autoscaling/v2",
    "HorizontalPodAutoscaler",
    spec={"scaleTargetRef": {"kind": "Deployment", "name": "web", "apiVersion": "apps/v1"}, "maxReplicas": 3},
)
EVERY = (
    CLAIM, VOLUME, STORAGE_CLASS, DRIVER, CSI_NODE, CAPACITY, ATTACHMENT, ATTRIBUTES, INGRESS, INGRESS_CLASS, POLICY,
    ADDRESS, RANGE, ENDPOINTS, SLICE, RUNTIME, FLOW, LEVEL, API_SERVICE, AUTOSCALER,
)  # fmt: skip


@pytest.mark.parametrize("obj", EVERY, ids=lambda obj: obj["kind"])
def test_small_objects_are_accepted_and_may_stay_as_they_are(obj):
    assert causes(create(obj)) == set()
    assert causes(update(obj, obj)) == set()


CASES = [
    (CLAIM, {"spec.accessModes": []}, {"spec.accessModes Required"}),
    (CLAIM, {"spec.accessModes": ["Sometimes"]}, {"spec.accessModes NotSupported"}),
    (CLAIM, {"spec.accessModes": ["ReadWriteOncePod", "ReadOnlyMany"]}, {"spec.accessModes Forbidden"}),
    (CLAIM, {"spec.resources": {}}, {"spec.resources[storage] Required"}),
    (CLAIM, {"spec.resources.requests.storage": "0"}, {"spec.resources[storage] Invalid"}),
    (CLAIM, {"spec.volumeMode": "Tape"}, {"spec.volumeMode NotSupported"}),
    (
        CLAIM,
        {"spec.dataSource": {"kind": "Snapshot", "name": "s"}},
        {"spec.dataSource Invalid", "spec.dataSourceRef Invalid"},
    ),
    (VOLUME, {"spec.hostPath": None}, {"spec Required"}),
    (VOLUME, {"spec.nfs": {"server": "s", "path": "/p"}}, {"spec.nfs Forbidden"}),
    (VOLUME, {"spec.hostPath.path": "/srv/../etc"}, {"spec.hostPath.path Invalid"}),
    (VOLUME, {"spec.capacity": {}}, {"spec.capacity Required"}),
    (VOLUME, {"spec.capacity": {"storage": "-1"}}, {"spec.capacity[storage] Invalid"}),
    (VOLUME, {"spec.persistentVolumeReclaimPolicy": "Burn"}, {"spec.persistentVolumeReclaimPolicy NotSupported"}),
    (VOLUME, {"spec.nodeAffinity": {}}, {"spec.nodeAffinity.required Required"}),
    (STORAGE_CLASS, {"provisioner": ""}, {"provisioner Required"}),
    (STORAGE_CLASS, {"reclaimPolicy": "Recycle"}, {"reclaimPolicy NotSupported"}),
    (STORAGE_CLASS, {"volumeBindingMode": "Later"}, {"volumeBindingMode NotSupported"}),
    (DRIVER, {"spec.fsGroupPolicy": "All"}, {"spec.fsGroupPolicy NotSupported"}),
    (DRIVER, {"spec.volumeLifecycleModes": ["Eternal"]}, {"spec.volumeLifecycleModes NotSupported"}),
    (CSI_NODE, {"spec.drivers.0.nodeID": ""}, {"spec.drivers[0].nodeID Required"}),
    (CAPACITY, {"capacity": "-1"}, {"capacity Invalid"}),
    (ATTACHMENT, {"spec.source": {}}, {"spec.source Required"}),
    (ATTRIBUTES, {"parameters": None}, {"parameters Required"}),
    (INGRESS, {"spec.rules": []}, {"spec Invalid"}),
    (INGRESS, {"spec.rules.0.host": "10.0.0.1"}, {"spec.rules[0].host Invalid"}),
    (INGRESS, {"spec.rules.0.host": "*.example.com"}, set()),
    (INGRESS, {"spec.rules.0.http.paths": []}, {"spec.rules[0].http.paths Required"}),
    (INGRESS, {"spec.rules.0.http.paths.0.pathType": None}, {"spec.rules[0].http.paths[0].pathType Required"}),
    (INGRESS, {"spec.rules.0.http.paths.0.path": "a"}, {"spec.rules[0].http.paths[0].path Invalid"}),
    (INGRESS, {"spec.rules.0.http.paths.0.backend": {}}, {"spec.rules[0].http.paths[0].backend Invalid"}),
    (INGRESS_CLASS, {"spec.controller": "plain"}, {"spec.controller Invalid"}),
    (
        INGRESS_CLASS,
        {"spec.parameters": {"kind": "K", "name": "n", "scope": "Namespace"}},
        {"spec.parameters.namespace Required"},
    ),
    (POLICY, {"spec.ingress.0.from": [{}]}, {"spec.ingress[0].from[0] Required"}),
    (
        POLICY,
        {"spec.ingress.0.from": [{"ipBlock": {"cidr": "10.0.0.0/33"}}]},
        {"spec.ingress[0].from[0].ipBlock.cidr Invalid"},
    ),
    (
        POLICY,
        {"spec.ingress.0.from": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["11.0.0.0/9"]}}]},
        {"spec.ingress[0].from[0].ipBlock.except[0] Invalid"},
    ),
    (POLICY, {"spec.ingress.0.ports.0.endPort": 79}, {"spec.ingress[0].ports[0].endPort Invalid"}),
    (POLICY, {"spec.policyTypes": ["Sideways"]}, {"spec.policyTypes[0] NotSupported"}),
    (ADDRESS, {"metadata.name": "10.96.0.09"}, {"metadata.name Invalid"}),
    (ADDRESS, {"spec.parentRef": None}, {"spec.parentRef Required"}),
    (RANGE, {"spec.cidrs": ["10.97.0.1/16"]}, {"spec.cidrs[0] Invalid"}),
    (ENDPOINTS, {"subsets.0.addresses": []}, {"subsets[0] Required"}),
    (ENDPOINTS, {"subsets.0.addresses.0.ip": "127.0.0.1"}, {"subsets[0].addresses[0].ip Invalid"}),
    (SLICE, {"addressType": "IPX"}, {"addressType NotSupported"}),
    (SLICE, {"endpoints.0.addresses": ["fd00::1"]}, {"endpoints[0].addresses[0] Invalid"}),
    (SLICE, {"endpoints.0.addresses": []}, {"endpoints[0].addresses Required"}),
    (SLICE, {"ports": [{"port": 1}, {"port": 2}]}, {"ports[1] Duplicate"}),
    (RUNTIME, {"handler": "No/Name"}, {"handler Invalid"}),
    (FLOW, {"spec.matchingPrecedence": 1}, {"spec.matchingPrecedence Invalid"}),
    (FLOW, {"spec.rules.0.subjects": []}, {"spec.rules[0].subjects Required"}),
    (FLOW, {"spec.rules.0.resourceRules": []}, {"spec.rules[0] Required"}),
    (LEVEL, {"spec.type": "Exempt"}, {"spec.type Invalid", "spec.limited Forbidden"}),
    (
        LEVEL,
        {"spec.limited.limitResponse.queuing.handSize": 65},
        {"spec.limited.limitResponse.queuing.handSize Invalid"},
    ),
    (API_SERVICE, {"metadata.name": "v2.example.com"}, {"metadata.name Invalid"}),
    (API_SERVICE, {"spec.versionPriority": 0}, {"spec.versionPriority Invalid"}),
    (AUTOSCALER, {"spec.maxReplicas": 0}, {"spec.maxReplicas Invalid"}),
    (AUTOSCALER, {"spec.metrics": [{"type": "Resource"}]}, {"spec.metrics[0].resource Required"}),
]


@pytest.mark.parametrize(("obj", "changes", "expected"), CASES)
def test_rules(obj, changes, expected):
    assert causes(create(changed(obj, changes))) == expected


@pytest.mark.parametrize(
    ("obj", "changes", "expected"),
    [
        (CLAIM, {"spec.accessModes": ["ReadOnlyMany"]}, {"spec Forbidden"}),
        (CLAIM, {"spec.volumeName": "v"}, set()),
        (CLAIM, {"spec.storageClassName": "late"}, set()),
        (VOLUME, {"spec.hostPath.path": "/other"}, {"spec.persistentvolumesource Forbidden"}),
        (VOLUME, {"spec.persistentVolumeReclaimPolicy": "Delete"}, set()),
        (STORAGE_CLASS, {"provisioner": "example.com/tape"}, {"provisioner Forbidden"}),
        (STORAGE_CLASS, {"parameters": {}}, {"parameters Forbidden"}),
        (DRIVER, {"spec.attachRequired": False}, {"spec.attachRequired Invalid"}),
        (CSI_NODE, {"spec.drivers.0.nodeID": "other"}, {"spec.drivers[0] Invalid"}),
        (ATTACHMENT, {"spec.nodeName": "other"}, {"spec Invalid"}),
        (INGRESS_CLASS, {"spec.controller": "example.com/d"}, {"spec.controller Invalid"}),
        (SLICE, {"addressType": "FQDN", "endpoints": []}, {"addressType Invalid"}),
        (RANGE, {"spec.cidrs": ["10.98.0.0/16"]}, {"spec.cidrs[0] Invalid"}),
        (RUNTIME, {"handler": "kata"}, {"handler Invalid"}),
    ],
)
def test_what_stays(obj, changes, expected):
    assert causes(update(changed(obj, changes), obj)) == expected


def test_a_bound_claim_may_ask_for_more_and_not_for_less_than_it_has():
    bound = changed(CLAIM, {"spec.volumeName": "v", "status": {"phase": "Bound", "capacity": {"storage": "1Gi"}}})
    assert causes(update(changed(bound, {"spec.resources.requests.storage": "2Gi"}), bound)) == set()
    less = update(changed(bound, {"spec.resources.requests.storage": "1Mi"}), bound)
    assert causes(less) == {"spec.resources.requests.storage Forbidden"}


def test_defaults():
    volume, claim = create(VOLUME).object, create(CLAIM).object
    assert volume["spec"]["persistentVolumeReclaimPolicy"] == "Retain"
    assert (volume["status"], claim["status"]) == ({"phase": "Pending"}, {"phase": "Pending"})
    storage_class = create(STORAGE_CLASS).object
    assert (storage_class["reclaimPolicy"], storage_class["volumeBindingMode"]) == ("Delete", "Immediate")
    assert create(changed(POLICY, {"spec.egress": [{}]})).object["spec"]["policyTypes"] == ["Ingress", "Egress"]
    assert create(SLICE).object["ports"] == [{"name": "", "port": 80, "protocol": "TCP"}]
    assert create(LEVEL).object["spec"]["limited"]["limitResponse"]["queuing"]["queues"] == 64
    assert create(AUTOSCALER).object["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"] == 80


def test_the_generation_of_a_slice_counts_its_endpoints():
    stored = create(SLICE).object
    assert stored["metadata"]["generation"] == 1
    moved = update(changed(SLICE, {"endpoints.0.addresses": ["10.0.0.2"]}), stored).object
    assert moved["metadata"]["generation"] == 2
    noted = update(changed(SLICE, {"metadata.annotations": {"a": "b"}}), stored).object
    assert noted["metadata"]["generation"] == 1
