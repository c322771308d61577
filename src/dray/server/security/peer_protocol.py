"""HTTP protocol of uvicorn that knows the peer of its connection.

uvicorn does not tell its application about the peer's certificate. `PeerProtocol` is uvicorn's own HTTP protocol with
one addition: it reads the certificate once a connection and puts a `Peer` into the state that every scope of the
connection gets a copy of, also after an upgrade to WebSocket. Nothing that a client sends can end up under that key.

    uvicorn.Config(app, http=PeerProtocol, ssl_context_factory=lambda config, default: context)
"""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from dray.server.security.peer import STATE_KEY, read_peer


class PeerProtocol(HttpToolsProtocol):
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.app_state = {**self.app_state, STATE_KEY: read_peer(transport)}
