"""A server of its own under 100 watchers and steady writes: its memory stays where it is.

DRAY_SOAK_SECONDS sets how long. The past is kept for a tenth of that, so that compaction is at work throughout.
"""

import asyncio
import itertools
import os
import statistics
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import aiohttp
import msgspec
import pytest

from tests.server.api import CLAIMS, PODS, claim, pod

SECONDS = float(os.environ.get("DRAY_SOAK_SECONDS", "8"))
WATCHERS = 100
PAUSE = 0.04
# What allocators and caches need for themselves, in bytes.
GROWTH = 6_000_000
WATCHED = (CLAIMS, PODS, "/apis/resource.k8s.io/v1beta1/resourceclaims", "/api/v1/pods")


@contextmanager
def server(directory):
    command = [sys.executable, "-m", "tests.server.soak_server", str(directory), str(SECONDS / 10)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process.pid, process.stdout.readline().strip()
        finally:
            process.stdin.close()
            process.wait(20)


def resident(pid):
    pages = Path(f"/proc/{pid}/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


class Watcher:
    """Reads on and on; some leave after a while and come back to where they were, some start anew."""

    def __init__(self, session, url, number):
        self.session, self.url, self.number = session, url + WATCHED[number % len(WATCHED)], number
        self.seen = 0
        self.version = ""

    async def run(self):
        while True:
            query = {"watch": "true", "allowWatchBookmarks": "true", "timeoutSeconds": str(5 + self.number % 20)}
            if self.version:
                query["resourceVersion"] = self.version
            async with self.session.get(self.url, params=query) as answer:
                assert answer.status == 200, await answer.text()
                await self.read(answer.content)
            if self.number % 10 == 3:
                self.version = ""

    async def read(self, lines):
        async for line in lines:
            event = msgspec.json.decode(line)
            if event["type"] == "ERROR":
                assert event["object"]["code"] == 410
                self.version = ""
                return
            version = event["object"]["metadata"]["resourceVersion"]
            assert not self.version or int(version) >= int(self.version) or event["type"] == "ADDED"
            self.version = version
            self.seen += event["type"] != "BOOKMARK"
            if self.number % 10 == 7 and self.seen % 50 == 0:
                return


class Writer:
    """Creates, changes and deletes one object after the other."""

    def __init__(self, session, url, path, make, number):
        self.session, self.url, self.make, self.number = session, url + path, make, number
        self.writes = 0

    async def run(self):
        for count in itertools.count():
            name = f"w{self.number}-{count}"
            await self.ask("POST", "", self.make(name), 201)
            for change in range(3):
                await self.ask("PATCH", f"/{name}", {"metadata": {"annotations": {"change": str(change)}}}, 200)
            await self.ask("DELETE", f"/{name}", None, 200)

    async def ask(self, method, path, body, code):
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        data = None if body is None else msgspec.json.encode(body)
        async with self.session.request(method, self.url + path, data=data, headers={"content-type": kind}) as answer:
            assert answer.status == code, await answer.text()
            await answer.read()
        self.writes += 1
        await asyncio.sleep(PAUSE)


async def soak(pid, url):
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), read_bufsize=2**20) as session:
        watchers = [Watcher(session, url, number) for number in range(WATCHERS)]
        writers = [Writer(session, url, CLAIMS, claim, 0), Writer(session, url, PODS, pod, 1)]
        tasks = [asyncio.ensure_future(one.run()) for one in (*watchers, *writers)]
        memory, end = [], time.monotonic() + SECONDS
        while time.monotonic() < end:
            await asyncio.sleep(SECONDS / 120)
            memory.append(resident(pid))
            for task in tasks:
                if task.done():
                    task.result()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return memory, watchers, writers


@pytest.mark.skipif(sys.platform != "linux", reason="reads the size of a process as Linux tells it")
def test_memory_stays_flat(tmp_path):
    with server(tmp_path / "data") as (pid, url):
        memory, watchers, writers = asyncio.run(soak(pid, url))
    quarter = len(memory) // 4
    middle, end = (statistics.mean(part) for part in (memory[2 * quarter : 3 * quarter], memory[3 * quarter :]))
    seen, writes = [watcher.seen for watcher in watchers], sum(writer.writes for writer in writers)
    course = " ".join(f"{size / 1e6:.1f}" for size in memory[:: max(1, len(memory) // 12)])
    told = f"{writes} writes, {sum(seen)} events; MB over time: {course}"
    print(told)
    assert min(seen) > 0
    assert writes > SECONDS * 5
    assert end - middle < GROWTH, told
