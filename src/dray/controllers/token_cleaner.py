"""The token cleaner: bootstrap tokens that have expired are deleted. They are good no more from that moment anyway."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from dray.api import bootstrap_tokens
from dray.api.catalogue import built_in
from dray.client.errors import ClientError
from dray.client.interface import Selection
from dray.controllers.environment import Environment

_SECRETS: Final = built_in("v1", "Secret")
_TOKENS: Final = Selection(fields=f"type={bootstrap_tokens.SECRET_TYPE}")
_PERIOD: Final = 60.0
_logger = logging.getLogger("dray.controllers")


class TokenCleaner:
    """Deletes expired tokens. Lists them once a minute: a watch would receive every Secret."""

    def __init__(self, environment: Environment) -> None:
        self._client = environment.client
        self._time = environment.time

    async def run(self) -> None:
        while True:
            try:
                await self.clean()
            except ClientError as error:
                _logger.warning("expired bootstrap tokens are not deleted: %s", error)
            await asyncio.sleep(_PERIOD)

    async def clean(self) -> None:
        namespace = bootstrap_tokens.NAMESPACE
        found = await self._client.list_all(_SECRETS, namespace=namespace, selection=_TOKENS)
        for secret in found["items"]:
            if bootstrap_tokens.is_expired(secret, self._time.now()):
                await self._client.delete_object(_SECRETS, secret)
