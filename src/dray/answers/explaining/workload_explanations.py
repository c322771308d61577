"""`dray explain` of a workload (Job, Deployment and so on): what its pods wait for, or why it has none."""

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
"""The kinds, with their versions and the words for them."""
_BETWEEN: Final = {"Deployment": "ReplicaSet", "CronJob": "Job"}
"""Kinds that create their pods through objects of another kind."""


class Workload:
    """A workload, the objects that it creates pods through, and its pods."""

    def __init__(self, kind: str, document: Object, between: Sequence[Object], pods: Sequence[Object]) -> None:
        self.kind, self.document = kind, document
        uid = metadata_of(document).get("uid")
        self.between = [each for each in between if controller_uid(each) == uid]
        owners = {uid, *(metadata_of(each).get("uid") for each in self.between)}
        self.pods = sorted((each for each in pods if controller_uid(each) in owners), key=_is_well)
        """The pods of the workload; pods that wait or failed come first."""

    def idle(self) -> str:
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

    def failure(self) -> str:
        """Returns why the workload was given up, as its conditions say."""
        for each in status_of(self.document).get("conditions") or ():
            failed = each.get("type") == "Failed" and each.get("status") == "True"
            if failed or (each.get("type") == "ReplicaFailure" and each.get("status") == "True"):
                return str(each.get("message") or each.get("reason") or "")
        return ""


async def find_workload(cluster: Source, kind: str, namespace: str, name: str, pods: Sequence[Object]) -> Workload:
    """Raises ApiError if there is no such workload."""
    resource = built_in(WORKLOADS[kind][0], kind)
    document = await cluster.client.get(resource, name, namespace=namespace)
    between: list[Object] = []
    if kind in _BETWEEN:
        through = _BETWEEN[kind]
        listed = await cluster.client.list_all(built_in(WORKLOADS[through][0], through), namespace=namespace)
        between = listed.get("items") or []
    return Workload(kind, document, between, pods)


async def explain_workload(cluster: Source, workload: Workload, explained: Sequence[Explanation]) -> Explanation:
    """`explained` are the first of its pods."""
    namespace, name = key_of(workload.document)
    made = Explanation(workload.kind.lower(), namespace, name, "", good=True)
    if not explained:
        why = workload.idle()
        made.outcome, made.good = why or "has created no pod", bool(why)
        made.conclusion = "" if why else workload.failure() or await _warning(cluster, workload)
        made.remedy = remedies.of_text(made.conclusion)
        return made
    bad = [each for each in explained if not each.good]
    ready = sum(_is_well(pod) for pod in workload.pods)
    made.outcome, made.good = f"{ready} of {len(workload.pods)} pods run or have succeeded", not bad
    if bad:
        made.conclusion = bad[0].headline
    elif failure := workload.failure():
        made.conclusion, made.good = failure, False
    made.trees = list(_trees(bad))
    made.data = lambda: {"pods": [{"name": each.name, "fits": each.good, **each.data()} for each in explained]}
    return made


def _trees(bad: Sequence[Explanation]) -> Iterator[Tree]:
    """Yields a tree for each reason; pods of one gang have the same."""
    alike: dict[tuple[str, ...], list[Explanation]] = {}
    for each in bad:
        reason = (each.outcome, each.conclusion, *(line for tree in each.trees for line in lines(tree)))
        alike.setdefault(reason, []).append(each)
    for first, *others in alike.values():
        yield Tree(first.headline, first.trees)
        if others:
            yield Tree(f"the same: pod {', '.join(each.name for each in others)}")


def _is_well(pod: Object) -> bool:
    """Returns False also for a pod in the phase Running with a container that fails again and again."""
    return phase_of(pod) == "Succeeded" or (phase_of(pod) == "Running" and failure_of(pod) is None)


async def _warning(cluster: Source, workload: Workload) -> str:
    """Returns the last warning about the workload, or about the object through which it creates pods."""
    from dray.answers.explaining.pod_failures import last_warning

    objects = [(workload.document, workload.kind)]
    objects += [(each, _BETWEEN[workload.kind]) for each in workload.between]
    for each, kind in objects:
        if message := await last_warning(cluster, *key_of(each), kind):
            return message
    return ""
