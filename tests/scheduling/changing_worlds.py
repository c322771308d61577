"""Random worlds that change: quotas, queues, cohorts, nodes, devices and groups change or go while jobs run and wait.

Limits of queues are not checked here, since queues may use more than a limit that was lowered.
"""

from collections import Counter
from copy import deepcopy

from dray.api import pod_queues
from dray.api.times import text_of
from dray.planning.player import Player
from dray.scheduling.quota.kai.policy import KaiQueues
from dray.scheduling.scheduler import Options
from dray.testing import objects
from tests.scheduling.random_worlds import KAI, TEAMS, World
from tests.scheduling_loop.soundness import could_run, keep_reserved, kept_off
from tests.scheduling_loop.walk_steps import REQUESTS

CHANGES = {
    "native": ("node", "slices", "group", "pod"),
    "kueue": ("node", "slices", "group", "pod", "quota", "parent", "stop", "policy", "presence", "quota"),
    "kai": ("node", "slices", "group", "pod", "kai_queue", "kai_presence", "kai_queue"),
}
KINDS = (
    *("DeviceClass", "Node", "ResourceSlice", "ResourceFlavor", "Cohort", "ClusterQueue", "LocalQueue", "Queue"),
    *("PodGroup", "PodGroup.scheduling.run.ai", "ResourceClaim", "Pod"),
)


