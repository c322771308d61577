"""Renewal of a node's certificates: a new one with a new key, after some seven to nine tenths of the old one's life."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from typing import Final

from dray.client.clock import SystemTime, TimeOfDay
from dray.client.errors import ClientError
from dray.node.errors import NodeError
from dray.node.joining.membership import Membership, lifetime
from dray.server.security.certificates import Credential

_EARLIEST: Final = 0.7
_LATEST: Final = 0.9
# A suspended machine does not count the time of a wait.
_LONGEST_WAIT: Final = 600.0
_RETRY: Final = 60.0
_logger = logging.getLogger("dray.node")


class Renewal:
    """Renews the certificate that the membership keeps under a name.

    `obtain` requests the next certificate, `show` puts it to use.
    """

    def __init__(
        self,
        membership: Membership,
        name: str,
        obtain: Callable[[], Awaitable[Credential]],
        show: Callable[[Credential], Awaitable[None]],
        *,
        time: TimeOfDay | None = None,
    ) -> None:
        self._membership = membership
        self._name = name
        self._obtain = obtain
        self._show = show
        self._time = time or SystemTime()
        # Machines that joined together must not all renew together.
        self._share = random.uniform(_EARLIEST, _LATEST)

    async def run(self) -> None:
        while True:
            await asyncio.sleep(await self.look())

    async def look(self) -> float:
        """Renews the certificate if that is due. Returns the seconds until the next look."""
        credential = self._membership.credential(self._name)
        if credential is not None:
            start, end = lifetime(credential)
            left = (start + (end - start) * self._share - self._time.now()).total_seconds()
            if left > 0:
                return min(left, _LONGEST_WAIT)
        try:
            renewed = await self._obtain()
            self._membership.keep(self._name, renewed)
            await self._show(renewed)
        except (ClientError, NodeError, OSError) as error:
            _logger.warning("%s is not renewed yet: %s", self._membership.directory / self._name, error)
            return _RETRY
        return 0.0
