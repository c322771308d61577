"""Which claims for volumes there are: watched where the server has them. Where it has not, pods do not wait for any."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from dray.client.cache import Change
from dray.client.discovery import serves, until_answered
from dray.client.errors import ApiError
from dray.client.informers import Informers
from dray.client.interface import Client, GroupVersionResource
from dray.scheduling.scheduler import Scheduler
from dray.scheduling.volumes import PLURAL

CLAIMS: Final = GroupVersionResource("", "v1", PLURAL)
_logger = logging.getLogger("dray.scheduler")


async def follow(
    client: Client, informers: Informers, scheduler: Scheduler, now: Callable[[], float], wake: Callable[[], None]
) -> None:
    """Returns when the scheduler knows them all; then it is told of every change.

    Without the right to read them it places pods as if there were none to wait for.
    """
    if not await until_answered(lambda: serves(client, CLAIMS), PLURAL):
        return
    if not await until_answered(lambda: _may_read(client), PLURAL):
        return
    informer = informers.of(CLAIMS)

    def take(change: Change) -> None:
        put = scheduler.remove_volume_claim if change.type == "DELETED" else scheduler.put_volume_claim
        put(change.object, now())
        wake()

    informer.add_handler(take)
    await informer.synced()
    scheduler.state.volumes.known = True


async def _may_read(client: Client) -> bool:
    try:
        await client.list(CLAIMS, limit=1)
    except ApiError as error:
        if not error.is_forbidden:
            raise
        _logger.warning("pods do not wait for their %s: %s", PLURAL, error)
        return False
    return True
