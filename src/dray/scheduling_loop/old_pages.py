"""Deletes the ledger's pages of pools that are gone, as nodes come and go.

A page is deleted where nothing is left that a new one would have to know: its pool has not been published for a while,
no claim holds a device of it, no intent on it may yet be carried out, and the claims are known as far as the page was
`seen`. All of that holds for one version of the page, and only that version is deleted: an intent that another
scheduler enters meanwhile makes it another one. Whoever writes on top of the deleted page is refused and decides again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final

from dray.client.api import ApiClient
from dray.client.errors import ApiError, ClientError, Conflict, NotFound
from dray.client.interface import DeleteOptions, Resource
from dray.scheduling.state import State
from dray.scheduling_loop.intents import Intent, Page, PoolKey, page_name

WHILE: Final = 600.0
# As many are deleted at a time.
_BATCH: Final = 20
_logger = logging.getLogger("dray.scheduler")


class OldPages:
    def __init__(self, client: ApiClient, state: State, resource: Resource, namespace: str) -> None:
        self._client = client
        self._state = state
        self._resource = resource
        self._namespace = namespace
        self._vacant: dict[PoolKey, float] = {}
        """Since when pools are neither published nor in use."""

    async def clear(
        self, pages: Iterable[Page], *, now: float, position: int, is_over: Callable[[Intent], bool]
    ) -> list[PoolKey]:
        """Deletes what may go; gives the pools of which nothing has been left for a while."""
        used = {device[:2] for device in self._state.inventory.usage.devices}
        due, over = [], []
        for page in pages:
            if page.pool in used or self._state.inventory.has_pool(page.pool):
                self._vacant.pop(page.pool, None)
            elif now - self._vacant.setdefault(page.pool, now) < WHILE:
                continue
            elif not page.version:
                over.append(page.pool)
            elif page.seen <= position and all(is_over(intent) for intent in page.intents):
                due.append((page.pool, page.version))
        for pool, version in due[:_BATCH]:
            await self._delete(pool, version)
            # What is left of it is forgotten later: a decision may still refer to it.
            self._vacant[pool] = now
        for pool in over:
            del self._vacant[pool]
        return over

    async def _delete(self, pool: PoolKey, version: str) -> None:
        options = DeleteOptions(resource_version=version)
        try:
            with suppress(NotFound, Conflict):
                await self._client.delete(self._resource, page_name(pool), namespace=self._namespace, options=options)
        except ApiError as error:
            _logger.warning("the page of %s/%s cannot be deleted: %s", *pool, error)
        except ClientError as error:
            _logger.debug("the page of %s/%s is deleted later: %s", *pool, error)
