"""`dray queue` of what a server has. There is no scheduler: pods stay as they are put."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

from click.testing import Result

from dray.client.foreign_kinds import definitions
from tests.cli.queued import gang, pod, queue
from tests.cli.test_explain_live import Server
from tests.server.process import listening

Dray = Callable[..., Result]

QUEUES = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: any}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: team}
spec:
  cohortName: org
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: [cpu]
    flavors:
    - name: any
      resources: [{name: cpu, nominalQuota: "1500m"}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: team, namespace: default}
spec: {clusterQueue: team}
---
apiVersion: v1
kind: Pod
metadata: {name: waiting, labels: {kueue.x-k8s.io/queue-name: team}}
spec:
  containers: [{name: main, image: busybox, resources: {requests: {cpu: "1"}}}]
---
apiVersion: v1
kind: Pod
metadata: {name: running, labels: {kueue.x-k8s.io/queue-name: team}}
spec:
  nodeName: n1
  containers: [{name: main, image: busybox, resources: {requests: {cpu: "1"}}}]
"""


def test_queues_with_what_is_used_and_who_waits(run: Dray, tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    where = ("--kubeconfig", str(kubeconfig))
    with listening(kubeconfig=kubeconfig):
        assert "this cluster has no queues" in run("queue", *where).output
        for text in ("\n---\n".join(map(json.dumps, definitions())), QUEUES):
            applied = run("apply", "-f", "-", *where, stdin=text)
            assert applied.exit_code == 0, applied.output
        assert run("queue", *where).output.splitlines() == [
            "QUEUE        CPU               SHARE   WAITING",
            "cohort org   1/1.5, 0.5 left   0       1",
            "└─ team      1/1.5, 0.5 left   0       1",
        ]
        lines = run("queue", "team", *where).output.splitlines()
        assert [re.sub(r"\d+s$", "0s", line) for line in lines] == [
            "QUEUE   CPU               SHARE   WAITING",
            "team    1/1.5, 0.5 left   0       1",
            "",
            "FLAVOR   RESOURCE   QUOTA   USED   FREE   BORROWABLE   LENT",
            "any      cpu        1.5     1      0.5    0            0",
            "",
            "RUNNING               PODS   USES    AGE",
            "pod default/running   1      1 cpu   0s",
            "",
            "next: pod default/waiting: not tried yet",
        ]
        missing = run("queue", "other", *where)
        assert (missing.exit_code, missing.output) == (1, "error: queue other not found; there are: org, team\n")
        (top,) = json.loads(run("queue", "org", "-o", "json", *where).output)["queues"]
        (team,) = top["children"]
        assert (top["kind"], team["waiting"]) == ("Cohort", [{"namespace": "default", "name": "waiting", "group": ""}])
        assert (team["resources"][0]["quota"], team["resources"][0]["left"]) == (1500, 500)
        assert [each["pods"] for each in team["running"]] == [[{"namespace": "default", "name": "running"}]]
        assert team["running"][0]["uses"] == {"cpu": 1000}


def test_a_queue_with_lent_quota_tells_apart_what_is_its_own_and_who_borrowed_it(queue_server: Server) -> None:
    queue_server.apply(queue("nlp", 8, "{reclaimWithinCohort: Any}") + queue("vision", 6))
    queue_server.apply(pod("first", "vision", 5, running=True) + pod("second", "vision", 3, running=True))
    queue_server.apply(gang("train", "nlp", 4, 3))
    tried = {"type": "PodScheduled", "status": "False", "message": "what was true when a scheduler tried the group"}
    for number in range(4):
        queue_server.patch("Pod", f"train-{number}", {"status": {"conditions": [tried]}}, "status")
    assert queue_server.printed("queue") == [
        "QUEUE        CPU                   SHARE   WAITING",
        "cohort org   8/14, 6 left          0       4",
        "├─ nlp       0/8, 6 left, 2 lent   0       4",
        "└─ vision    8/6, 0+6 left         0.143   0",
    ]
    lines = queue_server.printed("queue", "nlp")
    assert lines[3:5] == [
        "FLAVOR   RESOURCE   QUOTA   USED   FREE   BORROWABLE   LENT",
        "any      cpu        8       0      6      0            2",
    ]
    assert lines[6:] == [
        "nlp lends 2 cpu: vision has borrowed 2; its pods evict borrowers to get them back (reclaimWithinCohort: Any)",
        "",
        "next: group default/train (4 pods): needs 12 cpu, 6 left: more than the quota of 8 of ClusterQueue nlp, can"
        " only borrow; vision has borrowed 2 of the 8",
    ]
    lines = queue_server.printed("queue", "vision")
    assert lines[6] == "vision has borrowed 2 cpu: nlp lends 2"
    assert [line.split()[:4] for line in lines[9:]] == [
        ["pod", "default/first", "1", "5"],
        ["pod", "default/second", "1", "3"],
    ]


WIDE = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: research-and-development}
spec:
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: [cpu, memory, deviceclass.resource.kubernetes.io/gpu.nvidia.com, example.com/fpga, pods]
    flavors:
    - name: any
      resources:
      - {name: cpu, nominalQuota: 128}
      - {name: memory, nominalQuota: 512Gi}
      - {name: deviceclass.resource.kubernetes.io/gpu.nvidia.com, nominalQuota: 16}
      - {name: example.com/fpga, nominalQuota: 4}
      - {name: pods, nominalQuota: 1000}
