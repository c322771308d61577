"""Coordinated leader election: the best of the candidates for a Lease holds it, rather than who takes it first.

An election asks the candidates that were not heard of lately, waits until they have answered or are mute, and writes
the best one into the Lease. While another one holds it, that is its preferred holder: the present one then lets it
lapse. What strategies of others choose is left to them; the Lease is there for them, without a holder.

Leases are read, not watched: those of nodes are renewed all the time, and only those with candidates matter. Where a
kube-apiserver holds these elections, nothing is done.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import Final

from dray.api.catalogue import built_in
from dray.api.objects import Key, Object, key_of, spec_of
from dray.client.cache import Change
from dray.client.clock import micro_timestamp
from dray.client.discovery import OptionalInformer
from dray.client.election import ComponentLease
from dray.client.errors import NotFound
from dray.controllers.environment import Environment, Workers, named
from dray.controllers.leader_election import candidates as voices

_LEASES: Final = built_in("coordination.k8s.io/v1", "Lease")
_BY_LEASE: Final = "leader election: lease"
_OTHER: Final = "leader-election-controller"
_LEASE_SECONDS: Final = 5
# Candidates are asked again before they would be forgotten.
_ASKED_AGAIN: Final = voices.KEPT / 2
_PERIOD: Final = 5.0
_SOON: Final = 1.0


class LeaderElectionController:
    """Elects the holders of Leases. Keys are namespace and name of Leases."""

    def __init__(self, environment: Environment) -> None:
        self._client = environment.client
        self._events = environment.events
        self._time = environment.time
        self._workers: Workers[Key] = environment.workers(
            "leader-election", self.reconcile, called=named("Lease"), count=2
        )
        self._candidates = OptionalInformer(
            environment.client,
            environment.informers,
            "coordination.k8s.io",
            "leasecandidates",
            admit=self._is_ours,
            indexes={_BY_LEASE: _lease_of},
        )

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            await self._candidates.start()
            tasks.create_task(self._candidates.run())
            self._candidates.add_handler(self._candidate_changed)
            tasks.create_task(self._workers.run())

    async def _is_ours(self) -> bool:
        return not await ComponentLease(self._client, _OTHER, time=self._time).is_at_work()

    def _candidate_changed(self, change: Change) -> None:
        for lease in _lease_of(change.object):
            namespace, _, name = lease.partition("/")
            self._workers.queue.add((namespace, name))

    async def reconcile(self, key: Key) -> float | None:
        now = self._time.now()
        known = self._candidates.cache.by(_BY_LEASE, "/".join(key))
        for candidate in known:
            if voices.is_forgotten(candidate, now):
                await self._forget(candidate)
        kept = [candidate for candidate in known if not voices.is_forgotten(candidate, now)]
        there = [candidate for candidate in kept if not voices.is_mute(candidate, now)]
        if not there:
            return voices.KEPT.total_seconds() if kept else None
        strategy = voices.strategy_of(there)
        if not strategy:
            self._events.warning(
                there[0], "StrategyConflict", "candidates of the same version want different strategies"
            )
            return None
        lease = await self._lease(key)
        if not _needs_election(lease, there, strategy, now):
            return min(max(_left(lease, now), _SOON), _PERIOD)
        if await self._ask(there, now) or any(map(voices.is_asked, there)):
            return voices.PATIENCE.total_seconds()
        await self._elect(key, lease, strategy, voices.best_of(there) if strategy == voices.OLDEST else "")
        return _PERIOD

    async def _lease(self, key: Key) -> Object | None:
        try:
            return await self._client.get(_LEASES, key[1], namespace=key[0])
        except NotFound:
            return None

    async def _forget(self, candidate: Object) -> None:
        assert self._candidates.version is not None
        await self._client.delete_object(self._candidates.version, candidate, pinned=True)

    async def _ask(self, candidates: Sequence[Object], now: datetime) -> bool:
        """Whether there was anybody to ask; who answers is heard of by watch."""
        assert self._candidates.version is not None
        asked = [
            candidate
            for candidate in candidates
            if not voices.is_heard(candidate, now) and not voices.is_asked(candidate)
        ]
        for candidate in asked:
            spec = {**spec_of(candidate), "pingTime": micro_timestamp(now)}
            await self._client.update(self._candidates.version, {**candidate, "spec": spec})
        return bool(asked)

    async def _elect(self, key: Key, lease: Object | None, strategy: str, best: str) -> None:
        """Writes the elected holder to the Lease; `best` is empty if other components decide."""
        now = self._time.now()
        spec = {**spec_of(lease or {}), "strategy": strategy}
        holder = spec.get("holderIdentity")
        if lease is None or (best and (not holder or _is_over(lease, now))):
            spec |= {"holderIdentity": best or None, "preferredHolder": None, "acquireTime": None}
            spec |= {"renewTime": micro_timestamp(now), "leaseDurationSeconds": _LEASE_SECONDS}
        elif best and holder != best:
            spec["preferredHolder"] = best
        spec = {member: value for member, value in spec.items() if value is not None}
        if lease is None:
            await self._client.create(_LEASES, {"metadata": {"namespace": key[0], "name": key[1]}, "spec": spec})
        elif spec != spec_of(lease):
            await self._client.update(_LEASES, {**lease, "spec": spec})


def _needs_election(lease: Object | None, candidates: Sequence[Object], strategy: str, now: datetime) -> bool:
    if lease is None or any(now - voices.time_of(candidate, "renewTime") > _ASKED_AGAIN for candidate in candidates):
        return True
    spec = spec_of(lease)
    is_free = not spec.get("holderIdentity") or _is_over(lease, now)
    if strategy != voices.OLDEST:
        return is_free and spec.get("strategy") != strategy
    return is_free or voices.best_of(candidates) not in (spec["holderIdentity"], spec.get("preferredHolder"))


def _is_over(lease: Object, now: datetime) -> bool:
    return _left(lease, now) < 0


def _left(lease: Object | None, now: datetime) -> float:
    """Returns the seconds until the lease expires; negative if it has expired, 0 if there is no lease."""
    if lease is None:
        return 0.0
    lasts = spec_of(lease).get("leaseDurationSeconds") or 0
    return float(lasts - (now - voices.time_of(lease, "renewTime")).total_seconds())


def _lease_of(candidate: Object) -> tuple[str, ...]:
    return (f"{key_of(candidate)[0]}/{spec_of(candidate)['leaseName']}",)
