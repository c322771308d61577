"""The random walk with queues: pods and gangs of several teams that borrow, reclaim and preempt."""

import asyncio
import contextlib

from dray.client.foreign_kinds import KUEUE, definitions
from tests import gpus
from tests.scheduling.test_queues import cluster_queue, flavor, local_queue, nominal
from tests.scheduling.test_share_tree import queue as kai_queue
from tests.scheduling_loop.pod_checker import QUEUE, Gang, PodChecker, QueueLimits
from tests.scheduling_loop.walk import Walk
from tests.scheduling_loop.walk_steps import STEPS

GPU = gpus.GPU
_UNITS = (("cpu", 1000), (GPU, 1))
_RECLAIM = {"preemption": {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"}}
_NEWER = {"preemption": {"reclaimWithinCohort": "LowerPriority", "withinClusterQueue": "LowerOrNewerEqualPriority"}}


def _amounts(cpu, number):
    return {"cpu": 1000 * cpu, GPU: number}


LIMITS = {
    "a": QueueLimits(_amounts(5, 4), _amounts(7, 6), "org"),
    "b": QueueLimits(_amounts(5, 3), _amounts(10, 7), "org"),
    "first": QueueLimits(_amounts(3, 2), _amounts(3, 2)),
}
_POLICIES = {"a": _RECLAIM, "b": _NEWER, "first": {"queueingStrategy": "StrictFIFO"}}
DEVICES = {"one": 1, "pair": 2}


KAI_LABEL = "kai.scheduler/queue"
KAI_LIMITS = {
    "a": QueueLimits(_amounts(1000, 4), _amounts(1000, 6)),
    "b": QueueLimits(_amounts(1000, 3), _amounts(1000, 7)),
    "first": QueueLimits(_amounts(1000, 2), _amounts(1000, 2)),
}


def queues(flavors=1):
    """Queues of Kueue. With two flavors each has a part of the quota, for the nodes of one zone."""
    names = [f"z{n}" for n in range(flavors)] if flavors > 1 else ["any"]
    for name in names:
        yield flavor(name, **({"zone": name} if flavors > 1 else {}))
    for name, limits in LIMITS.items():
        parts = [(each, _part(limits, index, flavors)) for index, each in enumerate(names)]
        yield cluster_queue(name, *parts, cohort=limits.cohort, **_POLICIES[name])
        yield local_queue(name, name)


def limits_by_flavor(flavors):
    """The limits of the queues of Kueue by flavor and resource, with so many flavors."""
    return {
        name: QueueLimits(
            *(
                {
                    (f"z{index}", resource): unit * _share(amounts[resource] // unit, index, flavors)
                    for index in range(flavors)
                    for resource, unit in _UNITS
                }
                for amounts in (limits.nominal, limits.most)
            ),
            limits.cohort,
        )
        for name, limits in LIMITS.items()
    }


def _part(limits, index, flavors):
    """The quota of one of several flavors, which together have what the limits say."""
    shares = {}
    for resource, unit in _UNITS:
        own, most = (_share(each[resource] // unit, index, flavors) for each in (limits.nominal, limits.most))
        shares[resource] = nominal(own, borrowingLimit=max(0, most - own)) if limits.cohort else nominal(own)
    return shares


def _share(amount, index, flavors):
    return amount * (index + 1) // flavors - amount * index // flavors


def kai_queues():
    yield kai_queue("dept", quota=-1)
    for name, limits in KAI_LIMITS.items():
        yield kai_queue(name, "dept", quota=limits.nominal[GPU], limit=limits.most[GPU])


WITH_QUEUES = {
    **STEPS,
    "add_queued_pod": 20,
    "add_queued_gang": 5,
    "add_queued_tree": 2,
    "finish_pod": 14,
    "stop_queue": 1,
}
"""With their weights."""


class QueuedSteps:
    """Beside those of pods without queues."""

    queue_label = QUEUE

    async def add_queued_pod(self):
        self._number += 1
        choose, spec = self.random.choice, {}
        kind = self.random.random()
        if kind < 0.6:
            spec["templates"] = [choose(list(DEVICES))]
        elif kind < 0.75:
            spec["requests"] = spec["limits"] = {GPU: str(choose((1, 2)))}
        if not spec or self.random.random() < 0.4:
            spec["cpu"] = choose(("500m", "1"))
        if self.random.random() < 0.4:
            spec["priorityClassName"] = choose(("low", "high"))
        labels = {"app": choose("ab"), self.queue_label: choose(list(LIMITS))}
        grace = choose((0, 0, 3))
        await self._try(
            self._create(gpus.pod(f"q{self._number}", labels=labels, terminationGracePeriodSeconds=grace, **spec))
        )

    async def add_queued_gang(self):
        await self.add_gang(*self._queued())

    async def add_queued_tree(self):
        await self.add_tree(*self._queued())

    def _queued(self):
        return {self.queue_label: self.random.choice(list(LIMITS))}, self.random.choice(list(DEVICES))

    async def stop_queue(self):
        policy = self.random.choice(("Hold", "None", "None"))
        resource, name = KUEUE["ClusterQueue"], self.random.choice(list(LIMITS))
        await self._try(self.client.patch(resource, name, {"spec": {"stopPolicy": policy}}))


class QueuedWalk(QueuedSteps, Walk):
    def __init__(self, seed, **options):
        super().__init__(seed, **options)
        self.pods = PodChecker(LIMITS, DEVICES, lambda: self._time.now().timestamp())

    @contextlib.asynccontextmanager
    async def going(self):
        async with super().going() as cluster:
            watching = asyncio.create_task(self.pods.watch(self.client))
            try:
                yield cluster
            finally:
                watching.cancel()
                await asyncio.gather(watching, return_exceptions=True)

    async def _furnish(self):
        for each in definitions():
            await self._create(each)
        for each in queues():
            resource = KUEUE[each["kind"]]
            body = {"apiVersion": resource.api_version, **each}
            await self.client.create(resource, body, namespace=each["metadata"].get("namespace", ""))
        await super()._furnish()

    async def contend(self):
        """One queue borrows all it may, and another takes its own back, though somebody dies meanwhile."""
        await self._add_queued({"a": LIMITS["a"].most[GPU], "first": LIMITS["first"].most[GPU]})
        await self.rest()
        assert self.pods.used()["a", GPU] == LIMITS["a"].most[GPU]
        assert self.pods.used()["first", GPU] == LIMITS["first"].most[GPU]
        await self._add_queued({"b": LIMITS["b"].nominal[GPU]}, priorityClassName="high")
        await self.kill()
        await self.rest()
        used = self.pods.used()
        assert (used["a", GPU], used["b", GPU]) == (LIMITS["a"].nominal[GPU], LIMITS["b"].nominal[GPU])

    async def _add_queued(self, numbers, **spec):
        for queue, number in numbers.items():
            for _ in range(number):
                self._number += 1
                await self._create(gpus.pod(f"q{self._number}", labels={QUEUE: queue}, templates=["one"], **spec))

    def weights(self):
        return WITH_QUEUES

    def gang_made(self, name, size):
        self.pods.gangs[name] = Gang(size)

    async def kill(self):
        self.pods.interrupted = self._time.now().timestamp() + 5
        await super().kill()
        self.pods.interrupted = self._time.now().timestamp()

    async def _problems(self):
        return [*self.pods.problems, *await super()._problems()]

    async def _relist_queues(self, fresh, now):
        fresh.state.queues.serve("ClusterQueue")
        for kind, resource in KUEUE.items():
            for each in (await self.client.list_all(resource))["items"]:
                fresh.put(kind, each, now)
