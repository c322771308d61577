"""What a cluster on one machine costs: `dray up --node` to ready, its memory, and pods from creation to run."""

import asyncio
import contextlib
import os
import statistics
import time
from pathlib import Path

from dray.client.api import ApiClient
from dray.client.http import HttpTransport
from dray.client.interface import Selection
from dray.client.kubeconfig import Kubeconfig
from dray.testing.cluster import kind_of
from dray.testing.objects import pod
from tests.cli.running import Running

UP = ("up", "--port", "0", "--plain", "--node", "--data", "data")
STARTS = 3
PODS = 100
ONE_BY_ONE = 20
PODS_KIND = kind_of("Pod")


def descendants(pid):
    found = [pid]
    for each in found:
        found += map(int, Path(f"/proc/{each}/task/{each}/children").read_text().split())
    return found


def megabytes(pids):
    """Proportional set size: memory that processes share is counted once."""
    total = 0
    for pid in pids:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        total += next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total / 1024


def shims(folder):
    """Each works in the directory of its container."""
    found, place = [], folder / "data/node/run/containers"
    for each in Path("/proc").iterdir():
        if each.name.isdigit():
            with contextlib.suppress(OSError):
                if Path(os.path.realpath(os.readlink(each / "cwd"))).parent == place:
                    found.append(int(each.name))
    return found


def start(folder):
    process = Running(*UP, cwd=folder)
    while not (line := process.line()).startswith("export "):
        assert line, process.end()
    return process


def end(process):
    if process.process.poll() is None:
        process.stop()
        process.process.communicate()


def sleeping(name):
    made = pod(name)
    made["spec"]["containers"][0]["command"] = ["sleep", "1000"]
    made["spec"]["terminationGracePeriodSeconds"] = 1
    return made


async def running_within(client, names):
    """Seconds from the creation of these pods, all at once, until the last of them runs."""
    watching = client.watch(PODS_KIND, namespace="default", selection=Selection())
    began, waiting = time.perf_counter(), set(names)
    creating = asyncio.gather(*(client.create(PODS_KIND, sleeping(name), namespace="default") for name in names))
    async for event in watching:
        if event.object.get("status", {}).get("phase") == "Running":
            waiting.discard(event.object["metadata"]["name"])
        if not waiting:
            break
    await creating
    return time.perf_counter() - began


def test_up_to_ready(benchmark, tmp_path, monkeypatch):
    # As installed: compiled modules are kept, by the first start at the latest.
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    folders = iter([tmp_path / str(number) for number in range(STARTS)])

    def fresh():
        folder = next(folders)
        folder.mkdir()
        return (folder,), {}

    started = []
    benchmark.pedantic(lambda folder: started.append(start(folder)), setup=fresh, rounds=STARTS)
    for each in started[:-1]:
        end(each)
    # Settled, as a cluster that nobody uses.
    time.sleep(2)
    benchmark.extra_info["idle_mb"] = idle = round(megabytes(descendants(started[-1].process.pid)), 1)
    end(started[-1])
    assert benchmark.stats["min"] < 2.0
    assert idle < 150


def test_pods_from_creation_to_run(benchmark, tmp_path, request):
    process = start(tmp_path)
    request.addfinalizer(lambda: end(process))

    async def work():
        async with ApiClient(HttpTransport(Kubeconfig.load([tmp_path / "data/kubeconfig"]).endpoint())) as client:
            alone = [await running_within(client, [f"one-{number}"]) for number in range(ONE_BY_ONE)]
            together = await running_within(client, [f"many-{number}" for number in range(PODS - ONE_BY_ONE)])
            own, containers = megabytes(descendants(process.process.pid)), megabytes(shims(tmp_path))
            for each in (await client.list(PODS_KIND, namespace="default"))["items"]:
                await client.delete(PODS_KIND, each["metadata"]["name"], namespace="default")
            while (await client.list(PODS_KIND, namespace="default"))["items"]:
                await asyncio.sleep(0.5)
        return alone, together, own, containers

    alone, together, own, containers = benchmark.pedantic(lambda: asyncio.run(work()), rounds=1)
    benchmark.extra_info.update(
        apply_to_running_s=round(statistics.median(alone), 3),
        eighty_pods_s=round(together, 2),
        mb_with_100_pods=round(own, 1),
        mb_of_100_shims=round(containers, 1),
    )
    assert statistics.median(alone) < 0.5
