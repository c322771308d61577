"""Pod failure policy and success policy of a Job."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from dray.api.objects import Object, conditions_of, walk
from dray.api.pods import container_statuses, phase_of
from dray.controllers.jobs import pods as pod_facts
from dray.controllers.jobs.indexes import Indexes
from dray.controllers.jobs.spec import JobSpec


@dataclass(frozen=True, slots=True)
class Matched:
    """The rule that a failed pod meets first, and how it was met."""

    action: str
    message: str


def match(spec: JobSpec, pod: Object) -> Matched | None:
    """Returns the first matching rule of the pod failure policy; None if no rule matches or the pod has not failed."""
    if not spec.failure_rules or phase_of(pod) != "Failed":
        return None
    for number, rule in enumerate(spec.failure_rules):
        how = _by_exit_code(rule.get("onExitCodes"), pod) or _by_condition(rule.get("onPodConditions"), pod)
        if how:
            action = str(rule.get("action") or "Count")
            return Matched(action, f"{how} matching {action} rule at index {number}")
    return None


def counts(spec: JobSpec, pod: Object) -> bool:
    """Whether the pod's failure counts towards the limits.

    Where no rule speaks, disruptions do not. In Kubernetes they do: a gang of seven pods that is preempted once has
    then reached the default limit.
    """
    found = match(spec, pod)
    return not pod_facts.is_disrupted(pod) if found is None else found.action != "Ignore"


def failure_of_job(spec: JobSpec, pods: Iterable[Object]) -> str:
    """Returns the message of a policy rule that fails the whole Job; "" if there is none."""
    for pod in pods:
        found = match(spec, pod)
        if found is not None and found.action == "FailJob":
            return found.message
    return ""


def _by_exit_code(requirement: Object | None, pod: Object) -> str:
    if not requirement:
        return ""
    name, values = requirement.get("containerName"), requirement.get("values") or ()
    for status in container_statuses(pod):
        terminated = walk(status, "state", "terminated")
        code = terminated.get("exitCode") or 0
        # A container that succeeded is no reason, whatever the values are.
        if code and name in (None, status.get("name")) and (code in values) == (requirement.get("operator") == "In"):
            return f"Container {status.get('name')} for pod {_place(pod)} failed with exit code {code}"
    return ""


def _by_condition(patterns: list[Object] | None, pod: Object) -> str:
    for condition in conditions_of(pod):
        for pattern in patterns or ():
            wanted = (pattern.get("type"), pattern.get("status") or "True")
            if wanted == (condition.get("type"), condition.get("status")):
                return f"Pod {_place(pod)} has condition {condition.get('type')}"
    return ""


def _place(pod: Object) -> str:
    return f"{pod['metadata'].get('namespace')}/{pod['metadata'].get('name')}"


def success(spec: JobSpec, succeeded: Indexes) -> str:
    """Returns the message for the first success policy rule that is met; "" if none is."""
    for number, rule in enumerate(spec.success_rules):
        if _is_met(rule, spec.completions, succeeded):
            return f"Matched rules at index {number}"
    return ""


def _is_met(rule: Object, completions: int | None, succeeded: Indexes) -> bool:
    count, listed = rule.get("succeededCount"), rule.get("succeededIndexes")
    if listed is None:
        return count is not None and succeeded.total >= count
    wanted = Indexes.parse(listed, below=completions)
    return wanted.common(succeeded) >= (wanted.total if count is None else count)
