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
        assert "there are no ClusterQueues" in run("queue", *where).output
        for text in ("\n---\n".join(map(json.dumps, definitions())), QUEUES):
            applied = run("apply", "-f", "-", *where, stdin=text)
            assert applied.exit_code == 0, applied.output
        shown = run("queue", *where).output.splitlines()
        assert [line.split() for line in shown] == [
            ["QUEUE", "COHORT", "FLAVOR", "RESOURCE", "QUOTA", "USED", "LEFT", "WAITING"],
            ["team", "org", "any", "cpu", "1.5", "1", "0.5", "1"],
        ]
        assert run("queue", "team", *where).output.splitlines()[-1] == "pod default/waiting: not tried yet"
        missing = run("queue", "other", *where)
        assert (missing.exit_code, missing.output) == (1, "Error: there is no ClusterQueue other\n")
