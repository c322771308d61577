"""Lock of an agent's root directory: one agent at a time uses what is in it.

An agent that is started while its predecessor is still ending waits for it; whatever that one writes last is read
then. The lock goes with its process, however that ends.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from dray.driver.serialization import lock_file

_FILE: Final = "agent.lock"
_TOLD_AFTER: Final = 2.0
_logger = logging.getLogger(__name__)


@asynccontextmanager
async def held(root: Path) -> AsyncIterator[None]:
    descriptor = os.open(root / _FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        telling = asyncio.get_running_loop().call_later(_TOLD_AFTER, _tell, root)
        try:
            await lock_file(descriptor)
        finally:
            telling.cancel()
        yield
    finally:
        os.close(descriptor)


def _tell(root: Path) -> None:
    _logger.warning("another node agent uses %s; waiting until it ends. To run both, use another --root", root)
