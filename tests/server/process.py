"""A server in a thread of its own, reached over HTTP by clients that nobody here wrote."""

import asyncio
import threading
from contextlib import contextmanager

from dray.cli.apiserver import controlling
from dray.server.running import Options, RunningServer


@contextmanager
def listening(**options):
    """A RunningServer on a free port; plain HTTP unless told otherwise."""
    options = Options(**{"port": 0, "plain": True, **options})
    ready, stop = threading.Event(), None
    found = {}

    async def serve():
        nonlocal stop
        stop = asyncio.Event()
        loop = found["loop"] = asyncio.get_running_loop()
        loop.set_debug(False)
        async with RunningServer(options).running() as server, controlling(server):
            found["server"] = server
            ready.set()
            await stop.wait()

    def run():
        try:
            asyncio.run(serve())
        except BaseException as error:
            found["error"] = error
            ready.set()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    assert ready.wait(20), "the server did not start"
    if "error" in found:
        raise found["error"]
    try:
        yield found["server"]
    finally:
        found["loop"].call_soon_threadsafe(stop.set)
        thread.join(20)
        assert not thread.is_alive()
