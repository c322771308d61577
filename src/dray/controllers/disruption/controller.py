"""The disruption controller: keeps the status of PodDisruptionBudgets current.

How many pods there should be their controllers say: the parallelism of a Job, the scale subresource of others. The pods
of a Deployment are counted for it as a whole, whichever of its ReplicaSets they belong to.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from dray.api.catalogue import built_in, split_api_version
from dray.api.label_selectors import Matcher, from_object, nothing
from dray.api.objects import (
    Key,
    Object,
    conditions_of,
    controller_of,
    is_true,
    labels_of,
    metadata_of,
    spec_of,
    status_of,
    uid_of,
)
from dray.client.api import ApiClient
from dray.client.cache import Cache, Change
from dray.client.discovery import discover
from dray.client.errors import ApiError
from dray.client.interface import GroupVersionResource
from dray.controllers.disruption import budget as budgets
from dray.controllers.environment import Environment, QueueController, named
from dray.controllers.kinds import DEPLOYMENTS, JOBS, PODS, REPLICA_SETS, REPLICATION_CONTROLLERS

# Pods come and go in crowds: a budget waits for this long for more of them, then counts once.
_GATHER: Final = 0.05
_UNMANAGED: Final = (
    "Pods selected by this PodDisruptionBudget (selector: {}) were found to be unmanaged: they are not counted. "
    'To count them, set ".spec.minAvailable" to an integer value.'
)
BUDGETS: Final = built_in("policy/v1", "PodDisruptionBudget")


class UnknownScale(Exception):
    """A pod's controller does not say how many pods it wants."""


class Scales:
    def __init__(self, client: ApiClient, jobs: Cache, replica_sets: Cache) -> None:
        self._client = client
        self._jobs = jobs
        self._replica_sets = replica_sets
        self._plurals: dict[tuple[str, str], str] = {}

    async def expected(self, pods: Iterable[Object]) -> tuple[int, bool]:
        """Returns how many pods the controllers want, and whether some pods have no controller. Raises UnknownScale."""
        controllers: dict[str, tuple[Object, Object]] = {}
        has_unmanaged = False
        for pod in pods:
            reference = self._controller(pod)
            if reference is None:
                has_unmanaged = True
            else:
                controllers.setdefault(reference["uid"], (reference, pod))
        return sum([await self._wanted(*controller) for controller in controllers.values()]), has_unmanaged

    def _controller(self, pod: Object) -> Object | None:
        """Returns the controller that sets the number of pods: a ReplicaSet's Deployment if it has one."""
        reference = controller_of(pod)
        if reference is None or reference.get("kind") != REPLICA_SETS.kind:
            return reference
        found = self._replica_sets.get(reference["name"], namespace=pod["metadata"]["namespace"])
        owner = controller_of(found) if found is not None and uid_of(found) == reference["uid"] else None
        return owner if owner is not None and owner.get("kind") == "Deployment" else reference

    async def _wanted(self, reference: Object, pod: Object) -> int:
        group, version = split_api_version(reference.get("apiVersion") or "")
        namespace = pod["metadata"]["namespace"]
        if (group, reference.get("kind")) == ("batch", "Job"):
            return self._of_job(reference, pod)
        plural = await self._plural(group, reference["kind"])
        if plural is None:
            raise _unknown(pod)
        resource = GroupVersionResource(group, version, plural)
        try:
            scale = await self._client.get(resource, reference["name"], namespace=namespace, subresource="scale")
        except ApiError as error:
            if error.status in (404, 405):
                raise _unknown(pod) from error
            raise
        except ValueError as error:
            # Nothing can have that name or version.
            raise _unknown(pod) from error
        if (owner := metadata_of(scale).get("uid")) and owner != reference["uid"]:
            raise _unknown(pod)
        return int(spec_of(scale).get("replicas") or 0)

    def _of_job(self, reference: Object, pod: Object) -> int:
        job = self._jobs.get(reference["name"], namespace=pod["metadata"]["namespace"])
        if job is None or job["metadata"]["uid"] != reference["uid"]:
            raise _unknown(pod)
        if is_true(job, "Complete") or is_true(job, "Failed"):
            return 0
        parallelism = job["spec"].get("parallelism")
        return 1 if parallelism is None else int(parallelism)

    async def _plural(self, group: str, kind: str) -> str | None:
        """Returns the plural resource name of a kind; None if the server does not serve the kind."""
        if (group, kind) not in self._plurals:
            found = await discover(self._client)
            self._plurals.update({(resource.group, resource.kind): resource.plural for resource in found.preferred})
        return self._plurals.get((group, kind))


def _unknown(pod: Object) -> UnknownScale:
    return UnknownScale(f'found no controllers for pod "{pod["metadata"]["name"]}"')


