"""A cluster does with manifests of all sorts what a plan said: the same nodes, devices and waits.

DRAY_PREDICTION_SEED is the first seed, DRAY_PREDICTIONS the number of random worlds.
"""

import os
from random import Random

import pytest

from dray.answers.manifests.given import read_given
from dray.answers.plan import Question, cluster_base, plan_reading
from dray.api.pods import claims_used
from dray.client.foreign_kinds import KUEUE, definitions
from dray.testing import objects
from tests.fleet.rehearsal import Rehearsal
from tests.planning.test_prediction import at_rest
from tests.planning.test_workloads import Live

FIRST, COUNT = int(os.environ.get("DRAY_PREDICTION_SEED", "1")), int(os.environ.get("DRAY_PREDICTIONS", "3"))
GPU, QUEUE = "gpu.nvidia.com", "kueue.x-k8s.io/queue-name"
ROOT = [{"matchAttribute": "resource.kubernetes.io/pcieRoot"}]
FLEETS = (
    "a3-highgpu-1g=2",
    "a2-highgpu-2g=2",
    "a2-ultragpu-1g:mig=1",
    "a3-highgpu-1g:mig=1",
    "a3-highgpu-8g=1",
    "g2-standard-8:shared-memory=2",
    "ct6e-standard-4t=1",
    "n2-standard-16=1",
)


def profile(name):
    return [{"cel": {"expression": f"device.attributes['{GPU}'].profile == '{name}'"}}]


def model(name):
    return [{"cel": {"expression": f"device.attributes['{GPU}'].productName.contains('{name}')"}}]


def templates():
    request, first, sub = objects.request, objects.first_available, objects.subrequest
    for count in (1, 2, 4):
        yield objects.claim_template(f"gpus-{count}", request(deviceClassName=GPU, count=count))
    yield objects.claim_template("close", request(deviceClassName=GPU, count=2), constraints=ROOT)
    yield objects.claim_template("a100", request(deviceClassName=GPU, selectors=model("A100")))
    yield objects.claim_template("small", request(deviceClassName="mig.nvidia.com", selectors=profile("1g.10gb")))
    yield objects.claim_template("large", request(deviceClassName="mig.nvidia.com", selectors=profile("3g.40gb")))
    memory = {"requests": {"memory": "8Gi"}}
    yield objects.claim_template("share", request(deviceClassName=GPU, selectors=model("L4"), capacity=memory))
    yield objects.claim_template("all", request(deviceClassName=GPU, allocationMode="All"))
    yield objects.claim_template("tpus", request(deviceClassName="tpu.google.com", count=4))
    yield objects.claim_template(
        "either",
        first(
            "gpu",
            sub("h100", deviceClassName=GPU, count=2, selectors=model("H100")),
            sub("part", deviceClassName="mig.nvidia.com", selectors=profile("2g.20gb")),
            sub("any", deviceClassName=GPU),
        ),
    )
    both = (request(deviceClassName=GPU), request("nic", deviceClassName="dra.net"))
    yield objects.claim_template("nic", *both, constraints=ROOT)


NAMES = [each["metadata"]["name"] for each in templates()]


