"""`dray explain` of a workload (Job, Deployment and so on): what its pods wait for, or why it has no pods."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from dray.allocation.text import Tree, lines
from dray.answers.explaining import remedies
from dray.answers.explaining.container_states import failure_of
from dray.answers.explaining.explanations import Explanation
from dray.answers.source import Source
from dray.api.catalogue import built_in
from dray.api.objects import Object, controller_uid, key_of, metadata_of, spec_of, status_of
from dray.api.pods import phase_of

WORKLOADS: Final = {
    "Deployment": ("apps/v1", ("deployment", "deployments", "deploy")),
    "ReplicaSet": ("apps/v1", ("replicaset", "replicasets", "rs")),
    "StatefulSet": ("apps/v1", ("statefulset", "statefulsets", "sts")),
    "DaemonSet": ("apps/v1", ("daemonset", "daemonsets", "ds")),
    "Job": ("batch/v1", ("job", "jobs")),
    "CronJob": ("batch/v1", ("cronjob", "cronjobs", "cj")),
}
"""Kinds of workloads, with their API version and the words that users write for them."""
_BETWEEN: Final = {"Deployment": "ReplicaSet", "CronJob": "Job"}
"""Kinds that create their pods through objects of another kind."""


class Workload:
    """A workload, the objects that it creates pods through, and its pods."""

    def __init__(self, kind: str, document: Object, between: Sequence[Object], pods: Sequence[Object]) -> None:
        self.kind, self.document = kind, document
        uid = metadata_of(document).get("uid")
        self.between = [obj for obj in between if controller_uid(obj) == uid]
        owners = {uid, *(metadata_of(obj).get("uid") for obj in self.between)}
        self.pods = sorted((pod for pod in pods if controller_uid(pod) in owners), key=_is_healthy)
        """The pods of the workload; pods that wait or failed come first."""

    def idle_reason(self) -> str:
        """Returns why the workload wants no pods; empty if it wants some."""
        spec, status = spec_of(self.document), status_of(self.document)
        if spec.get("suspend"):
            return "is suspended: set spec.suspend to false to start it"
        if spec.get("replicas") == 0:
            return "has 0 replicas: set spec.replicas to start some"
        if self.kind == "Job" and status.get("completionTime"):
            return "has completed"
        if self.kind == "DaemonSet" and status.get("desiredNumberScheduled") == 0:
            return "fits no node: check spec.template.spec.nodeSelector, and taints of the nodes"
        return ""

    def failure_reason(self) -> str:
        """Returns why the workload failed, from its conditions; empty if it did not fail."""
        for condition in status_of(self.document).get("conditions") or ():
            failed = condition.get("type") == "Failed" and condition.get("status") == "True"
            if failed or (condition.get("type") == "ReplicaFailure" and condition.get("status") == "True"):
                return str(condition.get("message") or condition.get("reason") or "")
        return ""


async def find_workload(cluster: Source, kind: str, namespace: str, name: str, pods: Sequence[Object]) -> Workload:
    """Returns the workload and its pods. Raises ApiError if there is no such workload."""
    resource = built_in(WORKLOADS[kind][0], kind)
    document = await cluster.client.get(resource, name, namespace=namespace)
    between: list[Object] = []
    if kind in _BETWEEN:
        through = _BETWEEN[kind]
        listed = await cluster.client.list_all(built_in(WORKLOADS[through][0], through), namespace=namespace)
        between = listed.get("items") or []
    return Workload(kind, document, between, pods)


async def explain_workload(cluster: Source, workload: Workload, explained: Sequence[Explanation]) -> Explanation:
    """Returns why the workload waits; `explained` are explanations of its first pods."""
    namespace, name = key_of(workload.document)
    made = Explanation(workload.kind.lower(), namespace, name, "", good=True)
    if not explained:
        why = workload.idle_reason()
        made.outcome, made.good = why or "has created no pod", bool(why)
        made.conclusion = "" if why else workload.failure_reason() or await _last_warning(cluster, workload)
        made.remedy = remedies.of_text(made.conclusion)
        return made
    bad = [explanation for explanation in explained if not explanation.good]
    ready = sum(_is_healthy(pod) for pod in workload.pods)
    made.outcome, made.good = f"{ready} of {len(workload.pods)} pods run or have succeeded", not bad
    if bad:
        made.conclusion = bad[0].headline
    elif failure := workload.failure_reason():
        made.conclusion, made.good = failure, False
    made.trees = list(_reason_trees(bad))
    made.data = lambda: {"pods": [{"name": pod.name, "fits": pod.good, **pod.data()} for pod in explained]}
    return made


def _reason_trees(bad: Sequence[Explanation]) -> Iterator[Tree]:
    """Yields a tree for each reason, because pods of one gang have the same reason."""
    alike: dict[tuple[str, ...], list[Explanation]] = {}
    for explanation in bad:
        tree_lines = [line for tree in explanation.trees for line in lines(tree)]
        reason = (explanation.outcome, explanation.conclusion, *tree_lines)
        alike.setdefault(reason, []).append(explanation)
    for first, *others in alike.values():
        yield Tree(first.headline, first.trees)
        if others:
            yield Tree(f"the same: pod {', '.join(explanation.name for explanation in others)}")


def _is_healthy(pod: Object) -> bool:
    """Returns True if the pod succeeded, or runs and no container of it fails."""
    return phase_of(pod) == "Succeeded" or (phase_of(pod) == "Running" and failure_of(pod) is None)


async def _last_warning(cluster: Source, workload: Workload) -> str:
    """Returns the last Warning event about the workload, or about an object through which it creates pods."""
    from dray.answers.explaining.pod_failures import last_warning

    objects = [(workload.document, workload.kind)]
    objects += [(obj, _BETWEEN[workload.kind]) for obj in workload.between]
    for obj, kind in objects:
        if message := await last_warning(cluster, *key_of(obj), kind):
            return message
    return ""