class DisruptionController(QueueController[Key]):
    def __init__(self, environment: Environment) -> None:
        super().__init__(environment)
        self._budgets = environment.informers.of(BUDGETS)
        self._pods = environment.informers.of(PODS)
        self._jobs = environment.informers.of(JOBS)
        replica_sets = environment.informers.of(REPLICA_SETS)
        self._scales = Scales(environment.client, self._jobs.cache, replica_sets.cache)
        self._matchers: dict[Key, Matcher] = {}
        self._workers = environment.workers("disruption", self._reconcile, called=named("PodDisruptionBudget"), count=4)
        self._budgets.add_handler(self._on_budget)
        self._pods.add_handler(self._on_pod)
        self._jobs.add_handler(self._on_controller)
        for kind in (DEPLOYMENTS, REPLICA_SETS, REPLICATION_CONTROLLERS):
            environment.informers.of(kind).add_handler(self._on_controller)

    # What happened

    def _on_budget(self, change: Change) -> None:
        if change.type == "DELETED":
            self._matchers.pop(change.key, None)
            return
        selector = change.object["spec"].get("selector")
        # No selector selects nothing, an empty one everything.
        self._matchers[change.key] = from_object(selector) if selector is not None else nothing
        self._workers.queue.add(change.key)

    def _on_pod(self, change: Change) -> None:
        if not self._matchers:
            return
        pod, before = change.object, change.previous
        if change.type == "MODIFIED" and before is not None and not _matters(before, pod):
            return
        for budget in self._budgets.cache.in_namespace(change.key[0]):
            key = (change.key[0], budget["metadata"]["name"])
            if self._selects(key, pod) or (before is not None and self._selects(key, before)):
                self._workers.queue.add_after(key, _GATHER)

    def _on_controller(self, change: Change) -> None:
        before = change.previous
        if before is not None and change.type == "MODIFIED" and _wish(before) == _wish(change.object):
            return
        for budget in self._budgets.cache.in_namespace(change.key[0]):
            if budgets.needs_scale(budget):
                self._workers.queue.add_after((change.key[0], budget["metadata"]["name"]), _GATHER)

    def _selects(self, key: Key, pod: Object) -> bool:
        matches = self._matchers.get(key)
        return matches is not None and matches(labels_of(pod))

    # Budgets

    async def _reconcile(self, key: Key) -> float | None:
        budget = self._budgets.cache.get(key[1], namespace=key[0])
        if budget is None or budget["metadata"].get("deletionTimestamp"):
            return None
        pods = [pod for pod in self._pods.cache.in_namespace(key[0]) if self._selects(key, pod)]
        now = self._time.now()
        if not pods:
            self._tell_once(budget, "NoPods", "No matching pods found")
        try:
            expected = await self._expected(budget, pods)
        except UnknownScale as error:
            self._events.warning(
                budget, "CalculateExpectedPodCountFailed", f"Failed to calculate the number of expected pods: {error}"
            )
            await self._write(budget, budgets.failed(budget, str(error), now))
            return None
        found = budgets.disrupted(budget, pods, now)
        for pod in found.overdue:
            message = f"Pod was expected by PDB {key[0]}/{key[1]} to be deleted but it wasn't"
            self._events.warning(pod, "NotDeleted", message)
        await self._write(budget, budgets.status(budget, pods, expected, found.pods, now))
        return (found.until - now).total_seconds() if found.until is not None else None

    async def _expected(self, budget: Object, pods: list[Object]) -> int:
        if not budgets.needs_scale(budget):
            return len(pods)
        expected, has_unmanaged = await self._scales.expected(pods)
        if has_unmanaged:
            self._tell_once(budget, "UnmanagedPods", _UNMANAGED.format(budget["spec"].get("selector")), warn=True)
        return expected

    def _tell_once(self, budget: Object, reason: str, message: str, *, warn: bool = False) -> None:
        """Sends an event only if the budget is new or was changed, so that it does not repeat with every pod."""
        observed = status_of(budget).get("observedGeneration")
        if observed != budget["metadata"].get("generation"):
            (self._events.warning if warn else self._events.normal)(budget, reason, message)

    async def _write(self, budget: Object, status: Object) -> None:
        """Writes at the version the status was computed from: fails if an eviction was granted meanwhile."""
        if budget.get("status") != status:
            await self._client.update_status(BUDGETS, {**budget, "status": status})


def _wish(controller: Object) -> tuple[Any, ...]:
    """Returns the parts of a controller that decide how many pods it wants."""
    spec = controller["spec"]
    if controller.get("kind") != JOBS.kind and "parallelism" not in spec:
        return (spec.get("replicas"),)
    return spec.get("parallelism"), len(conditions_of(controller))


def _matters(before: Object, now: Object) -> bool:
    old, new = before["metadata"], now["metadata"]
    return (
        old.get("labels") != new.get("labels")
        or old.get("deletionTimestamp") != new.get("deletionTimestamp")
        or is_true(before, "Ready") != is_true(now, "Ready")
        or controller_of(before) != controller_of(now)
    )