def random_pod(random, name, **members):
    labels = {"app": random.choice("ab")}
    if random.random() < 0.2:
        members["nodeSelector"] = {"kubernetes.io/arch": "amd64"}
    if random.random() < 0.1:
        anti = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "a"}}}
        members["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [anti]}}
    if random.random() < 0.3:
        members["tolerations"] = [{"key": "k", "operator": "Exists"}]
    requests = {"cpu": str(random.choice((1, 2, 8)))}
    what = random.random()
    if what < 0.12:
        limits = {"nvidia.com/gpu": str(random.choice((1, 1, 2)))}
        return objects.pod(name, requests={**requests, **limits}, limits=limits, labels=labels, **members)
    if what < 0.16:
        return objects.pod(name, claims={"gpu": "common"}, requests=requests, labels=labels, **members)
    if what < 0.2:
        return objects.pod(name, requests=requests, labels=labels, **members)
    return objects.pod(name, templates={"gpu": random.choice(NAMES)}, requests=requests, labels=labels, **members)


def labelled(document, label, value):
    metadata = document["metadata"]
    return {**document, "metadata": {**metadata, "labels": {**(metadata.get("labels") or {}), label: value}}}


def kueue(random):
    named = "kueue.x-k8s.io/v1beta2"
    yield {"apiVersion": named, "kind": "ResourceFlavor", "metadata": {"name": "any"}, "spec": {}}
    notes = {"dray.dev/uncovered-device-classes": "allow"}
    preemption = random.choice(
        ({}, {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"}, {"reclaimWithinCohort": "Any"})
    )
    for name in ("team", "other"):
        quotas = [
            {"name": f"deviceclass.resource.kubernetes.io/{GPU}", "nominalQuota": str(random.randint(1, 5))},
            {"name": "cpu", "nominalQuota": str(random.choice((4, 16, 64)))},
        ]
        group = {
            "coveredResources": [each["name"] for each in quotas],
            "flavors": [{"name": "any", "resources": quotas}],
        }
        spec = {"cohortName": "org", "namespaceSelector": {}, "resourceGroups": [group], "preemption": preemption}
        metadata = {"name": name, "annotations": notes}
        yield {"apiVersion": named, "kind": "ClusterQueue", "metadata": metadata, "spec": spec}
        metadata = {"name": name, "namespace": "default"}
        yield {"apiVersion": named, "kind": "LocalQueue", "metadata": metadata, "spec": {"clusterQueue": name}}


def in_queue(random, queued, document):
    return labelled(document, QUEUE, random.choice(("team", "team", "other"))) if queued else document


def random_workloads(random, prefix, queued, number):
    """Pods, gangs, Jobs and Deployments of one priority."""
    members = random.choice(({}, {}, {"priorityClassName": "high"}))
    for at in range(number):
        name, kind = f"{prefix}{at}", random.choice(("Pod", "Pod", "Pod", "Deployment", "Job", "gang"))
        made = random_pod(random, name, **members)
        replicas = random.randint(2, 3)
        if kind == "Deployment":
            made = objects.deployment(name, made, replicas=replicas)
            made["spec"]["template"]["metadata"]["labels"] = {"name": name}
            made["spec"]["selector"] = {"matchLabels": {"name": name}}
            yield made
        elif kind == "Job":
            made = objects.job(name, made, completions=replicas, parallelism=replicas)
            made["spec"]["template"]["spec"]["restartPolicy"] = "Never"
            yield in_queue(random, queued, made)
        elif kind == "gang":
            yield objects.pod_group(name, minCount=replicas)
            member = in_queue(random, queued, random_pod(random, name, **members))
            for index in range(replicas):
                metadata = {**member["metadata"], "name": f"{name}-{index}"}
                spec = {**member["spec"], "schedulingGroup": {"podGroupName": name}}
                yield {**member, "metadata": metadata, "spec": spec}
        else:
            yield in_queue(random, queued, made)


async def found_in(cluster):
    """The node and the devices of every pod, by the prefix of its name: the rest may be random letters."""
    claims = {each["metadata"]["name"]: each for each in await cluster.list("ResourceClaim")}
    found = []
    for pod in await cluster.list("Pod"):
        status = pod["status"]
        names = [name for _, name in claims_used(pod)]
        if extended := status.get("extendedResourceClaimStatus"):
            names.append(extended["resourceClaimName"])
        allocations = [(claims[name].get("status") or {}).get("allocation") for name in names]
        results = [each for made in allocations if made for each in made["devices"]["results"]]
        prefix = pod["metadata"]["name"].split("-")[0]
        found.append((prefix, pod["spec"].get("nodeName", ""), sorted(map(device, results))))
    return sorted(found)


def device(result):
    return f"{result['pool']}/{result['device']} {result.get('consumedCapacity', '')}"


def said_by(placed):
    results = sorted(device(result) for _, result in placed.devices)
    return placed.key[1].split("-")[0], placed.node, results


async def random_cluster(random, cluster, queued):
    """Fills a cluster with queues, workloads that run or wait, and taints."""
    await cluster.create(objects.priority_class("high", 5), *templates(), *definitions())
    await cluster.create(objects.claim("common", objects.request(deviceClassName=GPU)))
    for each in kueue(random) if queued else ():
        await cluster.client.create(KUEUE[each["kind"]], each, namespace=each["metadata"].get("namespace", ""))
    await at_rest(cluster)
    await cluster.create(*random_workloads(random, "old", queued, random.randint(0, 4)))
    await at_rest(cluster)
    for node in await cluster.list("Node"):
        if random.random() < 0.15:
            await cluster.patch("Node", node["metadata"]["name"], {"spec": {"taints": [objects.taint("k")]}})
    await at_rest(cluster)


@pytest.mark.parametrize("seed", range(FIRST, FIRST + COUNT))
async def test_a_cluster_does_what_the_plan_said(seed, virtual_time):
    random = Random(seed)
    fleet = ",".join(sorted(set(random.choices(FLEETS, k=random.randint(2, 4)))))
    queued, policy = random.random() < 0.3, random.choice(("kubernetes", "kubernetes", "pack", "spread"))
    async with Rehearsal(fleet, seed=seed, policy=policy).going() as cluster:
        await random_cluster(random, cluster, queued)
        before = await found_in(cluster)
        new = list(random_workloads(random, "new", queued, random.randint(1, 4)))
        base = await cluster_base(Live(cluster.client, "default", lambda: virtual_time.now().timestamp()))
        answer = plan_reading(read_given(new), base, Question(seconds=0, policy=policy))
        for each in new:
            # Pods that controllers make come a moment later than pods of the files.
            await cluster.create(each)
            await at_rest(cluster)
        after = await found_in(cluster)
    played = answer.plan.played
    assert not played.problems
    predicted = sorted(map(said_by, played.pods))
    actual = [each for each in after if each[0].startswith("new")]
    if len({each.preemptor for each in played.evicted}) > 1:
        # A cluster may choose other victims of the same rank, because the first ones still end.
        assert [name for name, node, _ in predicted if node] == [name for name, node, _ in actual if node], answer.text
        return
    assert predicted == actual, answer.text
    if not played.evicted and not played.started:
        assert before == [each for each in after if each[0].startswith("old")], answer.text
