"""The view of queues: the tree with amounts and loans, who is next and why, and a mark that changes with them."""

from __future__ import annotations

from typing import Any

import pytest

from dray.answers.manifests.cluster_objects import cluster_objects
from dray.answers.manifests.reading import of_text
from dray.client.foreign_kinds import definitions
from dray.snapshot.in_memory import in_memory
from dray.testing import objects
from dray.testing.cluster import LocalCluster
from dray.web.answerer import Asked, answered, encoded
from dray.web.views import queues
from tests.web.test_page import Stage
from tests.web.test_waiting import in_this_process

__all__ = ["in_this_process"]

NOW = 1_900_000_000.0
QUEUE = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {{name: {name}}}
spec:
  cohortName: org
  namespaceSelector: {{}}
  resourceGroups:
  - coveredResources: [cpu]
    flavors: [{{name: any, resources: [{{name: cpu, nominalQuota: 2, borrowingLimit: 1}}]}}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {{name: {name}, namespace: default}}
spec: {{clusterQueue: {name}}}
---
"""
POD = """
apiVersion: v1
kind: Pod
metadata: {{name: {name}, namespace: default, uid: {name}, labels: {{kueue.x-k8s.io/queue-name: team-a}}}}
spec:
  {node}
  containers: [{{name: main, image: x, resources: {{requests: {{cpu: "1"}}}}}}]
status:
  conditions: [{{type: PodScheduled, status: "False", reason: Unschedulable, message: no quota}}]
---
"""
NODE = """
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {allocatable: {cpu: "8", memory: 8Gi, pods: "10"}}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: any}
---
"""


def ask(text: str, kind: str = "", name: str = "") -> Any:
    snapshot = in_memory(cluster_objects(of_text("test", text.encode()), "default", NOW), NOW)
    found = answered(Asked("queues", {"kind": kind, "name": name}, encoded(snapshot)))
    assert not found.problem
    return found.answer


def test_the_tree_has_amounts_loans_and_who_is_next() -> None:
    running = "".join(POD.format(name=f"runs-{number}", node="nodeName: n1") for number in range(3))
    waiting = POD.format(name="waits", node="priority: 0")
    text = NODE + QUEUE.format(name="team-a") + QUEUE.format(name="team-b") + running + waiting
    found = ask(text, "ClusterQueue", "team-a")
    [org] = found["queues"]
    assert (org["kind"], org["name"], org["waiting"], org["running"]) == ("Cohort", "org", 1, 3)
    [a, b] = org["children"]
    [cpu] = a["resources"]
    assert (cpu["text"]["used"], cpu["text"]["quota"], cpu["text"]["borrowed"], cpu["text"]["free"]) == (
        "3",
        "2",
        "1",
        "0",
    )
    assert cpu["lenders"] == [{"queue": "team-b", "amount": "1"}]
    assert b["resources"][0]["text"]["lent"] == "1"
    assert b["next"] is None
    assert a["next"]["title"] == "pod default/waits"
    assert "it may borrow 1 at most" in a["next"]["why"]
    assert [each["title"] for each in found["open"]["waiting"]] == ["pod default/waits"]
    assert sum(each["pods"] for each in found["open"]["running"]) == 3


def test_a_cluster_without_queues_has_an_empty_tree() -> None:
    assert ask(NODE.partition("---")[0]) == {"queues": [], "open": None, "notes": []}


async def test_a_viewer_who_may_not_list_queues_is_not_told_that_there_are_none() -> None:
    async with LocalCluster(objects=definitions()) as cluster:
        made = Stage(cluster, views=[queues.VIEW])
        try:
            for token, is_told in (("ann-token", True), ("admin-token", False)):
                async with (await made.signed_in(token)).stream("/ui/stream/queues") as answer:
                    [(_, found), *_] = await answer.until_event(1)
                    assert found["queues"] is False
                    assert ("clusterqueues" in found["hidden"], bool(found["hidden"])) == (is_told, is_told)
        finally:
            await made.page.close()


@pytest.mark.usefixtures("in_this_process")
async def test_the_mark_changes_with_pods_and_the_tree_is_asked_for() -> None:
    async with LocalCluster() as cluster:
        made = Stage(cluster, views=[queues.VIEW])
        try:
            viewer = await made.signed_in()
            async with viewer.stream("/ui/stream/queues") as answer:
                [(_, first)] = await answer.until_event(1)
                await cluster.create(objects.pod("p"))
                (_, second) = (await answer.until_event(2))[1]
                assert second["mark"] != first["mark"]
            tree = await viewer.send("POST", "/ui/call/queues/tree", {})
            assert (tree.status, tree.json["queues"]) == (200, [])
            assert (await viewer.send("POST", "/ui/call/queues/tree", {"name": 7})).status == 400
        finally:
            await made.page.close()
