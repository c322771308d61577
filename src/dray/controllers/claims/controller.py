"""The ResourceClaim controller: event handlers and the workers that they feed.

Claims are made and released by workers of their own, so that devices are free at once, however many pods come.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

from dray.api.objects import Key, Object, controller_uid, is_deleting, key_of, uid_of
from dray.api.pods import (
    claim_entries,
    claims_used,
    entries_without_claim,
    extended_claim,
    group_name,
    is_done,
    node_of,
)
from dray.api.resource_claims import allocation_of, reserved_for
from dray.client.cache import Change
from dray.client.discovery import serves, until_answered
from dray.controllers.claims.consumers import Consumers
from dray.controllers.claims.generation import BY_OWNER, Generation
from dray.controllers.claims.metrics import Metrics
from dray.controllers.claims.own_writes import Written
from dray.controllers.claims.owners import GROUP, POD, OwnerKind, made_for
from dray.controllers.claims.reservations import Reservations
from dray.controllers.environment import Environment, Workers, named
from dray.controllers.kinds import POD_GROUPS, PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS

OwnerKey = tuple[OwnerKind, str, str]

# Over HTTP every write is a round trip, and there are two for a pod.
_MAKERS: Final = 32
# The scheduler has up to 128 writes under way: with fewer than these, devices come back more slowly than they go.
_RELEASERS: Final = 64

_BY_TEMPLATE: Final = "resourceclaim: template waited for"
_BY_GROUP: Final = "resourceclaim: group"
_BY_USER: Final = "resourceclaim: uid in reservedFor"
_BY_CLAIM: Final = "resourceclaim: claim used on a node"
# A server that is replaced by a newer one may come to have groups.
_LOOK_AGAIN: Final = 600.0


class ClaimController:
    def __init__(self, environment: Environment) -> None:
        client, informers = environment.client, environment.informers
        self._environment = environment
        pods = informers.of(PODS, {_BY_TEMPLATE: _templates_of, _BY_GROUP: _group_of, _BY_CLAIM: _claims_on_node})
        claims = informers.of(RESOURCE_CLAIMS, {BY_OWNER: _owner_of, _BY_USER: _users_of})
        templates = informers.of(RESOURCE_CLAIM_TEMPLATES)
        gates, written = environment.gates, Written()
        self._pods, self._claims = pods.cache, claims.cache
        self._has_groups = gates["GenericWorkload"] or gates["DRAWorkloadResourceClaims"]
        self._consumers = Consumers(client, pods.cache, workload_claims=gates["DRAWorkloadResourceClaims"])
        self._consumers.awaits_groups = self._has_groups
        self._metrics = Metrics(claims.cache)
        self._generation = Generation(
            client, environment.events, claims, templates.cache, self._consumers, written, self._metrics
        )
        self._reservations = Reservations(client, claims.cache, self._consumers, written)
        self._makers: Workers[OwnerKey] = environment.workers(
            "resourceclaim", self._reconcile_owner, called=_called, count=_MAKERS
        )
        self._releasers: Workers[Key] = environment.workers(
            "resourceclaim release", self._reservations.release, called=named("ResourceClaim"), count=_RELEASERS
        )

    async def run(self) -> None:
        # Not before there is somebody to do the work: a standby would collect it without end.
        for resource, handler in (
            (PODS, self._on_pod),
            (RESOURCE_CLAIMS, self._on_claim),
            (RESOURCE_CLAIM_TEMPLATES, self._on_template),
        ):
            self._environment.informers.of(resource).add_handler(handler)
        with self._metrics.in_registry(self._environment.metrics):
            async with asyncio.TaskGroup() as tasks:
                if self._has_groups:
                    tasks.create_task(self._find_groups())
                tasks.create_task(self._makers.run())
                tasks.create_task(self._releasers.run())

    async def _find_groups(self) -> None:
        """Older servers have no groups, or not in this version, and an informer would ask them forever.

        Until there is an answer, pods that belong to a group wait; a refusal is none, and may pass.
        """
        while not await until_answered(lambda: serves(self._environment.client, POD_GROUPS), POD_GROUPS.plural):
            self._do_without_groups()
            await asyncio.sleep(_LOOK_AGAIN)
        groups = self._environment.informers.of(POD_GROUPS, {_BY_TEMPLATE: _templates_of})
        self._consumers.groups = groups.cache
        groups.add_handler(self._on_group)

    def _do_without_groups(self) -> None:
        if self._consumers.awaits_groups:
            self._consumers.awaits_groups = False
            for pod in self._pods:
                if group_name(pod):
                    self._look_at_pod(pod)

    async def _reconcile_owner(self, key: OwnerKey) -> float | None:
        kind, namespace, name = key
        owner = self._consumers.get(kind, namespace, name)
        if owner is None or is_deleting(owner) or (kind is POD and is_done(owner)):
            return None
        again = await self._generation.generate(kind, owner)
        if kind is POD:
            await self._reservations.reserve(owner)
        return again

    def _on_pod(self, change: Change) -> None:
        pod = change.object
        if not (claim_entries(pod) or extended_claim(pod) or self._claims.by(BY_OWNER, uid_of(pod))):
            return
        if change.type == "DELETED":
            self._consumers.deleted(pod)
            self._release_all(pod)
        elif is_done(pod):
            if change.previous is None or not is_done(change.previous):
                self._release_all(pod)
        elif not is_deleting(pod):
            self._look_at_living(pod)

    def _on_claim(self, change: Change) -> None:
        claim, previous = change.object, change.previous
        if change.type == "DELETED":
            self._look_at_owner(previous or claim)
            return
        if self._reservations.is_release_needed(claim):
            self._releasers.queue.add(change.key)
        if allocation_of(claim) is not None:
            for pod in self._pods.by(_BY_CLAIM, "/".join(change.key)):
                self._look_at_pod(pod)
        if previous is None:
            self._look_at_group_of(claim)
        elif controller_uid(previous) != controller_uid(claim):
            self._look_at_owner(previous)

    def _on_template(self, change: Change) -> None:
        if change.type == "DELETED":
            return
        value = "/".join(change.key)
        for pod in self._pods.by(_BY_TEMPLATE, value):
            self._look_at_pod(pod)
        if self._consumers.groups is not None:
            for group in self._consumers.groups.by(_BY_TEMPLATE, value):
                self._look_at_group(group)

    def _on_group(self, change: Change) -> None:
        group = change.object
        if change.type == "DELETED":
            self._consumers.deleted(group)
            self._release_all(group)
            return
        self._look_at_group(group)
        for pod in self._pods.by(_BY_GROUP, "/".join(change.key)):
            self._look_at_pod(pod)

    def _look_at_pod(self, pod: Object) -> None:
        if not (is_deleting(pod) or is_done(pod)):
            self._look_at_living(pod)

    def _look_at_living(self, pod: Object) -> None:
        if self._generation.is_needed(pod) or self._reservations.is_needed(pod):
            self._makers.queue.add((POD, *key_of(pod)))

    def _look_at_group(self, group: Object) -> None:
        if self._consumers.workload_claims and not is_deleting(group) and self._generation.is_needed(group):
            self._makers.queue.add((GROUP, *key_of(group)))

    def _look_at_owner(self, claim: Object) -> None:
        """Queues the owner of a deleted claim, so that the claim is generated again if it is still needed."""
        made = made_for(claim)
        owner = None if made is None else self._consumers.get(made.kind, made.namespace, made.name)
        if made is None or owner is None:
            return
        if made.kind is POD:
            self._look_at_pod(owner)
        else:
            self._look_at_group(owner)

    def _look_at_group_of(self, claim: Object) -> None:
        """Queues the pod's group: the pod may wait for a claim of the group."""
        made = made_for(claim)
        if made is not None and made.kind is GROUP:
            for pod in self._pods.by(_BY_GROUP, f"{made.namespace}/{made.name}"):
                self._look_at_pod(pod)

    def _release_all(self, owner: Object) -> None:
        namespace = owner["metadata"]["namespace"]
        names = {name for _, name in claims_used(owner)} | {extended_claim(owner)}
        for index in (BY_OWNER, _BY_USER):
            names.update(claim["metadata"]["name"] for claim in self._claims.by(index, uid_of(owner)))
        for name in names:
            claim = self._claims.get(name, namespace=namespace)
            if claim is not None and self._reservations.is_release_needed(claim):
                self._releasers.queue.add((namespace, name))


def _owner_of(claim: Object) -> Iterable[str]:
    uid = controller_uid(claim)
    return (uid,) if uid else ()


def _users_of(claim: Object) -> Iterable[str]:
    return [consumer.get("uid", "") for consumer in reserved_for(claim)]


def _templates_of(owner: Object) -> Iterable[str]:
    namespace = owner["metadata"].get("namespace")
    return [f"{namespace}/{entry['resourceClaimTemplateName']}" for entry in entries_without_claim(owner)]


def _group_of(pod: Object) -> Iterable[str]:
    name = group_name(pod)
    return (f"{pod['metadata'].get('namespace')}/{name}",) if name and claim_entries(pod) else ()


def _claims_on_node(pod: Object) -> Iterable[str]:
    if not claim_entries(pod) or not node_of(pod) or is_done(pod):
        return ()
    namespace = pod["metadata"].get("namespace")
    return [f"{namespace}/{name}" for _, name in claims_used(pod)]


def _called(key: OwnerKey) -> str:
    kind, namespace, name = key
    return f"{kind.kind} {namespace}/{name}"
