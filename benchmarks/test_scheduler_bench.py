"""How fast pods with claims get their devices: `dray up` and its control plane, the client in a process of its own.

Measured from the first create over HTTP to the last binding, as a watch shows it. The bounds are those the project
promises for two cores.
"""

import asyncio
import os
import socket
import statistics
import subprocess
import sys
import time
from contextlib import contextmanager

import aiohttp
import msgspec
import pytest
from msgspec import structs

from dray.drivers.devices.classes import device_classes
from dray.fleet.choice import choose
from dray.fleet.machine import Machine
from dray.fleet.pools import pools_of, slice_of

DEVICES = "/apis/resource.k8s.io/v1"
PODS = "/api/v1/namespaces/default/pods"
DRIVER = "gpu.example.com"
CONNECTIONS = 16


def node(name):
    amounts = {"cpu": "64", "memory": "512Gi", "pods": "110"}
    status = {"capacity": amounts, "allocatable": amounts, "conditions": [{"type": "Ready", "status": "True"}]}
    metadata = {"name": name, "labels": {"kubernetes.io/hostname": name}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status}


def gpus(name):
    devices = [
        {
            "name": f"gpu-{n}",
            "attributes": {
                "model": {"string": "H100"},
                "resource.kubernetes.io/pcieRoot": {"string": f"pci0000:{n // 4:02}"},
            },
            "capacity": {"memory": {"value": "80Gi"}},
        }
        for n in range(8)
    ]
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": name, "pool": pool, "devices": devices}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"s-{name}"},
        "spec": spec,
    }


def device_class():
    spec = {"selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": spec}


def template(name, *, count=1, model="H100", constraints=()):
    selector = {"cel": {"expression": f'device.attributes["{DRIVER}"].model == "{model}"'}}
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu", "count": count, "selectors": [selector]}}
    devices = {"requests": [request], **({"constraints": list(constraints)} if constraints else {})}
    metadata = {"name": name}
    body = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": metadata}
    return {**body, "spec": {"spec": {"devices": devices}}}


TEMPLATES = (
    template("one"),
    template("pair", count=2, constraints=[{"matchAttribute": "resource.kubernetes.io/pcieRoot"}]),
    template("none", model="no such"),
)


ROOT = "resource.kubernetes.io/pcieRoot"
ALIGNED = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaimTemplate",
    "metadata": {"name": "aligned"},
    "spec": {
        "spec": {
            "devices": {
                "requests": [
                    {"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}},
                    {"name": "nic", "exactly": {"deviceClassName": "mrdma.google.com"}},
                    {
                        "name": "cpu",
                        "exactly": {"deviceClassName": "dra.cpu", "capacity": {"requests": {"dra.cpu/cpu": "12"}}},
                    },
                ],
                "constraints": [{"matchAttribute": ROOT}],
            }
        }
    },
}
_OWNER = {"metadata": {"uid": ""}}


def _unowned(document):
    """Without the node that owns a slice: its uid is not known before it is created."""
    return {**document, "metadata": {"name": document["metadata"]["name"]}}


def aligned_machines(count):
    """Whose CPUs tell the PCIe roots near to them."""
    chosen = choose([f"p5.48xlarge={count}"]).machines
    return [Machine(each.name, each.type, structs.replace(each.options, pcie_roots=True)) for each in chosen]


