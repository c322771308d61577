"""Membership of pods in a Job: those it controls and its selector selects.

A pod that is selected and has no controller is adopted, and tracked from then on. One that is no longer selected is
released, uncounted.
"""

from __future__ import annotations

from dray.api.label_selectors import Matcher, from_object
from dray.api.objects import Key, Object, mapping
from dray.client.api import ApiClient
from dray.client.informer import Informer
from dray.controllers.jobs import conditions
from dray.controllers.jobs import pods as pod_facts
from dray.controllers.jobs.spec import is_managed_here
from dray.controllers.kinds import JOBS, PODS
from dray.controllers.workloads.adoption import Adoption, selecting
from dray.controllers.workloads.own_writes import OwnWrites


class Membership:
    def __init__(self, client: ApiClient, jobs: Informer, pods: Informer, written: OwnWrites) -> None:
        self._jobs = jobs.cache
        self._adoption = Adoption(client, JOBS, PODS, pods, written, finalizer=pod_facts.TRACKING)
        self.controlled = self._adoption.controlled

    def of(self, job: Object) -> list[Object]:
        """Returns the Job's pods at their newest version."""
        return self._adoption.of(job, _selector(job))

    def selecting(self, pod: Object) -> list[Key]:
        """Returns the Jobs that would adopt a pod without a controller."""
        return selecting(self._jobs, pod, lambda job: _selector(job) if _takes_pods_in(job) else None)

    async def settle(self, job: Object) -> None:
        """Adopts and releases pods."""
        if _takes_pods_in(job):
            await self._adoption.settle(job, _selector(job))


def _takes_pods_in(job: Object) -> bool:
    if job["spec"].get("selector") is None or job["metadata"].get("deletionTimestamp"):
        return False
    return is_managed_here(job) and conditions.end(job) is None


def _selector(job: Object) -> Matcher:
    """Returns the matcher of the Job's selector."""
    return from_object(mapping(job["spec"].get("selector")))
