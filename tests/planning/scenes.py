"""Scenes of the tests: nodes with GPUs, running pods that hold some of them, and pods that are to be placed."""

from dray.planning.scene import Scene
from dray.planning.stored_objects import kind_of
from dray.testing import objects
from tests import gpus

NAMESPACED = ("Pod", "ResourceClaim", "ResourceClaimTemplate", "PodGroup", "LocalQueue", "PodDisruptionBudget")
NOW = 1_800_000_000.0


def stored(document):
    metadata = dict(document["metadata"])
    if document["kind"] in NAMESPACED:
        metadata.setdefault("namespace", "default")
    metadata.setdefault("uid", f"{document['kind']}/{metadata['name']}")
    return {**document, "metadata": metadata}


def by_kind(documents):
    found = {}
    for each in map(stored, documents):
        found.setdefault(kind_of(each), []).append(each)
    return found


def scene(*cluster, wanted=()):
    base = {"Pod": [], "ResourceClaim": [], "PodGroup": []}
    classes = [gpus.device_class("gpu"), gpus.device_class("net")]
    return Scene({**base, **by_kind([*classes, *cluster])}, by_kind(wanted), NOW)


def node(name, gpu_count=4, *, cpu="8", **members):
    return [objects.node(name, cpu=cpu, **members), gpus.slice_of(name, gpu_count)]


def template(name="one", count=1, selectors=(), constraints=None, **members):
    request = objects.request("gpu", deviceClassName="gpu", count=count, allocationMode="ExactCount", **members)
    if selectors:
        request["exactly"]["selectors"] = [{"cel": {"expression": each}} for each in selectors]
    return objects.claim_template(name, request, constraints=constraints)


def pod(name, template_name="one", priority=0, **members):
    templates = {"gpu": template_name} if template_name else {}
    return gpus.pod(name, templates=templates, priority=priority, **members)


def running(name, node_name, *devices, priority=0, owner="ReplicaSet", **members):
    """A pod on a node, and its claim with these devices."""
    made = stored(pod(name, "one" if devices else None, priority, **members))
    made["spec"]["nodeName"] = node_name
    if owner:
        made["metadata"]["ownerReferences"] = [{"kind": owner, "name": "o", "uid": "o", "controller": True}]
    made["status"] = {"phase": "Running"}
    if not devices:
        return [made]
    made["status"]["resourceClaimStatuses"] = [{"name": "gpu", "resourceClaimName": f"{name}-gpu"}]
    user = {"resource": "pods", "name": name, "uid": made["metadata"]["uid"]}
    allocation = objects.allocation(*devices, pool=node_name)
    request = objects.request("gpu", deviceClassName="gpu", count=len(devices), allocationMode="ExactCount")
    claim = stored(objects.claim(f"{name}-gpu", request, status={"allocation": allocation, "reservedFor": [user]}))
    claim["metadata"]["ownerReferences"] = [
        {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": made["metadata"]["uid"], "controller": True}
    ]
    return [made, claim]


def places(played):
    return {each.key[1]: each.node for each in played.pods}


def device_names(played):
    return {each.key[1]: [f"{result['pool']}/{result['device']}" for _, result in each.devices] for each in played.pods}
