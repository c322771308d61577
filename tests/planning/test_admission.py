"""A plan treats pods and groups as the API server does that admits them: priorities, unknown classes and namespaces."""

from dray.answers.cluster import Cluster
from dray.answers.manifests.given import read_given
from dray.answers.plan import Question, cluster_base, plan, plan_reading
from dray.testing import objects
from tests.fleet.rehearsal import Rehearsal
from tests.planning.test_prediction import at_rest, gpu_template
from tests.planning.test_workloads import Live

FLEET = "a3-highgpu-1g=1"
HIGH = objects.priority_class("high", 5)


def pod(name="p", **members):
    return objects.pod(name, requests={"cpu": "1"}, **members)


async def planned(cluster, virtual_time, *manifests):
    base = await cluster_base(Live(cluster.client, "default", lambda: virtual_time.now().timestamp()))
    return plan_reading(read_given(manifests), base, Question(seconds=0))


async def test_a_group_without_a_class_has_not_the_priority_of_its_pods(virtual_time):
    members = {"schedulingGroup": {"podGroupName": "g"}, "priorityClassName": "high"}
    group, named = (objects.pod_group("g", minCount=2, **more) for more in ({}, {"priorityClassName": "high"}))
    pods = [pod(name, **members) for name in "pq"]
    async with Rehearsal(FLEET).going() as cluster:
        await cluster.create(HIGH)
        refused = await planned(cluster, virtual_time, group, *pods)
        assert (
            refused.pods[0].reason
            == "all pods in a single pod group should have the same priority (PodGroup default/g)"
        )
        fits = await planned(cluster, virtual_time, named, *pods)
        assert fits.fits
        await cluster.create(group, *pods)
        await at_rest(cluster)
        [condition] = (await cluster.get("Pod", "p"))["status"]["conditions"]
        assert condition["message"] == refused.pods[0].reason


async def test_a_pod_with_an_unknown_class_would_be_refused(virtual_time):
    async with Rehearsal(FLEET).going() as cluster:
        answer = await planned(cluster, virtual_time, pod(priorityClassName="hihg"), HIGH)
        assert answer.pods[0].reason == "PriorityClass hihg not found; did you mean high?"
        assert (await planned(cluster, virtual_time, pod(priorityClassName="high"), HIGH)).fits
        assert (await planned(cluster, virtual_time, pod(priorityClassName="system-node-critical"))).fits


def test_without_a_list_of_classes_a_note_names_unknown_classes():
    answer = plan([pod(priorityClassName="high")], Cluster.from_fleet(FLEET), seconds=0)
    assert answer.fits
    assert "note: PriorityClass high not found: pods of this class have priority 0 here" in answer.text


async def test_a_pod_in_an_unknown_namespace_would_be_refused(virtual_time):
    async with Rehearsal(FLEET).going() as cluster:
        elsewhere = {**pod(), "metadata": {"name": "p", "namespace": "defualt"}}
        answer = await planned(cluster, virtual_time, elsewhere)
        assert answer.pods[0].reason.startswith("namespace defualt not found; did you mean default?")
        assert (await planned(cluster, virtual_time, elsewhere, objects.namespace("defualt"))).fits


def test_a_group_of_kai_has_the_priority_of_a_class_of_the_files():
    group = {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "g"},
        "spec": {"minMember": 1, "priorityClassName": "high", "queue": "q"},
    }
    held = pod("held", annotations={"pod-group-name": "g"}, templates={"gpu": "t"})
    other = pod("other", templates={"gpu": "t"})
    answer = plan([HIGH, gpu_template("t", 1), other, group, held], Cluster.from_fleet(FLEET), seconds=0)
    assert {each.name: bool(each.node) for each in answer.pods} == {"other": False, "held": True}
