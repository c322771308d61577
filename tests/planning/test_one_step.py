"""If any single change helps, the search finds one of its kind: small random worlds against a search by hand.

DRAY_WALK_SEED is the first seed, DRAY_WALKS the number of worlds. The default worlds take about a second each.
"""

import copy
import os
from dataclasses import replace
from random import Random

import pytest

from dray.planning import tries
from dray.planning.playing import play
from dray.planning.suggestions import Budget, suggest
from dray.scheduling.quota.kai.queue import QUEUE_LABEL as KAI_QUEUE
from dray.scheduling.scheduler import Options
from dray.testing import objects
from tests import gpus
from tests.planning.scenes import pod, running, scene, template
from tests.scheduling.test_queues import QUEUE, cluster_queue, flavor, local_queue, nominal

FIRST, COUNT = int(os.environ.get("DRAY_WALK_SEED", "5")), int(os.environ.get("DRAY_WALKS", "7"))
ROOT = f"{objects.DRIVER}/root"
GPU = gpus.GPU
EXTENDED = "example.com/gpu"
SPREAD = {
    "maxSkew": 1,
    "topologyKey": "kubernetes.io/hostname",
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchLabels": {"app": "a"}},
}
APART = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "a"}}}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def random_scene(random):
    cluster, wanted = [gpus.device_class("ext", "gpu", extendedResourceName=EXTENDED)], []
    # Most worlds have whole GPUs alone; in others the nodes have partitions of them, or GPUs that are shared.
    form = random.choice((whole_gpus, whole_gpus, partitions, shared_gpus))
    for name in "ab"[: random.randint(1, 2)]:
        cluster += random_node(random, form, name)
    extended = form is whole_gpus and random.random() < 0.15
    if not extended:
        wanted.append(random_template(random, form))
    number = random.randint(1, 3)
    members, labels = random_members(random), {"app": "a"}
    gang = random.choice(("", "PodGroup", "Kueue")) if number > 1 else ""
    if gang == "PodGroup":
        wanted.append(objects.pod_group("g", minCount=number))
        members["schedulingGroup"] = {"podGroupName": "g"}
    if extended:
        amount = {**members.pop("requests", {}), EXTENDED: str(random.randint(1, 4))}
        pods = [objects.pod(f"p{index}", requests=amount, labels=labels, **members) for index in range(number)]
    else:
        pods = [pod(f"p{index}", labels=labels, **members) for index in range(number)]
    system = random.choice(("", "", "kueue", "kai"))
    if gang == "Kueue" or system == "kueue":
        cluster += kueue_queues(random)
        pods = [labelled(each, {QUEUE: "team"}) for each in pods]
    if gang == "Kueue":
        pods = [kueue_gang(each, number) for each in pods]
    elif system == "kai" and gang == "":
        cluster += kai_queues(random)
        pods = [labelled(each, {KAI_QUEUE: "team"}) for each in pods]
    return scene(*cluster, wanted=[*wanted, *pods])


def random_node(random, form, name):
    count, taints = random.randint(1, 4), [objects.taint("k")] if random.random() < 0.2 else None
    labels = {"zone": random.choice("xy"), "kubernetes.io/hostname": name}
    made = [objects.node(name, cpu="8", labels=labels, **({"taints": taints} if taints else {}))]
    slices, free = form(name, count)
    made += slices
    while free and random.random() < 0.5:
        number = random.randint(1, min(2, len(free)))
        held, free = free[:number], free[number:]
        made += holding(random, form, name, held)
    if free and random.random() < 0.15:
        _, left_over = running(f"{name}-gone", name, free[0])
        left_over["status"]["reservedFor"] = []
        made.append(left_over)
    if random.random() < 0.2:
        made += running(f"{name}-cpu", name, cpu=random.choice(("4", "8")))
    return made


