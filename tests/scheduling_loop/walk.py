"""A random walk through the life of a cluster; wherever it comes to rest, all must be sound.

Server, scheduler and controllers are real; time is virtual, chance has a seed, and the way between them is unreliable.
"""

import asyncio
import contextlib
from contextlib import aclosing
from random import Random
from uuid import UUID

from dray.client.api import ApiClient
from dray.client.errors import ApiError
from dray.client.interface import DeleteOptions
from dray.control_plane.control_plane import ControlPlane, PlaneOptions
from dray.scheduling.scheduler import Options, Scheduler
from dray.server.api_server import ApiServer
from dray.server.application import Application
from dray.server.context import Context
from dray.server.inprocess import InProcessTransport
from dray.store.memory import MemoryStore
from dray.testing import objects
from dray.testing.cluster import kind_of
from tests import gpus
from tests.scheduling_loop.checker import Checker
from tests.scheduling_loop.creation import make
from tests.scheduling_loop.faults import FaultyTransport, client_over
from tests.scheduling_loop.soundness import could_run, differences, is_named, outlived, torn
from tests.virtual_time import VirtualTime

CONTROLLERS = (
    "resourceclaim",
    "podgroup-protection",
    "device-taint-eviction",
    "garbage-collector",
    "pod-garbage-collector",
    "disruption",
)
NODES = 5
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"


def slices_of(name):
    """What a node publishes: GPUs on two roots, one to be shared, and partitions of which two fit at a time."""
    whole = gpus.slice_of(name, 3)
    memory = {"value": "16", "requestPolicy": {"default": "4"}}
    whole["spec"]["devices"].append(
        gpus.gpu("shared-0", kind="share", allowMultipleAllocations=True, capacity={"memory": memory})
    )
    takes = [{"counterSet": "board", "counters": {"slots": {"value": "1"}}}]
    parts = [gpus.gpu(f"part-{n}", kind="part", consumesCounters=takes) for n in range(4)]
    pool = f"{name}-parts"
    board = {"name": "board", "counters": {"slots": {"value": "2"}}}
    return [
        whole,
        objects.resource_slice(
            f"{name}-counters", pool=pool, nodeName=name, resourceSliceCount=2, sharedCounters=[board]
        ),
        objects.resource_slice(pool, *parts, nodeName=name, resourceSliceCount=2),
    ]


def network():
    return objects.resource_slice("net", *[gpus.gpu(f"net-{n}", kind="net") for n in range(3)])


REQUESTS = {
    "one": objects.request(),
    "pair": objects.request(count=2),
    "share": objects.request(deviceClassName="share", capacity={"requests": {"memory": "6"}}),
    "part": objects.request(deviceClassName="part"),
    "net": objects.request(deviceClassName="net"),
    "either": objects.first_available(
        "gpu", objects.subrequest("part", deviceClassName="part"), objects.subrequest("gpu")
    ),
    "tough": objects.request(tolerations=[{"operator": "Exists", "effect": "NoSchedule"}]),
}

CONSTRAINTS = {"pair": [{"requests": ["gpu"], "matchAttribute": f"{objects.DRIVER}/root"}]}