def pod(name, claims):
    resources = {"requests": {"cpu": "1"}, "claims": [{"name": "gpu"}]}
    spec = {
        "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "main", "image": "busybox", "resources": resources}],
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": claims}],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextmanager
def control_plane(folder, *more):
    """The address and the process id of `dray up`."""
    port = free_port()
    main = "from dray.cli import main; main()"
    options = ("--insecure-http", "--port", str(port), "--kubeconfig", str(folder / "kubeconfig"), *more)
    started = subprocess.Popen((sys.executable, "-c", main, "up", *options), stdout=subprocess.DEVNULL)
    try:
        yield f"http://127.0.0.1:{port}", started.pid
    finally:
        started.terminate()
        started.wait(30)


def processes(pid):
    """The server, and the control plane beside it."""
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return [pid, *map(int, file.read().split())]


def megabytes(pid):
    """The most memory they ever had."""
    return sum(_megabytes(each) for each in processes(pid))


def _megabytes(pid):
    with open(f"/proc/{pid}/status") as file:
        (peak,) = [line.split()[1] for line in file if line.startswith("VmHWM")]
    return int(peak) / 1024


def cpu_seconds(pid):
    return sum(_cpu_seconds(each) for each in processes(pid))


def _cpu_seconds(pid):
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Named(msgspec.Struct):
    name: str


class Placed(msgspec.Struct):
    nodeName: str = ""


class Pod(msgspec.Struct):
    metadata: Named
    spec: Placed


class PodEvent(msgspec.Struct):
    object: Pod


# The load is made by the other of the two cores, and what it costs is not to be measured.
_read = msgspec.json.Decoder(PodEvent).decode
_JSON = {"content-type": "application/json"}


class Load:
    def __init__(self, session, url):
        self._session = session
        self._url = url
        self._bound = {}
        self._waiting = {}

    async def ready(self):
        for _ in range(400):
            try:
                async with self._session.get(f"{self._url}/readyz") as answer:
                    if answer.status == 200:
                        return
            except aiohttp.ClientError:
                pass
            await asyncio.sleep(0.05)
        raise TimeoutError(self._url)

    async def post(self, path, body):
        """`body` is a document, or one that is encoded already."""
        data = body if isinstance(body, bytes) else msgspec.json.encode(body)
        async with self._session.post(self._url + path, data=data, headers=_JSON) as answer:
            text = await answer.read()
            assert answer.status < 300 or answer.status == 409, text

    async def send(self, jobs):
        """All of them, over several connections."""
        left = iter(jobs)

        async def work():
            for path, body in left:
                await self.post(path, body)

        await asyncio.gather(*(work() for _ in range(CONNECTIONS)))

    async def furnish(self, nodes):
        """`nodes` is how many, or machines of a fleet."""
        if not isinstance(nodes, int):
            await self.furnish_fleet(nodes)
            return
        await self.send([(f"{DEVICES}/deviceclasses", device_class())])
        await self.send((f"{DEVICES}/namespaces/default/resourceclaimtemplates", each) for each in TEMPLATES)
        names = [f"n{number}" for number in range(nodes)]
        await self.send(("/api/v1/nodes", node(name)) for name in names)
        await self.send((f"{DEVICES}/resourceslices", gpus(name)) for name in names)
        await asyncio.sleep(1)

    async def furnish_fleet(self, machines):
        pools = [(machine, pools_of(machine)) for machine in machines]
        drivers = {driver for _, each in pools for driver in each}
        await self.send((f"{DEVICES}/deviceclasses", each) for each in device_classes(drivers))
        await self.send([(f"{DEVICES}/namespaces/default/resourceclaimtemplates", ALIGNED)])
        await self.send(("/api/v1/nodes", machine.node()) for machine in machines)
        await self.send(
            (f"{DEVICES}/resourceslices", _unowned(slice_of(machine, driver, number, len(contents), content, _OWNER)))
            for machine, by_driver in pools
            for driver, contents in by_driver.items()
            for number, content in enumerate(contents)
        )
        await asyncio.sleep(1)

    async def watch(self):
        """Takes down when pods were bound. Until it is cancelled."""
        endless = aiohttp.ClientTimeout(total=None)
        rest = b""
        async with self._session.get(f"{self._url}{PODS}?watch=1&resourceVersion=0", timeout=endless) as answer:
            async for piece in answer.content.iter_any():
                *lines, rest = (rest + piece).split(b"\n")
                for line in lines:
                    if b'"nodeName"' in line:
                        self._take(_read(line).object)

    def _take(self, found):
        name = found.metadata.name
        if found.spec.nodeName and name not in self._bound:
            self._bound[name] = time.perf_counter()
            if name in self._waiting:
                self._waiting.pop(name).set()

    async def bound(self, names, within=120.0):
        """When the last of them was."""
        for name in names:
            if name not in self._bound:
                there = self._waiting.setdefault(name, asyncio.Event())
                await asyncio.wait_for(there.wait(), within)
        return max(self._bound[name] for name in names)


@contextmanager
def loaded(folder, nodes, *more, kind=Load):
    """Runs what it is given with a Load on a new control plane."""
    with control_plane(folder, *more) as (url, pid), asyncio.Runner() as runner:

        async def prepare():
            session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=CONNECTIONS + 1))
            load = kind(session, url)
            await load.ready()
            await load.furnish(nodes)
            return session, load, asyncio.create_task(load.watch())

        session, load, watching = runner.run(prepare())
        try:
            yield lambda work: runner.run(work(load)), pid
        finally:

            async def end():
                watching.cancel()
                await session.close()

            runner.run(end())


