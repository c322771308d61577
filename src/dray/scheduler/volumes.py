"""Which claims for volumes there are: watched where the server has them, and known to be none where it has not."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from dray.client.backoff import Backoff
from dray.client.cache import Change
from dray.client.errors import ApiError, ClientError
from dray.client.informers import Informers
from dray.client.interface import Client, GroupVersionResource
from dray.client.retries import Retries
from dray.scheduling.scheduler import Scheduler
from dray.scheduling.volumes import PLURAL

CLAIMS: Final = GroupVersionResource("", "v1", PLURAL)
_RETRIES: Final = Retries(backoff=Backoff(first=0.5, longest=30.0))
_logger = logging.getLogger("dray.scheduler")


async def follow(
    client: Client, informers: Informers, scheduler: Scheduler, now: Callable[[], float], wake: Callable[[], None]
) -> None:
    """Returns when the scheduler knows them all; then it is told of every change.

    Without the right to read them it places pods as if there were none to wait for.
    """
    try:
        readable = await _readable(client)
    except ApiError as error:
        _logger.warning("pods do not wait for their persistentvolumeclaims: %s", error)
        return
    if readable:
        informer = informers.of(CLAIMS)

        def take(change: Change) -> None:
            put = scheduler.remove_volume_claim if change.type == "DELETED" else scheduler.put_volume_claim
            put(change.object, now())
            wake()

        informer.add_handler(take)
        await informer.synced()
    scheduler.state.volumes.known = True


async def served(client: Client) -> bool:
    """Raises ClientError where the server did not answer."""
    answer = await client.request("GET", "/api/v1")
    return any(each.get("name") == PLURAL for each in answer.get("resources") or ())


async def _readable(client: Client) -> bool:
    """False where the server has none. Raises ApiError where it has, and nobody may read them here."""
    failures = 0
    while True:
        try:
            if not await served(client):
                return False
            await client.list(CLAIMS, limit=1)
            return True
        except ClientError as error:
            if isinstance(error, ApiError) and error.is_forbidden:
                raise
            _logger.warning("cannot ask for persistentvolumeclaims: %s", error)
            failures += 1
            await _RETRIES.pause(failures, error.retry_after if isinstance(error, ApiError) else 0)
