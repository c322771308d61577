"""Whether queues and gangs keep what they promise, at every version that pods ever have, worked out from objects alone.

It shares no code with the scheduler: what a pod takes is read from its spec, and limits from those of the queues.
"""

from contextlib import aclosing
from dataclasses import dataclass, field

from dray.client.errors import ApiError
from dray.testing.cluster import kind_of
from tests import gpus

QUEUE = "kueue.x-k8s.io/queue-name"
_ENDED = ("Succeeded", "Failed")


@dataclass
class QueueLimits:
    """Of a queue, by resource."""

    nominal: dict
    most: dict
    """With what it may borrow; of a queue without a cohort it is the same."""
    cohort: str = ""


@dataclass
class Gang:
    size: int
    disturbed: bool = False
    """Whether a pod of it went, or ended: then it need not be whole any more."""
    torn_since: float | None = None
    started: set = field(default_factory=set)


class PodChecker:
    """`devices` says how many GPUs a claim from a template has, `now` tells the time, `label` names a pod's queue."""

    def __init__(self, limits, devices, now, label=QUEUE):
        self._limits = limits
        self._label = label
        self._devices = devices
        self._now = now
        self._pods = {}
        self.gangs = {}
        self.interrupted = -1e9
        """When a scheduler died the last time."""
        self.problems = []
        self.events = 0
        self.highest = {}
        """The most that a queue ever had, by queue and resource."""

    async def watch(self, client):
        """Until it is cancelled."""
        while True:
            listed = await client.list_all(kind_of("Pod"))
            self._pods = {each["metadata"]["uid"]: each for each in listed["items"]}
            self._look("the list")
            try:
                version = listed["metadata"]["resourceVersion"]
                async with aclosing(client.watch(kind_of("Pod"), resource_version=version)) as events:
                    async for event in events:
                        if event.type != "BOOKMARK":
                            self.take(event)
            except ApiError as error:
                if not (error.is_gone or error.is_ahead):
                    raise

    def take(self, event):
        self.events += 1
        pod = event.object
        uid = pod["metadata"]["uid"]
        gang = self.gangs.get((pod["spec"].get("schedulingGroup") or {}).get("podGroupName"))
        if event.type == "DELETED":
            self._pods.pop(uid, None)
        else:
            self._pods[uid] = pod
        if gang is not None:
            going = event.type == "DELETED" or pod["metadata"].get("deletionTimestamp") or _has_ended(pod)
            gang.disturbed = gang.disturbed or bool(going)
        self._look(pod["metadata"]["resourceVersion"])

    def _look(self, at):
        self._look_at_queues(at)
        self._look_at_gangs(at)

    # Queues

    def _look_at_queues(self, at):
        used = self.used()
        for (queue, resource), amount in used.items():
            self.highest[queue, resource] = max(amount, self.highest.get((queue, resource), 0))
            if amount > self._limits[queue].most[resource]:
                self.problems.append(f"at {at}: queue {queue} has {amount} of {resource}")
        for cohort in {each.cohort for each in self._limits.values() if each.cohort}:
            members = {name: each for name, each in self._limits.items() if each.cohort == cohort}
            for resource in {name for each in members.values() for name in each.nominal}:
                total = sum(used.get((name, resource), 0) for name in members)
                if total > sum(each.nominal[resource] for each in members.values()):
                    self.problems.append(f"at {at}: cohort {cohort} has {total} of {resource}")

    def used(self):
        used = {}
        for pod in self._pods.values():
            queue = (pod["metadata"].get("labels") or {}).get(self._label)
            if queue not in self._limits or not pod["spec"].get("nodeName") or _has_ended(pod):
                continue
            for resource, amount in self._taken(pod).items():
                used[queue, resource] = used.get((queue, resource), 0) + amount
        return used

    def _taken(self, pod):
        requests = pod["spec"]["containers"][0].get("resources", {}).get("requests") or {}
        cpu = requests.get("cpu", "0")
        templates = [each.get("resourceClaimTemplateName") for each in pod["spec"].get("resourceClaims") or ()]
        devices = sum(self._devices[each] for each in templates) + int(requests.get(gpus.GPU, 0))
        return {"cpu": int(cpu[:-1]) if cpu.endswith("m") else 1000 * int(cpu), gpus.GPU: devices}

    # Gangs

    def _look_at_gangs(self, at):
        started = {}
        for pod in self._pods.values():
            name = (pod["spec"].get("schedulingGroup") or {}).get("podGroupName")
            if name in self.gangs and pod["spec"].get("nodeName"):
                started.setdefault(name, set()).add(pod["metadata"]["name"])
        for name, gang in self.gangs.items():
            number = len(started.get(name, ()))
            if gang.disturbed or not 0 < number < gang.size:
                gang.torn_since = None
                continue
            now = self._now()
            gang.torn_since = now if gang.torn_since is None else gang.torn_since
            began = max(gang.torn_since, self.interrupted)
            if now - began > 60:
                self.problems.append(f"at {at}: for {now - began:.0f} s {number} of {gang.size} pods of {name} run")


def _has_ended(pod):
    return (pod.get("status") or {}).get("phase") in _ENDED
