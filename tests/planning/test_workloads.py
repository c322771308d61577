"""Workloads: a plan has the pods that controllers then make, keep and delete, on the same nodes and devices."""

from dataclasses import dataclass
from typing import Any

import pytest
import yaml

from dray.answers.errors import InvalidInput
from dray.answers.manifests.given import read_given
from dray.answers.plan import Question, cluster_base, plan_reading
from dray.client.errors import AlreadyExists
from dray.testing.cluster import in_place, kind_of
from tests.fleet.rehearsal import Rehearsal
from tests.planning.test_prediction import at_rest

FLEET = "p5.48xlarge=2"
TEMPLATES = "".join(
    f"""
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {{name: g{count}}}
spec: {{spec: {{devices: {{requests: [{{name: gpu, exactly: {{deviceClassName: gpu.nvidia.com, count: {count}}}}}]}}}}}}
---"""
    for count in (2, 4, 8)
)
POD_SPEC = """
      containers: [{name: m, image: x, resources: {requests: {cpu: "1"}, claims: [{name: g}]}}]
      resourceClaims: [{name: g, resourceClaimTemplateName: g%d}]
"""
SPREAD = """      affinity:
        podAntiAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
          - {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {job-name: j}}}
"""


def pod(name, gpus, more=""):
    return f"\napiVersion: v1\nkind: Pod\nmetadata: {{{name}}}\nspec:{POD_SPEC % gpus}{more}---"


def workload(kind, name, spec, gpus, more=""):
    return f"""
apiVersion: apps/v1
kind: {kind}
metadata: {{name: {name}}}
spec:
  {spec}
  selector: {{matchLabels: {{a: b}}}}
  template:
    metadata: {{labels: {{a: b}}}}
    spec:{POD_SPEC % gpus}{more}---"""


def job(spec, gpus, more=""):
    template = f"  template:\n    spec:\n      restartPolicy: Never{POD_SPEC % gpus}{more}"
    return f"\napiVersion: batch/v1\nkind: Job\nmetadata: {{name: j}}\nspec:\n  {spec}\n{template}---"


@dataclass
class Live:
    client: Any
    namespace: str
    now: Any


def documents(text):
    return [each for each in yaml.safe_load_all(text) if each]


async def planned(cluster, text, virtual_time):
    base = await cluster_base(Live(cluster.client, "default", lambda: virtual_time.now().timestamp()))
    return plan_reading(read_given(text), base, Question(seconds=0))


async def applied(cluster, text):
    for document in documents(text):
        try:
            await cluster.create(document)
        except AlreadyExists:
            if document["kind"] == "Pod":
                continue
            kind = kind_of(document["kind"], document["apiVersion"])
            name = document["metadata"]["name"]
            await cluster.client.patch(kind, name, {"spec": in_place(document, kind)["spec"]}, namespace="default")
    await at_rest(cluster)


async def actual(cluster):
    """The node and the devices of every pod."""
    claims = {each["metadata"]["name"]: each for each in await cluster.list("ResourceClaim")}
    found = []
    for each in await cluster.list("Pod"):
        names = [entry["resourceClaimName"] for entry in each["status"].get("resourceClaimStatuses") or ()]
        allocations = [(claims[name].get("status") or {}).get("allocation") for name in names]
        results = [result for made in allocations if made for result in made["devices"]["results"]]
        found.append((each["spec"].get("nodeName", ""), [result["device"] for result in results]))
    return sorted(found)


def predicted(answer):
    return sorted((each.node, [result["device"] for _, result in each.devices]) for each in answer.pods)


NEW = {
    "deployment": workload("Deployment", "web", "replicas: 3", 4),
    "indexed job with more parallelism than completions": job(
        "completions: 3\n  parallelism: 5\n  completionMode: Indexed", 4
    ),
    "job whose pods repel each other by the label of the job": job("completions: 3\n  parallelism: 3", 2, SPREAD),
    "stateful set": workload("StatefulSet", "db", "serviceName: db\n  replicas: 3", 4),
    "daemon set": workload("DaemonSet", "d", "", 4),
    "daemon set beside a pod": pod("name: old", 8) + workload("DaemonSet", "d", "", 4),
    "generated names": pod("generateName: a-", 4) + pod("generateName: a-", 4),
}


@pytest.mark.parametrize("text", NEW.values(), ids=NEW)
async def test_pods_of_new_workloads(text, virtual_time):
    async with Rehearsal(FLEET).going() as cluster:
        await applied(cluster, TEMPLATES)
        answer = await planned(cluster, text, virtual_time)
        await applied(cluster, text)
        assert predicted(answer) == await actual(cluster)


KNOWN = {
    "deployment as it is": (
        workload("Deployment", "web", "replicas: 2", 4),
        workload("Deployment", "web", "replicas: 2", 4),
    ),
    "larger deployment": (
        workload("Deployment", "web", "replicas: 2", 4),
        workload("Deployment", "web", "replicas: 4", 4),
    ),
    "smaller deployment": (
        workload("Deployment", "web", "replicas: 3", 4),
        workload("Deployment", "web", "replicas: 1", 4),
    ),
    "deployment with another template": (
        workload("Deployment", "web", "replicas: 2", 4),
        workload("Deployment", "web", "replicas: 2", 2),
    ),
    "job as it is": (job("completions: 3\n  parallelism: 3", 4), job("completions: 3\n  parallelism: 3", 4)),
    "larger stateful set": (
        workload("StatefulSet", "db", "serviceName: db\n  replicas: 2", 4),
        workload("StatefulSet", "db", "serviceName: db\n  replicas: 3", 4),
    ),
    "daemon set as it is": (workload("DaemonSet", "d", "", 4), workload("DaemonSet", "d", "", 4) + pod("name: p", 4)),
    "pod as it is": (pod("name: p", 4), pod("name: p", 4) + pod("name: q", 4)),
}


