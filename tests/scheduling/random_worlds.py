"""Random worlds: small clusters with queues, on which jobs of all kinds come and end.

Everything that is checked is worked out from the objects alone, without code of the scheduler. After every decision:
no device is held twice, no counter is overdrawn, no node has too little cpu, and no queue and no cohort has more than
it may have. At rest: the scheduler has come to an end, no gang is torn, and a fresh scheduler finds nothing to do.
"""

from collections import Counter
from dataclasses import dataclass, field
from random import Random

from dray.planning.player import Endless, Player
from dray.scheduling.quota.kai.policy import KaiQueues
from dray.scheduling.scheduler import Options
from dray.testing import objects
from tests import gpus
from tests.scheduling.test_queues import GPU, QUEUE, cluster_queue, cohort, flavor, local_queue
from tests.scheduling.test_share_tree import queue as kai_queue
from tests.scheduling_loop.checker import Checker
from tests.scheduling_loop.soundness import could_run, keep_reserved, kept_off
from tests.scheduling_loop.walk_steps import REQUESTS, slices_of

PREFIX = "kueue.x-k8s.io/"
KAI_LABEL = "kai.scheduler/queue"
KAI = "scheduling.run.ai/v2alpha2"
TEAMS = ("a", "b", "c", "d")
SYSTEMS = ("native", "kueue", "kai")
RESOURCES = (GPU, "cpu")
COUNT = {"one": 1, "pair": 2, "part": 0, "share": 0}
"""How many GPUs with a quota a claim of this kind holds."""
MOST_EVICTIONS = 8
"""How often a pod may be evicted until the scheduler is at rest again."""


@dataclass
class Quota:
    """What a queue or a cohort has of one resource in one flavor."""

    nominal: int
    borrowing: int | None = None
    lending: int | None = None


@dataclass
class Member:
    """A queue or a cohort of a tree."""

    parent: str
    quotas: dict = field(default_factory=dict)
    """By flavor and resource."""


@dataclass
class Job:
    name: str
    size: int
    least: int
    kind: str
    """What each pod claims."""
    cpu: int
    team: str
    whole: bool
    """Whether its pods are evicted together or not at all."""
    documents: list


