"""A snapshot of a Job and its pods, from which everything else is decided.

Pods that ended count from when they are seen, whether the status says so yet or not: those of the status, those it
lists as uncounted, and those that still carry the tracking finalizer and are in neither.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from dray.api.objects import Object, is_deleting, mapping, status_of, uid_of
from dray.api.pods import is_active, is_ready, is_terminal, phase_of
from dray.controllers.jobs import pods as pod_facts
from dray.controllers.jobs import policies
from dray.controllers.jobs.indexes import Indexes
from dray.controllers.jobs.spec import JobSpec


@dataclass(frozen=True)
class JobView:
    job: Object
    spec: JobSpec
    pods: tuple[Object, ...]

    @classmethod
    def of(cls, job: Object, pods: Iterable[Object]) -> JobView:
        return cls(job, JobSpec.of(job), tuple(pods))

    @property
    def status(self) -> Object:
        return status_of(self.job)

    @property
    def is_leaving(self) -> bool:
        return is_deleting(self.job)

    @cached_property
    def active(self) -> list[Object]:
        return [pod for pod in self.pods if is_active(pod)]

    @cached_property
    def ready(self) -> int:
        return sum(map(is_ready, self.active))

    @cached_property
    def terminating(self) -> list[Object]:
        return [pod for pod in self.pods if is_deleting(pod) and not is_terminal(pod)]

    @cached_property
    def tracked(self) -> list[Object]:
        return [pod for pod in self.pods if pod_facts.is_tracked(pod)]

    def has_failed(self, pod: Object) -> bool:
        """Returns True for failed pods, and for terminating ones unless the Job waits for their end."""
        phase = phase_of(pod)
        if phase == "Failed":
            return True
        return not self.spec.replaces_ended_only and is_deleting(pod) and phase != "Succeeded"

    def has_place(self, pod: Object) -> bool:
        """Whether the pod counts at all: that of an Indexed Job needs one of its indexes."""
        if not self.spec.indexed:
            return True
        index = pod_facts.completion_index(pod)
        return index is not None and index < (self.spec.completions or 0)

    def fulfils(self, pod: Object) -> bool:
        """Whether the pod's success counts: not for an index that was given up before."""
        index = pod_facts.completion_index(pod)
        return self.has_place(pod) and (index is None or index not in self._given_up)

    @cached_property
    def _given_up(self) -> Indexes:
        if self.spec.backoff_limit_per_index is None:
            return Indexes()
        return Indexes.parse(self.status.get("failedIndexes") or "", below=self.spec.completions)

    @cached_property
    def uncounted_succeeded(self) -> list[str]:
        return list(mapping(self.status.get("uncountedTerminatedPods")).get("succeeded") or ())

    @cached_property
    def uncounted_failed(self) -> list[str]:
        return list(mapping(self.status.get("uncountedTerminatedPods")).get("failed") or ())

    @cached_property
    def newly_succeeded(self) -> list[Object]:
        known = {*self.uncounted_succeeded, *self.uncounted_failed}
        return [
            pod
            for pod in self.tracked
            if phase_of(pod) == "Succeeded" and uid_of(pod) not in known and self.fulfils(pod)
        ]

    @cached_property
    def newly_failed(self) -> list[Object]:
        known = set(self.uncounted_failed)
        return [
            pod for pod in self.tracked if self.has_failed(pod) and uid_of(pod) not in known and self.has_place(pod)
        ]

    @cached_property
    def succeeded_indexes(self) -> Indexes:
        counted = Indexes.parse(self.status.get("completedIndexes") or "", below=self.spec.completions)
        return counted | Indexes.of(pod_facts.completion_index(pod) or 0 for pod in self.newly_succeeded)

    @cached_property
    def failed_indexes(self) -> Indexes:
        """Indexes that are given up, and have not succeeded; empty where the Job has no limit for each."""
        if self.spec.backoff_limit_per_index is None:
            return Indexes()
        lost = [pod for pod in self.tracked if self.has_place(pod) and self._gives_up(pod)]
        indexes = (pod_facts.completion_index(pod) or 0 for pod in lost)
        return self._given_up | Indexes.of(index for index in indexes if index not in self.succeeded_indexes)

    def _gives_up(self, pod: Object) -> bool:
        if not self.has_failed(pod):
            return False
        matched = policies.match(self.spec, pod)
        if matched is not None and matched.action == "FailIndex":
            return True
        if not policies.counts(self.spec, pod):
            return False
        return pod_facts.failure_count(pod) >= (self.spec.backoff_limit_per_index or 0)

    @cached_property
    def succeeded(self) -> int:
        if self.spec.indexed:
            return self.succeeded_indexes.total
        return int(self.status.get("succeeded") or 0) + len(self.uncounted_succeeded) + len(self.newly_succeeded)

    @cached_property
    def failed(self) -> int:
        new = sum(policies.counts(self.spec, pod) for pod in self.newly_failed)
        return int(self.status.get("failed") or 0) + len(self.uncounted_failed) + new

    @cached_property
    def retained(self) -> dict[int, Object]:
        """Returns, by index, the failed pods that wait for their replacement.

        Such a pod keeps its finalizer: the replacement continues its failure count, which is stored nowhere else.
        """
        if self.spec.backoff_limit_per_index is None:
            return {}
        latest: dict[int, Object] = {}
        for pod in self.tracked:
            index = pod_facts.completion_index(pod)
            if index is None or not self.has_place(pod):
                continue
            if index not in latest or _generation(pod) > _generation(latest[index]):
                latest[index] = pod
        done = (self.succeeded_indexes, self.failed_indexes)
        return {
            index: pod
            for index, pod in latest.items()
            if self.has_failed(pod) and not any(index in indexes for indexes in done)
        }


def _generation(pod: Object) -> tuple[int, bool, str]:
    """Sort key: the later pod of an index is greater."""
    attempts = pod_facts.failure_count(pod) + pod_facts.ignored_failure_count(pod)
    return attempts, is_active(pod), str(pod["metadata"].get("creationTimestamp") or "")