@pytest.mark.parametrize(("before", "after"), KNOWN.values(), ids=KNOWN)
async def test_workloads_that_are_in_the_cluster_keep_their_pods(before, after, virtual_time):
    async with Rehearsal(FLEET).going() as cluster:
        await applied(cluster, TEMPLATES + before)
        names = {each["metadata"]["name"] for each in await cluster.list("Pod")}
        answer = await planned(cluster, after, virtual_time)
        assert answer.fits
        await applied(cluster, after)
        assert predicted(answer) == await actual(cluster)
        left = names - {each["metadata"]["name"] for each in await cluster.list("Pod")}
        assert {each.key[1] for each in answer.plan.played.deleted} == left


async def test_a_rollout_without_room_for_its_first_pod_is_stuck(virtual_time):
    async with Rehearsal(FLEET).going() as cluster:
        await applied(cluster, TEMPLATES + workload("Deployment", "web", "replicas: 2", 8))
        after = workload("Deployment", "web", "replicas: 2", 4)
        answer = await planned(cluster, after, virtual_time)
        assert [each.node for each in answer.pods] == ["", ""]
        assert answer.pods[1].reason == "not rolled out: pods before it wait"
        assert answer.plan.played.deleted == ()
        await applied(cluster, after)
        assert [node for node, _ in await actual(cluster)].count("") == 1
        free = after.replace("replicas: 2", "replicas: 2\n  strategy: {type: Recreate}")
        replaced = await planned(cluster, free, virtual_time)
        assert replaced.fits
        assert "replaced, since Deployment default/web has another template" in replaced.text
        assert len(replaced.document["deletions"]) == 2


async def test_pods_of_a_stateful_set_are_made_before_others_are_replaced(virtual_time):
    async with Rehearsal("p5.48xlarge=1").going() as cluster:
        await applied(cluster, TEMPLATES + workload("StatefulSet", "db", "serviceName: db\n  replicas: 2", 4))
        after = workload("StatefulSet", "db", "serviceName: db\n  replicas: 3", 2)
        answer = await planned(cluster, after, virtual_time)
        assert not answer.fits
        await applied(cluster, after)
        assert sorted(len(devices) for _, devices in await actual(cluster)) == [0, 4, 4]
        smaller = await planned(cluster, after.replace("replicas: 3", "replicas: 2"), virtual_time)
        assert smaller.fits
        assert [each.key[1] for each in smaller.plan.played.deleted] == ["db-2", "db-1", "db-0"]


async def test_suspended_and_finished_jobs_are_noted(virtual_time):
    async with Rehearsal(FLEET).going() as cluster:
        await applied(cluster, TEMPLATES)
        answer = await planned(cluster, job("suspend: true\n  completions: 1", 4), virtual_time)
        assert answer.fits
        assert "note: Job default/j is suspended; it is planned as if it ran" in answer.text
        await applied(cluster, job("suspend: true\n  completions: 1", 4))
        status = {"conditions": [{"type": "Complete", "status": "True"}], "succeeded": 1}
        known = {**(await cluster.get("Job", "j")), "status": status}
        base = await cluster_base(Live(cluster.client, "default", lambda: virtual_time.now().timestamp()))
        base.objects["Job"] = [known]
        again = plan_reading(read_given(job("completions: 1", 4)), base, Question(seconds=0))
        assert not again.pods
        assert "note: Job default/j has ended in the cluster" in again.text


async def test_what_cannot_be_planned_is_refused_or_noted(virtual_time):
    async with Rehearsal(FLEET).going() as cluster:
        await applied(cluster, TEMPLATES)

        async def refused(text):
            with pytest.raises(InvalidInput) as raised:
                await planned(cluster, text, virtual_time)
            return "\n".join(raised.value.problems)

        assert "nothing to plan" in await refused("\n")
        assert "there is another one of this name in <text>:2" in await refused(pod("name: p", 4) + pod("name: p", 4))
        assert "`selector` does not match template `labels`" in await refused(
            workload("Deployment", "web", "replicas: 1", 4).replace("matchLabels: {a: b}", "matchLabels: {a: c}", 1)
        )
        assert "10,001 pods are more than a plan can place" in await refused(
            workload("Deployment", "web", "replicas: 10001", 4)
        )
        sets = pod("name: p", 4).replace(
            "apiVersion: v1\nkind: Pod", "apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet"
        )
        assert "JobSet p: dray does not know which pods it makes" in await refused(sets)
        both = await planned(cluster, sets + pod("name: q", 4), virtual_time)
        assert "note: JobSet p: dray does not know which pods it makes; they are not planned" in both.text
        bound = await planned(cluster, pod("name: p", 4, "      nodeName: p5-48xlarge-1\n"), virtual_time)
        assert "spec.nodeName bypasses the scheduler" in bound.pods[0].reason


async def test_rules_that_evict_pods_are_noted(virtual_time):
    rule = """
apiVersion: resource.k8s.io/v1beta2
kind: DeviceTaintRule
metadata: {name: sick}
spec: {deviceSelector: {driver: gpu.nvidia.com, pool: p5-48xlarge-0}, taint: {key: sick, effect: NoExecute}}
---"""
    async with Rehearsal(FLEET).going() as cluster:
        await applied(cluster, TEMPLATES)
        answer = await planned(cluster, rule + pod("name: p", 8), virtual_time)
        assert answer.pods[0].node == "p5-48xlarge-1"
        assert "note: DeviceTaintRule sick: pods that a NoExecute taint evicts stay in the plan" in answer.text