def burst(count, claims, prefix="p"):
    names = [f"{prefix}{number}" for number in range(count)]
    bodies = [msgspec.json.encode(pod(name, claims)) for name in names]

    async def work(load):
        began = time.perf_counter()
        await load.send((PODS, body) for body in bodies)
        return await load.bound(names) - began

    return work


def record(benchmark, **figures):
    benchmark.extra_info.update(figures)
    benchmark.pedantic(lambda: None, rounds=1)
    print(benchmark.name, figures)


@pytest.mark.parametrize(("claims", "least"), [("one", 400), ("pair", 300)], ids=["one GPU", "two on one root"])
def test_a_thousand_pods_on_five_hundred_nodes(benchmark, tmp_path, claims, least):
    rates = []
    for attempt in range(3):
        folder = tmp_path / str(attempt)
        folder.mkdir()
        with loaded(folder, 500) as (run, pid):
            before = cpu_seconds(pid)
            seconds = run(burst(1000, claims))
            cpu = (cpu_seconds(pid) - before) / 1000
        rates.append(1000 / seconds)
        if rates[-1] >= least:
            break
    record(benchmark, pods_per_second=round(max(rates)), cpu_ms_per_pod=round(cpu * 1000, 2))
    assert max(rates) >= least


def test_a_thousand_aligned_pods_fill_125_nodes(benchmark, tmp_path):
    """A GPU, its NIC and 12 CPUs on one PCIe root, on machines with 8 GPUs, 32 NICs and 192 CPUs: compared with the
    rate of two GPUs on one root, measured in turn."""
    best = (0.0, 0.0, 0.0)
    for attempt in range(3):
        rates = []
        for claims, nodes in (("pair", 500), ("aligned", aligned_machines(125))):
            folder = tmp_path / f"{claims}-{attempt}"
            folder.mkdir()
            with loaded(folder, nodes) as (run, _):
                rates.append(1000 / run(burst(1000, claims)))
        best = max(best, (rates[1] / rates[0], *rates))
        if best[0] >= 0.6:
            break
    share, pair, aligned = best
    record(benchmark, pods_per_second=round(aligned), pairs_per_second=round(pair), share=round(share, 2))
    assert share >= 0.6


def test_ten_thousand_pods_on_five_thousand_nodes(benchmark, tmp_path):
    with loaded(tmp_path, 5000) as (run, pid):
        seconds = run(burst(10_000, "one"))
        peak = megabytes(pid)
    record(benchmark, seconds=round(seconds, 1), megabytes=round(peak))
    assert seconds < 60
    assert peak < 2048


async def _one(load, name):
    began = time.perf_counter()
    await load.post(PODS, pod(name, "one"))
    return await load.bound([name]) - began


def test_ten_thousand_waiting_pods(benchmark, tmp_path):
    """Two servers are asked in turn, pod by pod, so that whatever else the machine does concerns both."""

    async def wait_in_vain(load):
        await load.send((PODS, pod(f"w{number}", "none")) for number in range(10_000))

    folders = tmp_path / "alone", tmp_path / "beside"
    for folder in folders:
        folder.mkdir()
    alone, beside = [], []
    with loaded(folders[0], 500) as (ask, _), loaded(folders[1], 500) as (ask_crowded, pid):
        ask_crowded(wait_in_vain)
        _rest(ask_crowded, pid)
        for number in range(1000):
            for run, times in ((ask, alone), (ask_crowded, beside)):
                times.append(run(lambda load, n=number: _one(load, f"p{n}")))
    # The first ones warm them up.
    one, other = statistics.median(alone[100:]), statistics.median(beside[100:])
    more = 100 * (other / one - 1)
    record(benchmark, alone_ms=round(one * 1e3, 2), beside_ms=round(other * 1e3, 2), more_percent=round(more, 1))
    assert more < 10


def _rest(run, pid):
    """Until the server has nothing left to do."""
    for _ in range(240):
        before = cpu_seconds(pid)
        run(lambda load: asyncio.sleep(0.5))
        if cpu_seconds(pid) - before < 0.05:
            return
    raise AssertionError("it never comes to rest")
