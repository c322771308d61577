"""A TCP proxy whose connections fall silent: it goes on to take what it is sent, and passes nothing on."""

import asyncio
import contextlib
from types import SimpleNamespace


class Proxy:
    def __init__(self, url):
        self._port = int(url.rpartition(":")[2])
        self._open = []
        self.connections = 0

    def silence(self):
        """The connections there are; new ones work."""
        for each in self._open:
            each.silent = True
        self._open.clear()

    @contextlib.asynccontextmanager
    async def serving(self):
        """Gives the address."""
        server = await asyncio.start_server(self._connect, "127.0.0.1", 0)
        try:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        finally:
            server.close()

    async def _connect(self, reader, writer):
        self.connections += 1
        state = SimpleNamespace(silent=False)
        self._open.append(state)
        with contextlib.suppress(OSError):
            there, back = await asyncio.open_connection("127.0.0.1", self._port)
            try:
                await asyncio.gather(self._pass(reader, back, state), self._pass(there, writer, state))
            finally:
                self._open = [each for each in self._open if each is not state]
                back.close()
                writer.close()

    async def _pass(self, source, target, state):
        with contextlib.suppress(OSError):
            while piece := await source.read(65536):
                if not state.silent:
                    target.write(piece)
                    await target.drain()
        if not state.silent:
            target.close()
