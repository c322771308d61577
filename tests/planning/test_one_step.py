"""If any single change helps, the search finds one: small random worlds against an exhaustive search by hand.

DRAY_WALK_SEED is the first seed, DRAY_WALKS the number of worlds.
"""

import copy
import os
from dataclasses import replace
from random import Random

import pytest

from dray.planning.playing import play
from dray.planning.suggestions import Budget, suggest
from dray.scheduling.scheduler import Options
from dray.testing import objects
from tests import gpus
from tests.planning.scenes import pod, running, scene, template
from tests.scheduling.test_queues import cluster_queue, flavor, in_queue, local_queue, nominal

FIRST, COUNT = int(os.environ.get("DRAY_WALK_SEED", "1")), int(os.environ.get("DRAY_WALKS", "24"))
ROOT = f"{objects.DRIVER}/root"


def random_scene(random):
    cluster, wanted = [], []
    # Most worlds have whole GPUs alone; in others the nodes have partitions of them, or GPUs that are shared.
    form = random.choice((whole_gpus, whole_gpus, partitions, shared_gpus))
    for name in "ab"[: random.randint(1, 2)]:
        count, taints = random.randint(1, 4), [objects.taint("k")] if random.random() < 0.2 else None
        labels = {"zone": random.choice("xy")}
        cluster.append(objects.node(name, cpu="8", labels=labels, **({"taints": taints} if taints else {})))
        slices, free = form(name, count)
        cluster += slices
        while free and random.random() < 0.5:
            number = random.randint(1, min(2, len(free)))
            held, free = free[:number], free[number:]
            cluster += holding(random, form, name, held)
    constraints = [{"matchAttribute": ROOT, "requests": ["gpu"]}] if random.random() < 0.4 else None
    selectors = [f"device.attributes['{objects.DRIVER}'].root == 'r1'"] if random.random() < 0.3 else ()
    share = {"capacity": {"requests": {"memory": random.choice(("1", "2"))}}} if form is shared_gpus else {}
    wanted.append(template(count=random.randint(1, 4), constraints=constraints, selectors=selectors, **share))
    members = {"nodeSelector": {"zone": "x"}} if random.random() < 0.3 else {}
    number = random.randint(1, 3)
    if number > 1 and random.random() < 0.5:
        wanted.append(objects.pod_group("g", minCount=number))
        members["schedulingGroup"] = {"podGroupName": "g"}
    pods = [pod(f"p{index}", **members) for index in range(number)]
    if random.random() < 0.4:
        quota = str(random.randint(0, 3))
        cluster += [flavor(), cluster_queue("team", ("any", {gpus.GPU: nominal(quota)})), local_queue("team", "team")]
        pods = [in_queue(each) for each in pods]
    return scene(*cluster, wanted=[*wanted, *pods])


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
    yield from cluster_changed(made)


def templates_changed(made):
    [only] = made.wanted["ResourceClaimTemplate"]
    devices = only["spec"]["spec"]["devices"]
    count = devices["requests"][0]["exactly"]["count"]
    for edit in (
        lambda given: given.pop("constraints", None),
        lambda given: given["requests"][0]["exactly"].pop("selectors", None),
        *(lambda given, less=less: given["requests"][0]["exactly"].update(count=less) for less in range(1, count)),
    ):
        changed = copy.deepcopy(only)
        edit(changed["spec"]["spec"]["devices"])
        yield made.with_wanted(ResourceClaimTemplate=[changed])


def pods_changed(made):
    pods = made.wanted["Pod"]
    yield made.with_wanted(Pod=[{**each, "spec": {**each["spec"], "nodeSelector": {}}} for each in pods])
    tolerations = [{"key": "k", "operator": "Exists"}]
    yield made.with_wanted(Pod=[{**each, "spec": {**each["spec"], "tolerations": tolerations}} for each in pods])
    for number in range(1, len(pods)):
        groups = copy.deepcopy(list(made.wanted.get("PodGroup", ())))
        for group in groups:
            group["spec"]["schedulingPolicy"]["gang"]["minCount"] = number
        yield made.with_wanted(Pod=pods[:number], PodGroup=groups)


def cluster_changed(made):
    pods, claims = made.cluster["Pod"], made.cluster["ResourceClaim"]
    for each in pods:
        name = each["metadata"]["name"]
        left = [claim for claim in claims if claim["metadata"]["name"] != f"{name}-gpu"]
        yield made.with_cluster(Pod=[other for other in pods if other is not each], ResourceClaim=left)
    for each in made.cluster["Node"]:
        name = each["metadata"]["name"]
        twin = copy.deepcopy(each)
        twin["metadata"].update(name="twin", uid="twin")
        slices = [found for found in made.cluster["ResourceSlice"] if found["spec"]["nodeName"] == name]
        twins = copy.deepcopy(slices)
        for number, found in enumerate(twins):
            found["metadata"].update(name=f"twin-{number}", uid=f"twin-{number}")
            found["spec"].update(nodeName="twin", pool={**found["spec"]["pool"], "name": "twin"})
        yield made.with_cluster(
            Node=[*made.cluster["Node"], twin], ResourceSlice=[*made.cluster["ResourceSlice"], *twins]
        )
    for queue in made.cluster.get("ClusterQueue", ()):
        more = copy.deepcopy(queue)
        more["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"] = "12"
        yield made.with_cluster(ClusterQueue=[more])


@pytest.mark.parametrize("seed", range(FIRST, FIRST + COUNT))
def test_a_change_is_found_if_there_is_one(seed):
    made = random_scene(Random(seed))
    outcome = play(made, Options())
    if outcome.fits:
        return
    search = suggest(made, outcome, Options(), Budget(tries=500, seconds=1e9), lambda: 0.0)
    for each in search.suggestions:
        assert play(each.change.apply(replace(made)), Options()).fits, each.change.text
    if not search.suggestions:
        assert not any(play(each, Options()).fits for each in one_steps(made))
