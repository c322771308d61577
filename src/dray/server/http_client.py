"""The HTTP client of requests that the server itself makes, to nodes, pods and webhooks: aiohttp.

It is loaded with the first of them: a server without nodes starts 0.3 s sooner and is 9 MB smaller. On a busy machine
loading takes a second, so a thread does it, and the event loop goes on answering others.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import ssl

_loaded = False


async def load_http_client() -> None:
    """Imports aiohttp in a thread. Await it before the first `import aiohttp` in the event loop."""
    global _loaded
    if not _loaded:
        # Concurrent callers wait in a thread too, because `sys.modules` has the module before it is complete.
        await asyncio.to_thread(importlib.import_module, "aiohttp")
        _loaded = True


def told(error: Exception) -> str:
    """Returns the message of an error, without objects of this process that its text may name."""
    import aiohttp

    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return f"tls: failed to verify certificate: {error.certificate_error}"
    if isinstance(error, aiohttp.ClientConnectorError):
        if isinstance(error.os_error, ssl.SSLError):
            return f"tls: {error.os_error.reason or error.os_error}"
        number = error.os_error.errno
        # A name that cannot be resolved has a negative number and its own text.
        why = os.strerror(number) if number is not None and number > 0 else str(error.os_error.strerror)
        return f"dial tcp {error.host}:{error.port}: connect: {why.lower()}"
    return str(error) or type(error).__name__