class World(Player):
    def __init__(self, seed, system):
        self.chance = Random(f"{system} {seed}")
        self.system = system
        self.flavors = ("any",) if self.chance.random() < 0.5 else ("left", "right")
        self.tree, self.limits, self.jobs = {}, {}, {}
        self.number = 0
        self.problems = []
        documents = [*self._nodes(), *self._queues()]
        self.devices = Checker([each for each in documents if each["kind"] == "ResourceSlice"])
        self.fixed = [gpus.device_class(name) for name in ("gpu", "part", "share")] + documents
        super().__init__(self.fixed, recreate=True)

    # What there is

    def _nodes(self):
        chance = self.chance
        for number in range(chance.randint(2, 4)):
            name = f"n{number}"
            labels = {"rack": f"r{number % 2}", "flavor": self.flavors[number % len(self.flavors)]}
            yield objects.node(name, cpu=str(chance.choice((3, 6, 12))), labels=labels)
            yield from slices_of(name) if chance.random() < 0.5 else [gpus.slice_of(name, chance.choice((2, 4)))]

    def _queues(self):
        if self.system == "kueue":
            yield from self._cluster_queues()
        if self.system == "kai":
            yield kai_queue("top", quota=-1, limit=self._limit("top", 6, 10))
            for team in TEAMS:
                parent, quota = self.chance.choice(("top", "top", "top", "")), self.chance.randint(0, 4)
                yield kai_queue(team, parent, quota=quota, limit=self._limit(team, 2, 6, parent))

    def _limit(self, name, least, most, parent=""):
        """The limit of a queue of KAI; -1 for none."""
        limit = self.chance.randint(least, most) if self.chance.random() < 0.5 else -1
        self.limits[name] = parent, limit
        return limit

    def _cluster_queues(self):
        chance = self.chance
        fair = {"fairSharing": {}} if chance.random() < 0.4 else {}
        for name in self.flavors:
            yield flavor(name, **({} if name == "any" else {"flavor": name}))
        for name, parent in (("org", ""), ("unit", "org"), ("lab", "unit")):
            self.tree[name] = Member(parent, self._quotas(2) if chance.random() < 0.5 else {})
            yield cohort(name, *self._written(name), parentName=parent, **fair)
        for name in TEAMS:
            self.tree[name] = Member(chance.choice(("", "org", "unit", "lab")), self._quotas(5))
            policy = {
                "reclaimWithinCohort": chance.choice(("Never", "LowerPriority", "Any", "Any")),
                "withinClusterQueue": chance.choice(("Never", "LowerPriority", "LowerOrNewerEqualPriority")),
            }
            spec = {"queueingStrategy": chance.choice(("StrictFIFO", "BestEffortFIFO")), "preemption": policy}
            queue = cluster_queue(name, *self._written(name), cohort=self.tree[name].parent, **spec)
            queue["metadata"]["annotations"] = {"dray.dev/uncovered-device-classes": "allow"}
            yield queue
            yield local_queue(name, name)

    def _quotas(self, most):
        return {(name, each): self._quota(most * (1 + (each == "cpu"))) for name in self.flavors for each in RESOURCES}

    def _quota(self, most):
        limits = {each: self.chance.randrange(4) for each in ("borrowing", "lending") if self.chance.random() < 0.25}
        return Quota(self.chance.randint(0, most), **limits)

    def _written(self, name):
        """The quotas of a queue or cohort as its spec has them."""
        member = self.tree[name]
        return [
            (each, {resource: self._spec(member, each, resource) for resource in RESOURCES})
            for each in self.flavors
            if member.quotas
        ]

    def _spec(self, member, name, resource):
        quota = member.quotas[name, resource]
        spec = {"nominalQuota": quota.nominal}
        if member.parent:
            spec |= {"borrowingLimit": quota.borrowing, "lendingLimit": quota.lending}
        return {key: value for key, value in spec.items() if value is not None}

    # What comes and ends

    def step(self):
        if self.jobs and self.chance.random() < 0.35:
            self._end(self.jobs.pop(self.chance.choice(sorted(self.jobs))))
        else:
            self._submit()
        before = len(self.evicted)
        try:
            self.settle()
        except Endless as error:
            self.problems.append(f"there is no end to it: {error}")
        self.problems += [*self._storm(before), *self._torn(), *self._forgotten(), *self.errors]

    def _submit(self):
        chance = self.chance
        self.number += 1
        size = chance.choice((1, 1, 2, 3, 4))
        least = size if chance.random() < 0.7 else chance.randint(1, size)
        job = Job(
            f"j{self.number}",
            size,
            least,
            chance.choice(("one", "one", "one", "pair", "part", "share")),
            chance.choice((0, 1, 1, 2)),
            chance.choice(("", *TEAMS, *TEAMS)) if self.system != "native" else "",
            chance.random() < 0.5,
            [],
        )
        job.documents += self._written_job(job, chance.choice((0, 0, 5, 10)))
        self.jobs[job.name] = job
        for document in job.documents:
            self.put(document)

    def _written_job(self, job, priority):
        labels, annotations, spec, group = {}, {}, {"priority": priority}, None
        if job.team:
            labels[QUEUE if self.system == "kueue" else KAI_LABEL] = job.team
        if job.size > 1:
            group = self._group(job, labels, annotations, spec)
        for number in range(job.size):
            name = f"{job.name}-{number}"
            yield objects.claim(name, REQUESTS[job.kind])
            made = {"labels": dict(labels), "annotations": dict(annotations), "claims": [name], **spec}
            yield gpus.pod(name, cpu=str(job.cpu) if job.cpu else None, **made)
        if group is not None:
            yield group

    def _group(self, job, labels, annotations, spec):
        """The group of the job's pods, if an object stands for it; what names it is added to the rest."""
        if self.system == "kueue" and job.team and self.chance.random() < 0.5:
            job.least, job.whole = job.size, True
            labels[f"{PREFIX}pod-group-name"] = job.name
            annotations[f"{PREFIX}pod-group-total-count"] = str(job.size)
            return None
        if self.system == "kai" and job.team:
            annotations["pod-group-name"] = job.name
            job.whole = True
            said = {"minMember": job.least, "queue": job.team}
            return {"apiVersion": KAI, "kind": "PodGroup", "metadata": {"name": job.name}, "spec": said}
        spec["schedulingGroup"] = {"podGroupName": job.name}
        members = {"disruptionMode": {"all": {}}} if job.whole else {}
        if self.chance.random() < 0.3:
            members["schedulingConstraints"] = {"topology": [{"key": "rack"}]}
        return objects.pod_group(job.name, minCount=job.least, **members)

    def _end(self, job):
        for number in range(job.size):
            self.delete_pod(f"{job.name}-{number}")
            self.remove("ResourceClaim", f"{job.name}-{number}")
        for document in job.documents:
            if document["kind"] == "PodGroup":
                kai = document["apiVersion"] == KAI
                self.remove("PodGroup.scheduling.run.ai" if kai else "PodGroup", job.name)

    # What must hold after every decision

    def do(self, action):
        changed = super().do(action)
        if changed:
            self.problems += self.devices.problems_of(self.stored.of_kind("ResourceClaim"))
            self.problems += [*self._short_nodes(), *self._above_limits()]
            if self.tree:
                self.problems += self._overdrawn()
        return changed

    def _running(self):
        """Pods on nodes, with their jobs."""
        for name, node in self.node_of_pods().items():
            if node:
                yield self.jobs[name.rpartition("-")[0]], node

    def _short_nodes(self):
        used = Counter()
        for job, node in self._running():
            used[node] += job.cpu
        most = {each["metadata"]["name"]: int(each["status"]["allocatable"]["cpu"]) for each in self._all("Node")}
        return [f"node {node} gives {cpu} cpu of {most[node]}" for node, cpu in used.items() if cpu > most[node]]

    def _all(self, kind):
        return list(self.stored.of_kind(kind))

    def _above_limits(self):
        """Queues of KAI that have more GPUs than their limit."""
        used = Counter()
        for job, _ in self._running():
            name = job.team if self.limits else ""
            while name:
                used[name] += COUNT[job.kind]
                name = self.limits[name][0]
        return [f"queue {name} has {n} GPUs" for name, n in used.items() if 0 <= self.limits[name][1] < n]

    def _overdrawn(self):
        """Queues and cohorts of Kueue that have more than their quota and what they may borrow."""
        flavors = {each["metadata"]["name"]: each["metadata"]["labels"]["flavor"] for each in self._all("Node")}
        used = Counter()
        for job, node in self._running():
            for resource, amount in ((GPU, COUNT[job.kind]), ("cpu", job.cpu)):
                used[job.team, flavors[node], resource] += amount if job.team else 0
        return [
            problem
            for name in self.flavors
            for resource in RESOURCES
            for problem in self._tree_problems(name, resource, used)
        ]

    def _tree_problems(self, name, resource, used):
        total, taken, problems = Counter(), Counter(), []
        # Each comes after those below it.
        for member in (*TEAMS, "lab", "unit", "org"):
            quota = self.tree[member].quotas.get((name, resource), Quota(0))
            total[member] += quota.nominal
            taken[member] += used[member, name, resource]
            parent = self.tree[member].parent
            most = total[member] + quota.borrowing if parent and quota.borrowing is not None else None
            most = total[member] if not parent else most
            if most is not None and taken[member] > most:
                problems.append(f"{member} has {taken[member]} {resource} of {name}, and may have {most}")
            own = max(0, total[member] - quota.lending) if parent and quota.lending is not None else 0
            total[parent] += total[member] - own
            taken[parent] += max(0, taken[member] - own)
        return problems

    # What must hold at rest

    def _storm(self, before):
        times = Counter(name for _, name in self.evicted[before:])
        return [f"{name} was evicted {n} times for one change" for name, n in times.items() if n > MOST_EVICTIONS]

    def _torn(self):
        placed = Counter(job.name for job, _ in self._running())
        return [
            f"{placed[name]} pods of {name} run, and {job.least} have to run together"
            for name, job in self.jobs.items()
            if job.whole and 0 < placed[name] < job.least
        ]

    def _forgotten(self):
        """What a scheduler would do that knows the same objects and nothing else."""
        kinds = ("PodGroup", "PodGroup.scheduling.run.ai", "ResourceClaim", "Pod")
        stored = [document for kind in kinds for document in self._all(kind)]
        fresh = Player([*self.fixed, *stored], options=Options(reservation_seconds=0)).scheduler
        if self.system == "kai":
            fresh.state.queues.system(KaiQueues).count_outside(fresh.state.nodes.values())
        keep_reserved(self.scheduler, fresh)
        # It spares the same pods.
        fresh.state.evictions = self.scheduler.state.evictions
        return could_run(fresh, kept_off(self.scheduler))


class GracefulWorld(World):
    """Evicted pods take their time to end, and are created again afterwards."""

    def __init__(self, seed, system):
        self._ending = []
        super().__init__(seed, system)

    def _evict_pod(self, victim, eviction=None):
        self._linger = {victim.key[1]}
        if not super()._evict_pod(victim, eviction):
            return False
        self._ending.append((self.now + self.chance.choice((1, 15, 50)), victim))
        return True

    def _evict_beside_scheduler(self):
        due = [victim for when, victim in self._ending if when <= self.now]
        self._ending = [(when, victim) for when, victim in self._ending if when > self.now]
        for victim in due:
            pod = self.stored.get("Pod", *victim.key)
            if pod is not None and pod["metadata"]["uid"] == victim.uid:
                self.delete_pod(victim.key[1])
                self._create_again(pod, ())
        return [*super()._evict_beside_scheduler(), bool(due), bool(self._ending)]
