"""`python -m tests.server.soak_server DATA SECONDS`: a server that keeps its past for so long and says where it is."""

import asyncio
import sys
from pathlib import Path

import uvloop

from dray.server.running import Options, RunningServer
from dray.store.retention import Retention


async def serve(data, seconds):
    retention = Retention(seconds=seconds, interval=seconds / 5)
    async with RunningServer(Options(data=data, port=0, plain=True, retention=retention)).running() as server:
        print(server.url, flush=True)
        await asyncio.to_thread(sys.stdin.read)


uvloop.run(serve(Path(sys.argv[1]), float(sys.argv[2])))
