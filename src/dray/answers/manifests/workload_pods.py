"""The pods of a workload, as its controller makes them, beside those that it has in the cluster already.

A workload that is in the cluster keeps its pods. If it is smaller than before, the pods that its controller would
choose leave; if its template is different, a rollout replaces them. Pods of a Job that ended are not started again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from dray.answers.manifests.same_template import has_template
from dray.api.int_or_percent import scaled
from dray.api.objects import (
    Key,
    Object,
    condition_of,
    controller_of,
    key_of,
    labels_of,
    mapping,
    spec_of,
    status_of,
    uid_of,
)
from dray.api.pods import is_active, node_of, phase_of
from dray.controllers.deployments import rolling
from dray.controllers.deployments.revisions import HASH
from dray.controllers.deployments.template import replica_set
from dray.controllers.jobs import pods as job_pods
from dray.controllers.jobs import template as job_template
from dray.controllers.jobs.spec import JobSpec
from dray.controllers.jobs.view import JobView
from dray.controllers.kinds import REPLICA_SETS, REPLICATION_CONTROLLERS
from dray.controllers.stateful_sets import identity
from dray.controllers.workloads import pod_template
from dray.controllers.workloads.removal import ranked_order
from dray.planning.rollout import Rollout

MOST_PODS: Final = 10_000
"""The largest number of pods of one workload that is planned."""


class TooMany(Exception):
    """A workload has more pods than a plan can place."""


@dataclass(slots=True)
class WorkloadPods:
    pods: list[Object] = field(default_factory=list)
    """The pods that stay, as they are in the cluster, and new ones."""
    leaving: dict[Key, str] = field(default_factory=dict)
    """The pods that the controller deletes, each with the reason."""
    rollouts: list[Rollout] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


class RunningPods:
    """The pods of the cluster by the workload that they belong to."""

    def __init__(self, pods: Sequence[Object]) -> None:
        self._pods = pods
        self._found: dict[tuple[str, str, str], list[Object]] | None = None

    def get(self, key: Key) -> Object | None:
        return next((each for each in self._pods if key_of(each) == key), None)

    def of(self, workload: Object) -> list[Object]:
        """Returns the pods of the workload, those that have ended included."""
        if self._found is None:
            self._found = {}
            for pod in self._pods:
                for owner in _owners(pod):
                    self._found.setdefault((key_of(pod)[0], *owner), []).append(pod)
        return self._found.get((key_of(workload)[0], workload["kind"], key_of(workload)[1]), [])


def _owners(pod: Object) -> Iterator[tuple[str, str]]:
    """Yields the controller of the pod, and the Deployment behind its ReplicaSet, by kind and name."""
    owner = controller_of(pod)
    if owner is None:
        return
    kind, name = str(owner.get("kind")), str(owner.get("name"))
    yield kind, name
    ending = f"-{labels_of(pod).get(HASH)}"
    if kind == REPLICA_SETS.kind and name.endswith(ending):
        yield "Deployment", name.removesuffix(ending)


def workload_pods(workload: Object, running: RunningPods, job: Object | None, now: float) -> WorkloadPods:
    """Returns the pods after the workload is applied; `job` is a Job of this name in the cluster. Raises TooMany."""
    known = running.of(workload)
    match workload["kind"]:
        case "Job":
            return _of_job(workload, known, job)
        case "StatefulSet":
            return _of_stateful_set(workload, known)
        case kind:
            made = _replica_maker(workload) if kind == "Deployment" else _plain_maker(workload)
            return _of_replicas(workload, known, made, now)


def title(workload: Object) -> str:
    return f"{workload['kind']} {'/'.join(key_of(workload))}"


def _limited(workload: Object, number: int) -> int:
    if number > MOST_PODS:
        raise TooMany(f"{number:,} pods are more than a plan can place ({MOST_PODS:,})")
    return max(0, number)


def _counted(number: int) -> str:
    return "1 pod" if number == 1 else f"{number} pods"


# Deployments, ReplicaSets and ReplicationControllers

_Maker = Callable[[], Object]


def _replica_maker(deployment: Object) -> _Maker:
    made = replica_set(deployment, {}, 0)
    return lambda: pod_template.pod(made, REPLICA_SETS, made["spec"]["template"])


def _plain_maker(workload: Object) -> _Maker:
    kind = REPLICA_SETS if workload["kind"] == REPLICA_SETS.kind else REPLICATION_CONTROLLERS
    return lambda: pod_template.pod(workload, kind, workload["spec"]["template"])


def _of_replicas(workload: Object, known: Sequence[Object], make: _Maker, now: float) -> WorkloadPods:
    replicas = _limited(workload, rolling.size(workload))
    active = list(filter(is_active, known))
    template = workload["spec"]["template"]
    # A ReplicaSet does not replace pods of an earlier template.
    old = [each for each in active if not has_template(each, template)] if workload["kind"] == "Deployment" else []
    if not old:
        leaving = _surplus(active, len(active) - replicas, now)
        kept = [each for each in active if key_of(each) not in leaving]
        new = _numbered(workload, known, make, replicas - len(kept))
        why = f"{title(workload)} needs {_counted(replicas)}"
        return WorkloadPods([*kept, *new], dict.fromkeys(leaving, why))
    current = [each for each in active if each not in old][:replicas]
    new = _numbered(workload, known, make, replicas - len(current))
    bounds = rolling.Bounds.of(workload)
    # All pods of a Deployment that is not rolled out leave before the first new one starts.
    unavailable = bounds.unavailable if rolling.is_rolling(workload) else replicas
    order = list(_surplus(old, len(old), now))
    rollout = Rollout(
        tuple(order), tuple(map(key_of, new)), len(current), bounds.surge, unavailable, _replaced(workload)
    )
    return WorkloadPods([*current, *new], rollouts=[rollout])


def _replaced(workload: Object) -> str:
    return f"replaced, since {title(workload)} has another template"


def _surplus(pods: Sequence[Object], number: int, now: float) -> list[Key]:
    """Returns the pods that a ReplicaSet would delete first."""
    if number <= 0:
        return []
    neighbours, moment = Counter(map(node_of, pods)), datetime.fromtimestamp(now, UTC)
    order = sorted(pods, key=lambda pod: ranked_order(pod, neighbours[node_of(pod)], moment))
    return [key_of(each) for each in order[:number]]


def _numbered(workload: Object, known: Sequence[Object], make: _Maker, number: int) -> list[Object]:
    """Returns new pods, named after the workload and a number: a controller would choose random letters."""
    namespace, name = key_of(workload)
    taken, found, at = {key_of(each)[1] for each in known}, list[Object](), 0
    while len(found) < number:
        if f"{name}-{at}" not in taken:
            found.append(_named(make(), namespace, f"{name}-{at}"))
        at += 1
    return found


def _named(pod: Object, namespace: str, name: str) -> Object:
    metadata = {
        member: each for member, each in pod["metadata"].items() if member not in ("generateName", "finalizers")
    }
    return {**pod, "metadata": {**metadata, "namespace": namespace, "name": name}}


# StatefulSets


def _of_stateful_set(workload: Object, known: Sequence[Object]) -> WorkloadPods:
    first = mapping(workload["spec"].get("ordinals")).get("start") or 0
    number = _limited(workload, rolling.size(workload))
    wanted = range(first, first + number)
    by_ordinal = {at: pod for pod in known if is_active(pod) and (at := identity.ordinal(workload, pod)) is not None}
    made = WorkloadPods()
    old = _outdated(workload, by_ordinal, wanted)
    for at in wanted:
        made.pods.append(by_ordinal[at] if at in by_ordinal and at not in old else _ordinal_pod(workload, at))
    for at, pod in by_ordinal.items():
        if at not in wanted:
            made.leaving[key_of(pod)] = f"{title(workload)} needs {_counted(number)}"
    if identity.claim_templates(workload):
        made.notes.append(f"volumes of {title(workload)} are left out of the plan: they may be made on any node")
    if old:
        given = mapping(mapping(workload["spec"].get("updateStrategy")).get("rollingUpdate")).get("maxUnavailable")
        unavailable = max(1, scaled(given, number) if given is not None else 1)
        keys = tuple(key_of(by_ordinal[at]) for at in old)
        # Missing pods are created before others are replaced.
        missing = tuple(key_of(pod) for pod in made.pods if not uid_of(pod) and key_of(pod) not in keys)
        kept = number - len(old)
        made.rollouts.append(Rollout(keys, keys, kept, 0, unavailable, _replaced(workload), missing))
    return made


def _outdated(workload: Object, by_ordinal: Mapping[int, Object], wanted: range) -> list[int]:
    """Returns the ordinals whose pods are replaced, the highest first."""
    strategy = mapping(workload["spec"].get("updateStrategy"))
    if strategy.get("type") == "OnDelete":
        return []
    least = mapping(strategy.get("rollingUpdate")).get("partition") or 0
    template = workload["spec"]["template"]
    return [
        at for at in reversed(wanted) if at >= least and at in by_ordinal and not has_template(by_ordinal[at], template)
    ]


def _ordinal_pod(workload: Object, at: int) -> Object:
    pod = identity.pod(workload, at, workload["spec"]["template"], "planned")
    # The volumes of its volume claims are made where the pod goes.
    spec = {**pod["spec"], "volumes": spec_of(workload["spec"]["template"]).get("volumes") or []}
    return {**_named(pod, key_of(workload)[0], pod["metadata"]["name"]), "spec": spec}


# Jobs


def _of_job(workload: Object, known: Sequence[Object], job: Object | None) -> WorkloadPods:
    """Plans the pods that run at the same time; a suspended Job is planned as if it ran."""
    found, spec = WorkloadPods(), JobSpec.of(workload)
    if job is not None and any(condition_of(job, each, "True") for each in ("Complete", "Failed")):
        found.notes.append(f"{title(workload)} has ended in the cluster: its pods are not started again")
        return found
    if spec.suspended:
        found.notes.append(f"{title(workload)} is suspended; it is planned as if it ran")
    succeeded = _succeeded(known, job)
    active = list(filter(is_active, known))
    number = spec.parallelism if spec.completions is None else min(spec.parallelism, spec.completions - succeeded)
    missing = _limited(workload, number) - len(active)
    found.pods = [*active, *_new_job_pods(workload, spec, known, missing)]
    return found


def _succeeded(known: Sequence[Object], job: Object | None) -> int:
    ended = sum(phase_of(pod) == "Succeeded" for pod in known)
    counted = status_of(job).get("succeeded") if job is not None else 0
    return max(ended, counted if isinstance(counted, int) else 0)


def _new_job_pods(workload: Object, spec: JobSpec, known: Sequence[Object], missing: int) -> list[Object]:
    view = JobView(workload, spec, ())
    if not spec.indexed:
        return _numbered(workload, known, lambda: job_template.pod(view, None), missing)
    taken = {job_pods.completion_index(pod) for pod in known if phase_of(pod) != "Failed"}
    indexes = [at for at in range(spec.completions or 0) if at not in taken][: max(0, missing)]
    namespace, name = key_of(workload)
    return [_named(job_template.pod(view, at), namespace, f"{name}-{at}") for at in indexes]
