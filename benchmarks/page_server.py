"""An API server with the page and many nodes, for the benchmark of the page; prints its address.

The command `load VIEWERS CHANGES SECONDS` on standard input opens so many streams, writes so many changes a second, and
prints the share of a core that this process used meanwhile. The command `forget` drops what the page has read, so that
the next viewer is the first one again.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from typing import Any

from dray.api.catalogue import built_in
from dray.cli.page import paged
from dray.client.api import ApiClient
from dray.server.inprocess import InProcessTransport
from dray.server.running import Options, RunningServer
from dray.web.page import Page

GPU = "gpu.nvidia.com"
CLAIMS = built_in("resource.k8s.io/v1", "ResourceClaim")
# A client of its own process: what it costs to read a stream is not the server's.
VIEWER = """
import asyncio, sys, aiohttp
async def main(url, viewers):
    headers = {"X-Dray-Page": "1"}
    async def one():
        frames = 0
        async with aiohttp.ClientSession(headers=headers, cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
            async with session.post(url + "/ui/session", json={}) as answer:
                session.headers["X-Dray-Key"] = (await answer.json())["key"]
            async with session.get(url + "/ui/stream/cluster", timeout=None) as stream:
                async for line in stream.content.iter_any():
                    frames += line.count(b"event: ")
                    print(frames, flush=True)
    await asyncio.gather(*(one() for _ in range(viewers)))
asyncio.run(main(sys.argv[1], int(sys.argv[2])))
"""


def documents(number: int) -> list[dict[str, Any]]:
    name = f"node-{number}"
    devices = [
        {
            "name": f"gpu-{place}",
            "attributes": {
                "type": {"string": "gpu"},
                "productName": {"string": "NVIDIA H100 80GB HBM3"},
                "uuid": {"string": f"GPU-{number}-{place}"},
                "resource.kubernetes.io/numaNode": {"int": place // 4},
                "resource.kubernetes.io/pcieRoot": {"string": f"pci0000:{place // 2:02x}"},
            },
            "capacity": {"memory": {"value": "80Gi"}},
        }
        for place in range(8)
    ]
    rack = {"topology.kubernetes.io/rack": f"rack-{number // 20:03}"}
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    return [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": rack},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        },
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"name": f"{name}-gpu"},
            "spec": {"driver": GPU, "nodeName": name, "pool": pool, "devices": devices},
        },
        *(claim(number, place) for place in (0, 2, 4)),
    ]


def claim(number: int, place: int) -> dict[str, Any]:
    requests = [{"name": "gpus", "exactly": {"deviceClassName": GPU, "count": 2}}]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": f"c-{number}-{place}", "namespace": f"team-{number % 7}"},
        "spec": {"devices": {"requests": requests}},
        "status": {"allocation": {"devices": {"results": results(number, place)}}},
    }


def results(number: int, place: int) -> list[dict[str, Any]]:
    one = {"driver": GPU, "pool": f"node-{number}", "request": "gpus"}
    return [{**one, "device": f"gpu-{place + each}"} for each in (0, 1)]


async def fill(client: ApiClient, nodes: int) -> None:
    for number in range(7):
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": f"team-{number}"}}
        await client.create(built_in("v1", "Namespace"), namespace)
    for number in range(nodes):
        for document in documents(number):
            kind = built_in(document["apiVersion"], document["kind"])
            made = await client.create(kind, document)
            if "status" in document:
                await client.update_status(kind, {**made, "status": document["status"]})


async def load(client: ApiClient, url: str, nodes: int, viewers: int, changes: int, seconds: int) -> dict[str, Any]:
    command = [sys.executable, "-c", VIEWER, url, str(viewers)]
    watching = subprocess.Popen(command, stdout=subprocess.PIPE, text=True) if viewers else None
    if watching is not None:
        await asyncio.sleep(5)
    number, began, used = 0, time.monotonic(), time.process_time()
    while (passed := time.monotonic() - began) < seconds:
        while number < passed * changes:
            await change(client, number % nodes)
            number += 1
        await asyncio.sleep(0.005)
    percent = 100 * (time.process_time() - used) / (time.monotonic() - began)
    frames = 0
    if watching is not None:
        watching.kill()
        frames = max(map(int, watching.communicate()[0].split()))
    return {"percent": round(percent, 1), "changes": number, "frames": frames}


async def change(client: ApiClient, number: int) -> None:
    """Gives two devices to a claim, or takes them away."""
    name, namespace = f"c-{number}-0", f"team-{number % 7}"
    found = await client.get(CLAIMS, name, namespace=namespace)
    held = {"allocation": {"devices": {"results": results(number, 0)}}}
    status = {} if found.get("status", {}).get("allocation") else held
    await client.update_status(CLAIMS, {**found, "status": status})


async def answer(client: ApiClient, page: Page, url: str, nodes: int, command: str) -> Any:
    if command == "forget":
        await page.close()
        return {}
    _, viewers, changes, seconds = command.split()
    return await load(client, url, nodes, int(viewers), int(changes), int(seconds))


async def main(nodes: int) -> None:
    running = RunningServer(Options(port=0, plain=True))
    transport = InProcessTransport(running.application)
    client = ApiClient(transport)
    async with running.running() as server, paged(server, transport) as page:
        await fill(client, nodes)
        print(server.url, flush=True)
        loop = asyncio.get_running_loop()
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            print(json.dumps(await answer(client, page, server.url, nodes, line.strip())), flush=True)


asyncio.run(main(int(sys.argv[1])))
