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
    """`devices` says how many GPUs a claim from a template has, `now` tells the time, `label` names a pod's queue.

    With `flavor_of`, which tells the flavor of a node by its name, limits are by flavor and resource. If nodes get
    another flavor, queues may have too much of it, which then only becomes less.
    """

    def __init__(self, limits, devices, now, label=QUEUE, flavor_of=None):
        self._limits = limits
        self._flavor_of = flavor_of
        self._changed = -1e9
        """When nodes got other flavors the last time."""
        self._excused = {}
        """How much a queue or cohort has since then that is above its limit."""
        self._label = label
        self._devices = devices
        self._now = now
        self._pods = {}
        self.gangs = {}
        self.interrupted = -1e9
        """When a scheduler died the last time."""
        self.problems = []
        self.events = 0

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

    def nodes_changed(self):
        """Says that a node came, went or has other labels."""
        self._changed = self._now()
        self._look("the change of a node")

    def _look_at_queues(self, at):
        above = dict(self._above())
        self._excused = {account: most for account, most in self._excused.items() if account in above}
        for account, amount in above.items():
            # What was decided before a change is written soon after it.
            if amount > self._excused.get(account, 0) and self._now() - self._changed > 1:
                self.problems.append(f"at {at}: {account[0]} has {amount} of {account[1]}")
            self._excused[account] = amount

    def _above(self):
        """Yields the queues and cohorts that have more than they may, with the resource and how much of it."""
        used = self.used()
        for (queue, resource), amount in used.items():
            if amount > self._limits[queue].most[resource]:
                yield (f"queue {queue}", resource), amount
        for cohort in {each.cohort for each in self._limits.values() if each.cohort}:
            members = {name: each for name, each in self._limits.items() if each.cohort == cohort}
            for resource in {name for each in members.values() for name in each.nominal}:
                total = sum(used.get((name, resource), 0) for name in members)
                if total > sum(each.nominal[resource] for each in members.values()):
                    yield (f"cohort {cohort}", resource), total

    def used(self):
        used = {}
        for pod in self._pods.values():
            queue = (pod["metadata"].get("labels") or {}).get(self._label)
            if queue not in self._limits or not pod["spec"].get("nodeName") or _has_ended(pod):
                continue
            for resource, amount in self._taken(pod).items():
                account = (queue, (self._flavor_of(pod["spec"]["nodeName"]), resource) if self._flavor_of else resource)
                used[account] = used.get(account, 0) + amount
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
