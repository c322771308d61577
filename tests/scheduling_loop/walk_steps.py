"""What may happen to a cluster in a random walk: pods, gangs and claims come and go, nodes and devices fail."""

from dray.testing import objects
from dray.testing.cluster import kind_of
from tests import gpus
from tests.scheduling_loop.soundness import is_named

NODES = 5
STEPS = {
    "add_pod": 30,
    "add_gang": 5,
    "add_tree": 2,
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
"""With their weights."""


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


class Steps:
    """The steps; who walks reaches the server by `client`, has chosen by `random` and lets time go by with `pause`."""

    async def _any(self, kind, suits=lambda _: True):
        found = [each for each in await self._list(kind) if suits(each)]
        return self.random.choice(found) if found else None

    async def _remove_any(self, kind, suits=lambda _: True):
        found = await self._any(kind, suits)
        if found is not None:
            await self._try(self._remove(kind, found))

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

    async def add_tree(self, labels=None, template=None):
        """Two gangs that start together."""
        self._number += 1
        name = f"t{self._number}"
        said = {"workloadRef": {"workloadName": name, "templateName": "any"}, **self._priority()}
        await self._create(objects.composite_pod_group(name, minGroupCount=2, **said))
        said["parentCompositePodGroupName"] = name
        self._trees[name] = [await self._add_gang(labels, template, sizes=(1, 2), **said) for _ in range(2)]

    def _priority(self):
        return {"priorityClassName": self.random.choice(("low", "high"))} if self.random.random() < 0.4 else {}

    async def add_gang(self, labels=None, template=None):
        """Pods that start together, some of them with a rack of their own, and perhaps one more than must."""
        await self._add_gang(labels, template, **self._priority())

    async def _add_gang(self, labels, template, *, sizes=(2, 2, 3), priorityClassName=None, **members):
        self._number += 1
        choose, name = self.random.choice, f"g{self._number}"
        size = choose(sizes)
        members["minCount"] = size
        if self.random.random() < 0.4:
            members["schedulingConstraints"] = {"topology": [{"key": "zone"}]}
        if self.random.random() < 0.3:
            members["disruptionMode"] = {"all": {}}
        priority = {"priorityClassName": priorityClassName} if priorityClassName else {}
        await self._create(objects.pod_group(name, **members, **priority))
        self.gang_made(name, size)
        templates = [template or choose(("one", "pair", "part", "either", "net"))]
        self._gangs[name] = {f"{name}-{number}" for number in range(size + choose((0, 0, 0, 1)))}
        for pod in sorted(self._gangs[name]):
            spec = {"schedulingGroup": {"podGroupName": name}, "templates": templates, **priority}
            worn = {"app": choose("ab"), **(labels or {})}
            await self._try(self._create(gpus.pod(pod, labels=worn, **spec)))
            if self.random.random() < 0.3:
                await self.pause(self.random.random())
        return name

    def gang_made(self, name, size):
        """For whoever looks after gangs."""

    async def remove_gang(self):
        await self._remove_any(self.random.choice(("PodGroup", "PodGroup", "CompositePodGroup")))

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


def _is_running(pod):
    return pod["spec"].get("nodeName") and (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed")


def _social(manner):
    selector = {"matchLabels": {"app": "a"}}
    if manner == "apart":
        term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": selector}
        return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}
    spread = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}
    return {"topologySpreadConstraints": [spread]}