def random_template(random, form):
    constraints = [{"matchAttribute": ROOT, "requests": ["gpu"]}] if random.random() < 0.4 else None
    selectors = [f"device.attributes['{objects.DRIVER}'].root == 'r1'"] if random.random() < 0.3 else ()
    share = {"capacity": {"requests": {"memory": random.choice(("1", "2"))}}} if form is shared_gpus else {}
    made = template(count=random.randint(1, 4), constraints=constraints, selectors=selectors, **share)
    [request] = made["spec"]["spec"]["devices"]["requests"]
    if random.random() < 0.15:
        request["exactly"]["deviceClassName"] = "net"
    elif random.random() < 0.2:
        first = request.pop("exactly")
        other = {**first, "name": "second", "count": random.randint(1, 4)}
        request["firstAvailable"] = [{**first, "name": "first"}, other]
    return made


def random_members(random):
    members = {"cpu": random.choice(("1", "4"))} if random.random() < 0.5 else {}
    if random.random() < 0.3:
        members["nodeSelector"] = {"zone": "x"}
    if random.random() < 0.1:
        members["topologySpreadConstraints"] = [SPREAD]
    if random.random() < 0.1:
        members["affinity"] = {"podAntiAffinity": {REQUIRED: [APART]}}
    return {key: value for key, value in members.items() if key != "cpu"} | (
        {"requests": {"cpu": members["cpu"]}} if "cpu" in members else {}
    )


def labelled(pod_, labels):
    metadata = pod_["metadata"]
    return {**pod_, "metadata": {**metadata, "labels": {**(metadata.get("labels") or {}), **labels}}}


def kueue_gang(pod_, number):
    made = labelled(pod_, {"kueue.x-k8s.io/pod-group-name": "g"})
    made["metadata"]["annotations"] = {"kueue.x-k8s.io/pod-group-total-count": str(number)}
    return made


def kueue_queues(random):
    """A queue with one flavor or one for each zone, perhaps with a cohort, and perhaps another queue."""
    limits = {"borrowingLimit": str(random.randint(0, 2))} if random.random() < 0.5 else {}

    def quotas():
        amounts = {GPU: nominal(str(random.randint(0, 4)), **limits), "cpu": nominal(str(random.choice((2, 8, 32))))}
        return {**amounts, "deviceclass.resource.kubernetes.io/net": nominal("9")}

    zones = random.random() < 0.3
    flavors = [flavor("fx", zone="x"), flavor("fy", zone="y")] if zones else [flavor()]
    names = [each["metadata"]["name"] for each in flavors]
    notes = {"dray.dev/uncovered-device-classes": "allow"}
    org = {"cohort": "org"} if random.random() < 0.5 else {}
    made = [*flavors, cluster_queue("team", *((name, quotas()) for name in names), **org), local_queue("team", "team")]
    if random.random() < 0.5:
        made += [cluster_queue("other", *((name, quotas()) for name in names), **org), local_queue("other", "other")]
    for each in made:
        each["metadata"]["annotations"] = notes
    return made


def kai_queues(random):
    made = [kai_queue("top", 99)]
    for name in ("team", "other")[: random.randint(1, 2)]:
        quota = random.randint(0, 3)
        made.append(kai_queue(name, quota, "top", limit=random.choice((-1, quota))))
    return made


