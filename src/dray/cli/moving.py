"""Mover: carries out a consolidation, one step that can be broken off after the other.

The pods that are to go say so in an annotation, for a while. Thereupon the scheduler keeps the place for the one that
waits, which its pods show in `status.nominatedNodeName`. Only then the pods are evicted, as their budgets allow; their
controllers make them again. Whoever was not evicted in the end does not say so any more.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from typing import Final

import click

from dray.api.catalogue import built_in
from dray.api.objects import Object, status_of
from dray.api.pods import node_of
from dray.cli.cluster import Cluster
from dray.client.errors import ApiError, Conflict, NotFound
from dray.scheduling.explain.consolidation import Consolidation
from dray.scheduling.model.making_room import ANNOTATION, mark, title_of
from dray.scheduling.model.pod import Pod

_PODS: Final = built_in("v1", "Pod")
_EVICTION: Final = {"apiVersion": "policy/v1", "kind": "Eviction"}
_MARKED_SECONDS: Final = 600.0
_KEPT_WITHIN: Final = 30.0
_BOUND_WITHIN: Final = 300.0


class Mover:
    def __init__(self, cluster: Cluster, consolidation: Consolidation) -> None:
        self._client = cluster.client
        self._found = consolidation
        self._marked: dict[str, Pod] = {}
        """Pods that were marked as making room, by uid."""

    async def move(self) -> int:
        """The exit status of the command."""
        try:
            for move in self._found.moves:
                await self._mark(move.pod)
            if not await self._until(self._is_kept, _KEPT_WITHIN):
                click.echo("error: no pod was evicted: no scheduler reserved the place for the pending pod", err=True)
                return 1
            for move in self._found.moves:
                if not await self._evict(move.pod):
                    return 1
        finally:
            # Also when it is interrupted.
            await asyncio.shield(self._unmark())
        if await self._until(self._is_bound, _BOUND_WITHIN):
            click.echo(f"{self._found.waiting.title} is placed")
            return 0
        click.echo(f"error: {self._found.waiting.title} is still pending; see dray explain", err=True)
        return 1

    async def _mark(self, pod: Pod) -> None:
        text = mark(title_of(self._found.waiting.queued[0].pod), time.time() + _MARKED_SECONDS)
        self._marked[pod.uid] = pod
        await self._annotate(pod, text)

    async def _unmark(self) -> None:
        for pod in list(self._marked.values()):
            # Those that were evicted are gone, or others have their names.
            with contextlib.suppress(NotFound, Conflict):
                await self._annotate(pod, None)

    async def _annotate(self, pod: Pod, text: str | None) -> None:
        # With the uid another pod of the name is not meant.
        body = {"metadata": {"uid": pod.uid, "annotations": {ANNOTATION: text}}}
        await self._client.patch(_PODS, pod.key[1], body, namespace=pod.key[0])

    async def _evict(self, pod: Pod) -> bool:
        namespace, name = pod.key
        metadata = {"name": name, "namespace": namespace}
        body = {**_EVICTION, "metadata": metadata, "deleteOptions": {"preconditions": {"uid": pod.uid}}}
        try:
            await self._client.create(_PODS, body, namespace=namespace, name=name, subresource="eviction")
        except NotFound:
            pass
        except ApiError as error:
            click.echo(f"error: pod {namespace}/{name} and the pods after it were not evicted: {error}", err=True)
            return False
        click.echo(f"pod {namespace}/{name} evicted")
        return True

    # Waiting

    async def _until(self, holds: Callable[[Object], bool], within: float) -> bool:
        """Whether it soon holds of as many pods as must start together."""
        end = time.monotonic() + within
        while True:
            documents = [await self._get(queued.pod) for queued in self._found.waiting.queued]
            number = sum(document is not None and holds(document) for document in documents)
            if number >= self._found.waiting.need:
                return True
            if time.monotonic() >= end:
                return False
            await asyncio.sleep(0.2)

    async def _get(self, pod: Pod) -> Object | None:
        try:
            return await self._client.get(_PODS, pod.key[1], namespace=pod.key[0])
        except NotFound:
            return None

    def _is_kept(self, document: Object) -> bool:
        return bool(node_of(document) or status_of(document).get("nominatedNodeName"))

    def _is_bound(self, document: Object) -> bool:
        return bool(node_of(document))