class ChangingWorld(World):
    def __init__(self, seed, system):
        self.absent = {}
        """Objects that were deleted and come back, by kind and name."""
        self.used = {}
        """The cpu that pods use on each node, as it was when it was last checked."""
        self.loose = set()
        """Jobs that may be torn: pods of them were deleted, or their minimum was raised."""
        self.log = []
        super().__init__(seed, system)

    def step(self):
        if self.chance.random() < 0.5:
            self._change(self.chance.choice(CHANGES[self.system]))
        super().step()

    def _change(self, what):
        getattr(self, f"_change_{what}")()
        self.problems += [f"after {self.log[-1:]}: {error}" for error in self.errors]

    def _note(self, *said):
        self.log.append(" ".join(map(str, said)))

    def _random(self, kind):
        return self.chance.choice(sorted(self._all(kind), key=lambda each: each["metadata"]["name"]) or [None])

    def _edit(self, document, edit):
        changed = deepcopy(document)
        edit(changed["spec"])
        self.put(changed)

    # Nodes

    def _change_node(self):
        node = self._random("Node")
        name, number = node["metadata"]["name"] if node else "", self.chance.random()
        if node is None or number < 0.2:
            self._note("nodes come back")
            for key in [key for key in self.absent if key[0] == "Node"]:
                self._bring_back(*key)
        elif number < 0.6:
            self._note("cordon or uncordon", name)
            self._edit(node, lambda spec: spec.update(unschedulable=not spec.get("unschedulable")))
        elif number < 0.8:
            self._note("new cpu", name)
            cpu = str(self.chance.choice((2, 3, 6, 12)))
            resources = {**node["status"]["allocatable"], "cpu": cpu}
            self.put({**node, "status": {**node["status"], "allocatable": resources, "capacity": resources}})
        else:
            self._note("node goes", name)
            self._take_away("Node", node)
            self._lose(lambda pod: pod["spec"].get("nodeName") == name)

    def _lose(self, is_lost):
        """Pods that go, and are made again."""
        for pod in list(self._all("Pod")):
            if is_lost(pod):
                self.delete_pod(pod["metadata"]["name"])
                self._create_again(pod, ())
                self.loose.add(pod["metadata"]["name"].rpartition("-")[0])

    def _take_away(self, kind, document):
        name = document["metadata"]["name"]
        self.absent[kind, name] = document
        namespace = document["metadata"].get("namespace", "")
        self.stored.remove(kind, namespace, name, self.now)

    def _bring_back(self, kind, name):
        document = self.absent.pop((kind, name))
        metadata = {key: value for key, value in document["metadata"].items() if key not in ("uid", "resourceVersion")}
        self.put({**document, "metadata": metadata})

    def _bind(self, binds):
        changed = super()._bind(binds)
        for bind in binds:
            pod = self.stored.get("Pod", *bind.pod.key)
            # The binding records the queues that admitted the pod, which may be deleted while it runs.
            record = pod_queues.record(pod, self.scheduler.state.queues.charged(bind.pod))
            annotations = {**(pod["metadata"].get("annotations") or {}), pod_queues.RECORD: record}
            # Kubelets start pods a while after they were bound.
            status = {**pod["status"], "startTime": text_of(self.now + self.chance.choice((0, 3, 30)))}
            self.put({**pod, "metadata": {**pod["metadata"], "annotations": annotations}, "status": status})
        return changed

    def _create_again(self, pod, claims):
        annotations = {**(pod["metadata"].get("annotations") or {})}
        annotations.pop(pod_queues.RECORD, None)
        super()._create_again({**pod, "metadata": {**pod["metadata"], "annotations": annotations}}, claims)

    def _change_slices(self):
        gone = [key for key in self.absent if key[0] == "ResourceSlice"]
        if gone and self.chance.random() < 0.7:
            self._note("slice comes back", gone[0][1])
            self._bring_back(*gone[0])
        elif (found := self._random("ResourceSlice")) is not None:
            self._note("slice goes", found["metadata"]["name"])
            self._take_away("ResourceSlice", found)

    # Groups and pods

    def _change_group(self):
        kind = self.chance.choice(("PodGroup", "PodGroup.scheduling.run.ai"))
        group = self._random(kind)
        if group is None:
            return
        name = group["metadata"]["name"]
        job = self.jobs[name]
        least = self.chance.randint(1, job.size)
        self._note("minimum of", name, least)
        if least > job.least:
            self.loose.add(name)
        job.least = least
        if group["apiVersion"] == KAI:
            self._edit(group, lambda spec: spec.update(minMember=least))
        else:
            self._edit(group, lambda spec: spec["schedulingPolicy"].update(gang={"minCount": least}))

    def _change_pod(self):
        pod, number = self._random("Pod"), self.chance.random()
        if pod is None:
            return
        name = pod["metadata"]["name"]
        job = self.jobs[name.rpartition("-")[0]]
        self.loose.add(job.name)
        if number < 0.4 and not any(key.endswith("pod-group-name") for key in pod["metadata"]["labels"]):
            self._note("one pod more for", job.name)
            self._grow(job, pod)
        else:
            self._note("pod is deleted and made again", name)
            self._lose(lambda each: each["metadata"]["name"] == name)

    def _grow(self, job, pod):
        number = job.size
        name = f"{job.name}-{number}"
        job.size += 1
        spec = {key: value for key, value in pod["spec"].items() if key != "nodeName"}
        if spec.get("resourceClaims"):
            self.put(objects.claim(name, REQUESTS[job.kind]))
            spec["resourceClaims"] = [{**spec["resourceClaims"][0], "resourceClaimName": name}]
        metadata = {key: dict(pod["metadata"][key]) for key in ("labels", "annotations") if key in pod["metadata"]}
        metadata.get("annotations", {}).pop(pod_queues.RECORD, None)
        self.put({**pod, "metadata": {"name": name, **metadata}, "spec": spec, "status": {"phase": "Pending"}})

    # Queues of Kueue

    def _written_again(self, name):
        for kind in ("Cohort", "ClusterQueue"):
            for document in self._all(kind):
                if document["metadata"]["name"] == name:
                    return document
        return None

    def _change_quota(self):
        name = self.chance.choice((*TEAMS, "org", "unit", "lab"))
        document = self._written_again(name)
        if document is None:
            return
        member = self.tree[name]
        keep = document["kind"] == "ClusterQueue" or self.chance.random() < 0.6
        member.quotas = self._quotas(5 if document["kind"] == "ClusterQueue" else 2) if keep else {}
        self._note("quota of", name, member.quotas)
        self._put_quotas(document, name)

    def _put_quotas(self, document, name):
        member = self.tree[name]
        groups = [
            {
                "coveredResources": sorted({resource for _, resource in member.quotas}),
                "flavors": [
                    {
                        "name": flavor,
                        "resources": [
                            {"name": resource, **{key: str(value) for key, value in spec.items()}}
                            for resource, spec in sorted(quotas.items())
                        ],
                    }
                    for flavor, quotas in self._written(name)
                ],
            }
        ]
        self._edit(document, lambda spec: spec.update(resourceGroups=groups if member.quotas else []))

    def _change_parent(self):
        name = self.chance.choice((*TEAMS, "unit", "lab"))
        document = self._written_again(name)
        if document is None:
            return
        parents = {"unit": ("", "org"), "lab": ("", "org", "unit")}.get(name, ("", "org", "unit", "lab"))
        self.tree[name].parent = parent = self.chance.choice(parents)
        self._note("parent of", name, parent)
        if not parent:
            for quota in self.tree[name].quotas.values():
                quota.borrowing = quota.lending = None
        field = "cohortName" if document["kind"] == "ClusterQueue" else "parentName"
        self._edit(document, lambda spec: spec.update({field: parent}) if parent else spec.pop(field, None))
        if self.tree[name].quotas:
            self._put_quotas(self._written_again(name), name)

    def _change_stop(self):
        kind = self.chance.choice(("ClusterQueue", "LocalQueue"))
        if (queue := self._random(kind)) is not None:
            policy = self.chance.choice(("Hold", "HoldAndDrain", "None", "None"))
            self._note("stopPolicy of", kind, queue["metadata"]["name"], policy)
            self._edit(queue, lambda spec: spec.update(stopPolicy=policy))

    def _change_policy(self):
        if (queue := self._random("ClusterQueue")) is None:
            return
        chance = self.chance
        policy = {
            "reclaimWithinCohort": chance.choice(("Never", "LowerPriority", "Any", "Any")),
            "withinClusterQueue": chance.choice(("Never", "LowerPriority", "LowerOrNewerEqualPriority")),
        }
        self._note("preemption of", queue["metadata"]["name"], policy)
        self._edit(queue, lambda spec: spec.update(preemption=policy))

    def _change_presence(self):
        kind = self.chance.choice(("ClusterQueue", "LocalQueue", "Cohort", "ResourceFlavor"))
        gone = [key for key in self.absent if key[0] == kind]
        if gone:
            self._note("comes back", *gone[0])
            self._bring_back(*gone[0])
        elif (found := self._random(kind)) is not None:
            self._note("goes", kind, found["metadata"]["name"])
            self._take_away(kind, found)

    # Queues of KAI

    def _change_kai_queue(self):
        if (queue := self._random("Queue")) is None:
            return
        name = queue["metadata"]["name"]
        parent = self.limits[name][0]
        limit = self._limit(name, 2, 8, parent)
        quota = self.chance.choice((-1, 0, 1, 2, 4))
        self._note("queue", name, quota, limit)

        def edit(spec):
            spec["resources"]["gpu"].update(quota=quota, limit=limit)
            if self.chance.random() < 0.3:
                spec["priority"] = self.chance.choice((50, 100, 200))

        self._edit(queue, edit)

    def _change_kai_presence(self):
        gone = [key for key in self.absent if key[0] == "Queue"]
        if gone:
            self._note("comes back", *gone[0])
            self._bring_back(*gone[0])
        elif (found := self._random("Queue")) is not None:
            self._note("goes", "Queue", found["metadata"]["name"])
            self._take_away("Queue", found)

    # What must hold

    def _short_nodes(self):
        """Pods may use more than a node has after its cpu was changed, but not more than before."""
        before, self.used = self.used, Counter()
        for job, node in self._running():
            self.used[node] += job.cpu
        most = {each["metadata"]["name"]: int(each["status"]["allocatable"]["cpu"]) for each in self._all("Node")}
        return [
            f"node {node} gives {cpu} cpu of {most[node]}"
            for node, cpu in self.used.items()
            if cpu > max(most[node], before.get(node, 0))
        ]

    def _running(self):
        nodes = {each["metadata"]["name"] for each in self._all("Node")}
        return [(job, node) for job, node in super()._running() if node in nodes]

    def _above_limits(self):
        return []

    def _tree_problems(self, name, resource, used):
        return []

    def _torn(self):
        return [each for each in super()._torn() if each.split(" of ", 1)[1].split(" ")[0] not in self.loose]

    def _forgotten(self):
        stored = [document for kind in KINDS for document in self._all(kind)]
        player = Player([], start=self.now, options=Options(reservation_seconds=0))
        # The server serves the kinds of queues, also when there is no queue.
        player._serve({"ClusterQueue"} if self.system == "kueue" else ())
        if self.system == "kai":
            player.scheduler.state.queues.serve("Queue")
        for document in stored:
            player.put(document)
        fresh = player.scheduler
        if self.system == "kai":
            fresh.state.queues.system(KaiQueues).count_outside(fresh.state.nodes.values())
        keep_reserved(self.scheduler, fresh)
        fresh.state.evictions = self.scheduler.state.evictions
        return could_run(fresh, kept_off(self.scheduler), self.now)