def kai_queue(name, quota, parent="", limit=-1):
    free = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
    resources = {"gpu": {"quota": quota, "limit": limit, "overQuotaWeight": 1}, "cpu": free, "memory": free}
    spec = {"resources": resources, **({"parentQueue": parent} if parent else {})}
    return {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": name}, "spec": spec}


def whole_gpus(name, count):
    """The slices of a node, and the devices that running pods may hold at the same time."""
    return [gpus.slice_of(name, count)], [f"gpu-{number}" for number in range(count)]


def partitions(name, count):
    """Boards of two counters, each of which is one device or two halves."""

    def takes(board, number):
        return [{"counterSet": f"board-{board}", "counters": {"slots": {"value": str(number)}}}]

    boards = [{"name": f"board-{board}", "counters": {"slots": {"value": "2"}}} for board in range(count)]
    devices = []
    for board in range(count):
        attributes = {"root": f"r{board // 2}"}
        devices.append(gpus.gpu(f"gpu-{board}", attributes=attributes, consumesCounters=takes(board, 2)))
        devices += [
            gpus.gpu(f"gpu-{board}-{half}", attributes=attributes, consumesCounters=takes(board, 1))
            for half in range(2)
        ]
    members = {"pool": name, "nodeName": name, "resourceSliceCount": 2}
    slices = [
        objects.resource_slice(f"{name}-sets", sharedCounters=boards, **members),
        objects.resource_slice(f"{name}-devices", *devices, **members),
    ]
    return slices, [f"gpu-{board}-{half}" for board in range(count) for half in range(2)]


def shared_gpus(name, count):
    """GPUs with a memory of two, of which claims take parts."""
    share = {"allowMultipleAllocations": True, "capacity": {"memory": {"value": "2"}}}
    return [gpus.slice_of(name, count, **share)], [f"gpu-{number}" for number in range(count)]


def holding(random, form, name, held):
    """A running pod with these devices; with a part of each if they are shared."""
    made = running(f"{name}-{held[0]}", name, *held, priority=random.choice((0, 0, 5)))
    if form is shared_gpus:
        memory = random.choice(("1", "2"))
        for number, result in enumerate(made[1]["status"]["allocation"]["devices"]["results"]):
            result.update(shareID=f"share-{number}", consumedCapacity={"memory": memory})
    return made


def one_steps(made):
    """Every scene that differs by one step, made by hand."""
    yield from templates_changed(made)
    yield from pods_changed(made)
    yield from fewer_pods(made)
    yield from cluster_changed(made)


def templates_changed(made):
    for only in made.wanted.get("ResourceClaimTemplate", ()):
        for kind, edit in template_edits(only["spec"]["spec"]["devices"]):
            changed = copy.deepcopy(only)
            edit(changed["spec"]["spec"]["devices"])
            yield kind, made.with_wanted(ResourceClaimTemplate=[changed])


def template_edits(devices):
    yield "DropConstraint", lambda given: given.pop("constraints", None)
    request = devices["requests"][0]
    for at in range(len(request.get("firstAvailable", ())) or 1):

        def body(given, at=at):
            first = given["requests"][0]
            return first["firstAvailable"][at] if "firstAvailable" in first else first["exactly"]

        yield "DropSelector", lambda given, body=body: body(given).pop("selectors", None)
        for less in range(1, body(devices).get("count", 1)):
            yield "FewerDevices", lambda given, body=body, less=less: body(given).update(count=less)
        for name in ("gpu", "net"):
            yield "ChangeClass", lambda given, body=body, name=name: body(given).update(deviceClassName=name)
        if "capacity" in body(devices):
            yield "LessCapacity", lambda given, body=body: body(given)["capacity"]["requests"].update(memory="1")


def pods_changed(made):
    pods = made.wanted["Pod"]
    tolerations = [{"key": "k", "operator": "Exists"}]
    for kind, spec in (
        ("DropNodeSelector", {"nodeSelector": {}}),
        ("AddToleration", {"tolerations": tolerations}),
        ("DropSpread", {"topologySpreadConstraints": []}),
        ("DropAffinity", {"affinity": {}}),
    ):
        yield kind, made.with_wanted(Pod=[{**each, "spec": {**each["spec"], **spec}} for each in pods])
    for label in (QUEUE, KAI_QUEUE):
        if label in pods[0]["metadata"]["labels"]:
            yield "OtherQueue", made.with_wanted(Pod=[labelled(each, {label: "other"}) for each in pods])
    requests = pods[0]["spec"]["containers"][0].get("resources", {}).get("requests", {})
    for less in range(1, int(requests.get(EXTENDED, 1))):
        changed = copy.deepcopy(list(pods))
        for each in changed:
            each["spec"]["containers"][0]["resources"]["requests"][EXTENDED] = str(less)
        yield "FewerDevices", made.with_wanted(Pod=changed)


def fewer_pods(made):
    pods = made.wanted["Pod"]
    for number in range(1, len(pods)):
        groups = copy.deepcopy(list(made.wanted.get("PodGroup", ())))
        for group in groups:
            group["spec"]["schedulingPolicy"]["gang"]["minCount"] = number
        left = copy.deepcopy(list(pods[:number]))
        for each in left:
            if notes := each["metadata"].get("annotations"):
                notes["kueue.x-k8s.io/pod-group-total-count"] = str(number)
        yield "FewerPods", made.with_wanted(Pod=left, PodGroup=groups)


def cluster_changed(made):
    pods, claims = made.cluster["Pod"], made.cluster["ResourceClaim"]
    for each in claims:
        if not each["status"].get("reservedFor"):
            yield "FreeClaim", made.with_cluster(ResourceClaim=[claim for claim in claims if claim is not each])
    for each in pods:
        name = each["metadata"]["name"]
        left = [claim for claim in claims if claim["metadata"]["name"] != f"{name}-gpu"]
        yield "FreePod", made.with_cluster(Pod=[other for other in pods if other is not each], ResourceClaim=left)
    for each in made.cluster["Node"]:
        name = each["metadata"]["name"]
        twin = copy.deepcopy(each)
        twin["metadata"].update(name="twin", uid="twin")
        twin["metadata"]["labels"]["kubernetes.io/hostname"] = "twin"
        slices = [found for found in made.cluster["ResourceSlice"] if found["spec"]["nodeName"] == name]
        twins = copy.deepcopy(slices)
        for number, found in enumerate(twins):
            found["metadata"].update(name=f"twin-{number}", uid=f"twin-{number}")
            found["spec"].update(nodeName="twin", pool={**found["spec"]["pool"], "name": "twin"})
        yield (
            "AddMachines",
            made.with_cluster(
                Node=[*made.cluster["Node"], twin], ResourceSlice=[*made.cluster["ResourceSlice"], *twins]
            ),
        )
    yield from quota_changed(made)


def quota_changed(made):
    queues = made.cluster.get("ClusterQueue", ())
    for queue in queues:
        for flavor_at in range(len(queue["spec"]["resourceGroups"][0]["flavors"])):
            for resource_at in range(2):
                more = copy.deepcopy(queue)
                entry = more["spec"]["resourceGroups"][0]["flavors"][flavor_at]["resources"][resource_at]
                entry["nominalQuota"] = "40"
                yield "SetQuota", made.with_cluster(ClusterQueue=[more if each is queue else each for each in queues])
    queues = made.cluster.get("Queue", ())
    for queue in queues:
        more = copy.deepcopy(queue)
        more["spec"]["resources"]["gpu"].update(quota=20, limit=-1)
        yield "SetQuota", made.with_cluster(Queue=[more if each is queue else each for each in queues])


@pytest.mark.parametrize("seed", range(FIRST, FIRST + COUNT))
def test_a_change_of_every_kind_that_helps_is_found(seed, monkeypatch):
    if seed % 4:
        # Plays each change from the beginning instead of in a copy of the process.
        monkeypatch.setattr(tries, "workers", lambda: 0)
    made = random_scene(Random(seed))
    outcome = play(made, Options())
    if outcome.fits:
        return
    helping = {kind for kind, step in one_steps(made) if play(step, Options()).fits}
    search = suggest(made, outcome, Options(), Budget(seconds=1e9), lambda: 0.0)
    for each in search.suggestions:
        assert play(each.change.apply(replace(made)), Options()).fits, each.change.text
    assert bool(search.suggestions) >= bool(helping), helping
    patient = suggest(made, outcome, Options(), Budget(tries=150, found=99, seconds=1e9), lambda: 0.0)
    assert {each.change.kind for each in patient.suggestions} >= helping