class Walk:
    def __init__(self, seed, *, rate=0.08, trace=None):
        self.random = Random(seed)
        self._chance = Random(seed + 1)
        self._rate = rate
        self._time = VirtualTime()
        context = Context(MemoryStore(), clock=self._time.now, new_uid=self._uid, new_suffix=self._suffix)
        self.server = ApiServer(context)
        self._application = Application(self.server)
        self.client = ApiClient(self._way())
        self.checker = Checker([*(s for n in range(NODES) for s in slices_of(f"n{n}")), network()])
        self.steps = self.kills = self.rests = self.bound = 0
        self._ways = {}
        self._planes = {}
        self._running = {}
        self._ending = []
        self._number = 0
        self._trace = trace

    def _uid(self):
        return str(UUID(int=self._chance.getrandbits(128)))

    def _suffix(self):
        return "".join(self._chance.choices(_LETTERS, k=5))

    def _way(self):
        return InProcessTransport(self._application)

    # The parts

    @contextlib.asynccontextmanager
    async def going(self):
        await self.server.start()
        watching = asyncio.create_task(self.checker.watch(self.client))
        kubelet = asyncio.create_task(self._kubelet())
        try:
            await self._furnish()
            for part in ("scheduler", "controllers"):
                await self._start(part)
            yield self
        finally:
            for part in tuple(self._running):
                await self._stop(part)
            tasks = (watching, kubelet, *self._ending)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self.client.close()
            await self.server.close()

    async def _start(self, part):
        way = self._ways[part] = FaultyTransport(self._way(), self._chance, rate=self._rate, slowest=0.002)
        client = client_over(way, self._chance)
        scheduler = Options() if part == "scheduler" else None
        options = PlaneOptions(scheduler, CONTROLLERS if part == "controllers" else ())
        plane = self._planes[part] = ControlPlane(client, options, time=self._time)
        self._running[part] = asyncio.create_task(plane.run())

    async def _stop(self, part):
        """It dies in the middle of whatever it does."""
        self._ways[part].cut()
        task = self._running.pop(part)
        task.cancel()
        await asyncio.wait([task])
        if not task.cancelled() and (error := task.exception()) is not None:
            raise error

    async def _kubelet(self):
        """Pods that are to end do so, after a while."""
        ending = set()
        async with aclosing(self.client.watch(kind_of("Pod"))) as events:
            async for event in events:
                uid = event.object["metadata"].get("uid")
                if event.type == "MODIFIED" and event.object["metadata"].get("deletionTimestamp") and uid not in ending:
                    ending.add(uid)
                    self._ending.append(asyncio.create_task(self._end(event.object)))

    async def _end(self, pod):
        await asyncio.sleep(self._chance.random() * 6)
        await self._try(self._remove("Pod", pod, grace_period=0))

    async def _furnish(self):
        for kind in ("gpu", "share", "part", "net"):
            await self._create(gpus.device_class(kind))
        for name, value in (("low", 10), ("high", 100)):
            await self._create(objects.priority_class(name, value))
        for name, wanted in REQUESTS.items():
            await self._create(objects.claim_template(name, wanted, constraints=CONSTRAINTS.get(name)))
        for number in range(NODES):
            await self._add_node(f"n{number}")
        await self._create(network())

    # Reaching the server

    async def _create(self, document):
        return await make(self.client, document)

    async def _list(self, kind):
        return (await self.client.list_all(kind_of(kind)))["items"]

    async def _remove(self, kind, document, **options):
        metadata = document["metadata"]
        options = DeleteOptions(uid=metadata["uid"], **options)
        await self.client.delete(
            kind_of(kind), metadata["name"], namespace=metadata.get("namespace", ""), options=options
        )

    async def _try(self, doing):
        """What is refused is refused: names may be taken, objects gone."""
        with contextlib.suppress(ApiError):
            await doing

    async def _any(self, kind, suits=lambda _: True):
        found = [each for each in await self._list(kind) if suits(each)]
        return self.random.choice(found) if found else None

    async def _remove_any(self, kind, suits=lambda _: True):
        found = await self._any(kind, suits)
        if found is not None:
            await self._try(self._remove(kind, found))

    # Steps

    async def step(self):
        self.steps += 1
        names, weights = zip(*_STEPS.items(), strict=True)
        name = self.random.choices(names, weights)[0]
        if self._trace is not None:
            self._trace(f"{asyncio.get_running_loop().time():.2f} {name}")
        await getattr(self, name)()
        await asyncio.sleep(self.random.random() ** 3 * 3)

    async def _add_node(self, name):
        zone = f"z{int(name[1:]) % 2}"
        await self._try(self._create(objects.node(name, cpu="4", labels={"zone": zone})))
        await self._publish(name)

    async def _publish(self, name):
        for each in slices_of(name):
            await self._try(self._create(each))

    async def add_pod(self):
        self._number += 1
        choose, spec = self.random.choice, {}
        kind = self.random.random()
        if kind < 0.55:
            spec["templates"] = [choose(list(REQUESTS)) for _ in range(choose((1, 1, 1, 2)))]
        elif kind < 0.7:
            claim = await self._any("ResourceClaim", is_named)
            spec["claims"] = [claim["metadata"]["name"] if claim else "later"]
        elif kind < 0.78:
            spec["requests"] = spec["limits"] = {gpus.GPU: str(choose((1, 2)))}
        if self.random.random() < 0.4:
            spec["cpu"] = choose(("500m", "1", "2"))
        if self.random.random() < 0.3:
            spec["priorityClassName"] = choose(("low", "high"))
        chance = self.random.random()
        if chance < 0.06:
            spec["nodeSelector"] = {"zone": choose(("z0", "z1"))}
        elif chance < 0.12:
            spec["container"] = {"ports": [{"containerPort": 80, "hostPort": 8080}]}
        elif chance < 0.2:
            spec |= _social(choose(("apart", "spread")))
        labels = {"app": choose("ab")}
        pod = gpus.pod(f"p{self._number}", terminationGracePeriodSeconds=choose((0, 0, 3)), labels=labels, **spec)
        if pod["spec"]["containers"][0].get("resources", {}).get("claims") and "ports" in pod["spec"]["containers"][0]:
            del pod["spec"]["containers"][0]["ports"]
        await self._try(self._create(pod))

    async def add_gang(self):
        """Pods that start together, some of them with a rack of their own, and perhaps one more than must."""
        self._number += 1
        choose, name = self.random.choice, f"g{self._number}"
        size = choose((2, 2, 3))
        members = {"minCount": size}
        if self.random.random() < 0.4:
            members["schedulingConstraints"] = {"topology": [{"key": "zone"}]}
        if self.random.random() < 0.3:
            members["disruptionMode"] = {"all": {}}
        priority = {"priorityClassName": choose(("low", "high"))} if self.random.random() < 0.4 else {}
        await self._try(self._create(objects.pod_group(name, **members, **priority)))
        templates = [choose(("one", "pair", "part", "either", "net"))]
        for number in range(size + choose((0, 0, 0, 1))):
            spec = {"schedulingGroup": {"podGroupName": name}, "templates": templates, **priority}
            await self._try(self._create(gpus.pod(f"{name}-{number}", labels={"app": choose("ab")}, **spec)))
            if self.random.random() < 0.3:
                await asyncio.sleep(self.random.random())

    async def remove_gang(self):
        await self._remove_any("PodGroup")

    async def add_claim(self):
        self._number += 1
        kind = self.random.choice(list(REQUESTS))
        name = self.random.choice((f"c{self._number}", "later"))
        await self._try(self._create(objects.claim(name, REQUESTS[kind], constraints=CONSTRAINTS.get(kind))))

    async def remove_claim(self):
        await self._remove_any("ResourceClaim", is_named)

    async def finish_pod(self):
        pod = await self._any("Pod", _is_running)
        if pod is not None:
            place = {"namespace": "default", "subresource": "status"}
            phase = {"status": {"phase": self.random.choice(("Succeeded", "Failed"))}}
            await self._try(self.client.patch(kind_of("Pod"), pod["metadata"]["name"], phase, **place))

    async def remove_pod(self):
        await self._remove_any("Pod")

    async def relabel_pod(self):
        pod = await self._any("Pod")
        if pod is not None:
            body = {"metadata": {"labels": {"app": self.random.choice("ab")}}}
            await self._try(self.client.patch(kind_of("Pod"), pod["metadata"]["name"], body, namespace="default"))

    async def add_node(self):
        await self._add_node(f"n{self.random.randrange(NODES)}")

    async def remove_node(self):
        node = await self._any("Node")
        if node is None or len(await self._list("Node")) <= 2:
            return
        name = node["metadata"]["name"]
        await self._try(self._remove("Node", node))
        for each in await self._list("ResourceSlice"):
            if each["spec"].get("nodeName") == name:
                await self._try(self._remove("ResourceSlice", each))

    async def change_node(self):
        node = await self._any("Node")
        if node is None:
            return
        body = self.random.choice(
            (
                {"spec": {"unschedulable": True}},
                {"spec": {"unschedulable": None}},
                {"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}},
                {"spec": {"taints": None}},
                {"metadata": {"labels": {"zone": self.random.choice(("z0", "z1"))}}},
            )
        )
        await self._try(self.client.patch(kind_of("Node"), node["metadata"]["name"], body))

    async def remove_slice(self):
        await self._remove_any("ResourceSlice")

    async def add_slices(self):
        node = await self._any("Node")
        if node is not None:
            await self._publish(node["metadata"]["name"])
        await self._try(self._create(network()))

    async def taint_device(self):
        slice_ = await self._any("ResourceSlice", lambda each: each["spec"].get("devices"))
        if slice_ is None:
            return
        taints = [{"key": "k", "effect": self.random.choice(("NoSchedule", "NoExecute"))}]
        chosen = self.random.randrange(len(slice_["spec"]["devices"]))
        published = [
            {**{k: v for k, v in each.items() if k != "taints"}, **({"taints": taints} if n == chosen else {})}
            for n, each in enumerate(slice_["spec"]["devices"])
        ]
        spec = {**slice_["spec"], "devices": published}
        await self._try(self.client.update(kind_of("ResourceSlice"), {**slice_, "spec": spec}))

    async def add_rule(self):
        name = f"rule-{self.random.randrange(3)}"
        effect = self.random.choice(("NoSchedule", "NoSchedule", "NoExecute"))
        pool = f"n{self.random.randrange(NODES)}"
        spec = {"taint": {"key": "r", "effect": effect}, "deviceSelector": {"driver": objects.DRIVER, "pool": pool}}
        kind = kind_of("DeviceTaintRule")
        rule = {"apiVersion": kind.api_version, "kind": "DeviceTaintRule", "metadata": {"name": name}, "spec": spec}
        await self._try(self._create(rule))

    async def remove_rule(self):
        await self._remove_any("DeviceTaintRule")

    async def budget(self):
        found = await self._any("PodDisruptionBudget")
        if found is not None and self.random.random() < 0.6:
            await self._try(self._remove("PodDisruptionBudget", found))
            return
        selector = {"matchLabels": {"app": self.random.choice("ab")}}
        metadata = {"name": f"b{self.random.randrange(2)}"}
        body = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata}
        await self._try(self._create({**body, "spec": {"minAvailable": 1, "selector": selector}}))

    async def kill(self):
        part = self.random.choice(("scheduler", "scheduler", "controllers"))
        self.kills += 1
        await self._stop(part)
        await asyncio.sleep(self.random.random() * 2)
        await self._start(part)

    # Rest

    async def rest(self):
        """Everybody is well and has time to do what there is to do; then all must be as it should."""
        self.rests += 1
        rates = {part: way.rate for part, way in self._ways.items()}
        for way in self._ways.values():
            way.rate = 0
        await asyncio.sleep(120)
        problems = [*self.checker.problems, *await self._problems()]
        assert not problems, "\n".join(problems)
        for part, rate in rates.items():
            self._ways[part].rate = rate

    async def _problems(self):
        for part, task in self._running.items():
            if task.done():
                return [f"{part} ended: {task.exception()!r}"]
        live = self._planes["scheduler"].loop.scheduler
        pods = {each["metadata"]["uid"]: each for each in await self._list("Pod")}
        self.bound += sum(bool(each["spec"].get("nodeName")) for each in pods.values())
        fresh = await self._relisted()
        return [
            *outlived(await self._list("ResourceClaim"), pods),
            *torn(await self._list("PodGroup"), pods),
            *differences(live, fresh),
            *could_run(fresh),
        ]

    async def _relisted(self):
        """A scheduler that knows what the server knows, and nothing else."""
        fresh, now = Scheduler(), self._time.now().timestamp()
        fresh.state.groups.served.add("scheduling.k8s.io")
        cluster = ("Namespace", "Node", "DeviceClass", "ResourceSlice", "DeviceTaintRule")
        for kind in (*cluster, "PodDisruptionBudget", "PodGroup", "ResourceClaim", "Pod"):
            for each in await self._list(kind):
                fresh.put(kind, each, now)
        self._now = now
        return fresh


_STEPS = {
    "add_pod": 30,
    "add_gang": 5,
    "remove_gang": 1,
    "add_claim": 5,
    "remove_claim": 2,
    "finish_pod": 9,
    "remove_pod": 10,
    "relabel_pod": 2,
    "add_node": 3,
    "remove_node": 1,
    "change_node": 3,
    "remove_slice": 2,
    "add_slices": 4,
    "taint_device": 2,
    "add_rule": 1,
    "remove_rule": 2,
    "budget": 1,
    "kill": 2,
}


def _is_running(pod):
    return pod["spec"].get("nodeName") and (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed")


def _social(manner):
    selector = {"matchLabels": {"app": "a"}}
    if manner == "apart":
        term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": selector}
        return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}
    spread = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}
    return {"topologySpreadConstraints": [spread]}
