"""Manifests of queues of Kueue with quota of cpu, in one cohort, and of pods and gangs in them."""

from __future__ import annotations

FLAVOR = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: any}
---
"""
QUEUE = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: %(name)s}
spec:
  cohortName: org
  namespaceSelector: {}
  preemption: %(preemption)s
  resourceGroups:
  - coveredResources: [cpu]
    flavors:
    - name: any
      resources: [{name: cpu, nominalQuota: %(quota)s}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: %(name)s, namespace: default}
spec: {clusterQueue: %(name)s}
---
"""
POD = """
apiVersion: v1
kind: Pod
metadata: {name: %(name)s, labels: {kueue.x-k8s.io/queue-name: %(queue)s}}
spec:
  %(node)s
  priority: %(priority)d
  %(group)s
  containers: [{name: main, image: busybox, resources: {requests: {cpu: "%(cpu)d"}}}]
---
"""
GROUP = """
apiVersion: scheduling.k8s.io/v1beta1
kind: PodGroup
metadata: {name: %s}
spec: {schedulingPolicy: {gang: {minCount: %d}}}
---
"""


def queue(name: str, quota: int, preemption: str = "{}") -> str:
    return QUEUE % {"name": name, "quota": quota, "preemption": preemption}


def pod(name: str, queue: str, cpu: int = 1, *, running: bool = False, group: str = "") -> str:
    node = "nodeName: n1" if running else ""
    member = f"schedulingGroup: {{podGroupName: {group}}}" if group else ""
    return POD % {"name": name, "queue": queue, "cpu": cpu, "node": node, "group": member, "priority": 0}


def gang(name: str, queue: str, number: int, cpu: int = 1) -> str:
    pods = (pod(f"{name}-{index}", queue, cpu, group=name) for index in range(number))
    return GROUP % (name, number) + "".join(pods)