"""


def test_a_queue_with_many_resources_has_one_row_that_is_readable_at_100_columns(queue_server: Server) -> None:
    queue_server.apply(WIDE)
    header, row, hidden = queue_server.printed("queue")
    assert header.split() == ["QUEUE", "GPU.NVIDIA.COM", "EXAMPLE.COM/FPGA", "CPU", "SHARE", "WAITING"]
    assert row.split()[0] == "research-and-development"
    assert max(map(len, (header, row, hidden))) <= 100
    assert hidden == "not shown: memory, pods; dray queue NAME lists all resources"
    resources = [line.split()[1] for line in queue_server.printed("queue", "research-and-development")[5:]]
    assert resources == ["cpu", "gpu.nvidia.com", "example.com/fpga", "memory", "pods"]


def test_groups_of_a_cohort_are_listed_with_their_queue_and_what_they_use(queue_server: Server) -> None:
    queue_server.apply(queue("nlp", 8) + queue("vision", 6))
    queue_server.apply(gang("train", "nlp", 2, 3).replace("\n  priority: 0", "\n  nodeName: n1\n  priority: 0"))
    queue_server.apply(pod("single", "vision", running=True))
    lines = [line.split()[:-1] for line in queue_server.printed("queue", "org")[-3:]]
    assert lines == [
        ["QUEUE", "RUNNING", "PODS", "USES"],
        ["nlp", "group", "default/train", "2", "6", "cpu"],
        ["vision", "pod", "default/single", "1", "1", "cpu"],
    ]


KAI = """
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: dept}
spec: {resources: {gpu: {quota: 4, limit: 6}, cpu: {quota: -1, limit: -1}, memory: {quota: -1, limit: -1}}}
---
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: lab}
spec:
  parentQueue: dept
  resources: {gpu: {quota: 2, limit: -1}, cpu: {quota: 4000, limit: 8000}, memory: {quota: -1, limit: -1}}
---
apiVersion: scheduling.x-k8s.io/v1alpha1
kind: PodGroup
metadata: {name: gang}
spec: {minMember: 2}
"""
KAI_POD = """
---
apiVersion: v1
kind: Pod
metadata: {name: %s, labels: {kai.scheduler/queue: lab, scheduling.x-k8s.io/pod-group: gang}}
spec:
  containers: [{name: main, image: busybox, resources: {requests: {cpu: "1"}}}]
"""


def test_queues_of_kai_with_a_gang_that_waits(run: Dray, tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    where = ("--kubeconfig", str(kubeconfig))
    with listening(kubeconfig=kubeconfig):
        for text in ("\n---\n".join(map(json.dumps, definitions())), KAI + KAI_POD % "w0" + KAI_POD % "w1"):
            applied = run("apply", "-f", "-", *where, stdin=text)
            assert applied.exit_code == 0, applied.output
        shown = [line.split() for line in run("queue", *where).output.splitlines()]
        assert shown[0] == ["QUEUE", "GPU", "CPU", "SHARE", "WAITING"]
        assert shown[1] == ["dept", "0/4,", "4+2", "left", "0", "gpu", "2"]
        assert shown[2] == ["└─", "lab", "0/2,", "2+4", "left", "0/4,", "4+4", "left", "0", "gpu,", "2", "cpu", "2"]
        lines = run("queue", "lab", *where).output.splitlines()
        assert lines[3:6] == [
            "RESOURCE   QUOTA   LIMIT   USED   SHARE   FREE   BORROWABLE",
            "gpu        2       -       0      0       2      4",
            "cpu        4       8       0      2       4      4",
        ]
        assert lines[-1] == "next: group default/gang (2 pods): not tried yet"
