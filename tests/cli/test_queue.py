"""`dray queue` of what a server has. There is no scheduler: pods stay as they are put."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from click.testing import Result

from dray.client.foreign_kinds import definitions
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
        shown = run("queue", *where).output.splitlines()
        assert [line.split() for line in shown] == [
            ["QUEUE", "FLAVOR", "RESOURCE", "QUOTA", "LIMIT", "USED", "SHARE", "LEFT", "WAITING"],
            ["cohort", "org", "any", "cpu", "0", "-", "1", "0", "0.5", "1"],
            ["└─", "team", "any", "cpu", "1.5", "-", "1", "0", "0.5", "1"],
        ]
        assert run("queue", "team", *where).output.splitlines()[-1] == "next: pod default/waiting: not tried yet"
        missing = run("queue", "other", *where)
        assert (missing.exit_code, missing.output) == (1, "error: queue other not found; there are: org, team\n")
        (top,) = json.loads(run("queue", "org", "-o", "json", *where).output)["queues"]
        (team,) = top["children"]
        assert (top["kind"], team["waiting"]) == ("Cohort", [{"namespace": "default", "name": "waiting", "group": ""}])
        assert (team["resources"][0]["quota"], team["resources"][0]["left"]) == (1500, 500)


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
        assert shown[1][:4] == ["dept", "gpu", "4", "6"]
        assert ["└─", "lab", "gpu", "2", "-", "0", "0", "6", "2"] in shown
        assert ["cpu", "4", "8", "0", "2", "8"] in shown
        last = run("queue", "lab", *where).output.splitlines()[-1]
        assert last == "next: group default/gang (2 pods): not tried yet"
