"""The random walk of the scheduler alone, in which queues change too: quotas, policies, cohorts, and which exist.

Limits are not checked here, since queues may use more than a limit that was lowered.
"""

from copy import deepcopy

from dray.api import pod_queues
from dray.api.times import text_of
from tests.gpus import GPU
from tests.scheduling.test_queues import cohort, nominal
from tests.scheduling_loop.core_walk import CoreWalk, _run
from tests.scheduling_loop.pod_checker import PodChecker, QueueLimits
from tests.scheduling_loop.queued_walk import DEVICES, LIMITS, WITH_QUEUES

_ANYTHING = {"cpu": 10**9, GPU: 10**9}
CHANGES = {"change_quota": 3, "change_policy": 2, "change_parent": 2, "change_presence": 3, "start_pod": 25}
STEPS = {**WITH_QUEUES, **CHANGES}


class ChangingWalk(CoreWalk):
    def __init__(self, seed, system):
        self._absent = {}
        super().__init__(seed, system)
        if system != "kai":
            flavor = "any" if system == "kueue" else "z0"
            self.put(cohort("org"), cohort("unit", (flavor, {"cpu": nominal(1), GPU: nominal(1)})))

    def _serve(self, scheduler):
        super()._serve(scheduler)
        if self._system == "kai":
            # The server serves the kind, also when there is no queue.
            scheduler.state.queues.serve("Queue")

    def _checker(self):
        limits = {name: QueueLimits(_ANYTHING, _ANYTHING) for name in LIMITS}
        return PodChecker(limits, DEVICES, lambda: self.now, self.queue_label)

    def step(self):
        steps = dict(STEPS)
        if self._system == "kai":
            for name in ("stop_queue", "change_policy", "change_parent"):
                del steps[name]
        names, weights = zip(*steps.items(), strict=True)
        _run(getattr(self, self.random.choices(names, weights)[0])())
        self.go_on(self.random.random() ** 3 * 3)

    def _random_of(self, *kinds):
        found = sorted(key for key in self.objects if key[0] in kinds)
        return self.objects[self.random.choice(found)] if found else None

    def _edit(self, document, edit):
        changed = deepcopy(document)
        edit(changed["spec"])
        self.put(changed)

    def _bind(self, binds):
        super()._bind(binds)
        for bind in binds:
            pod = self._known("Pod", bind.pod.key[1], bind.pod.uid)
            if pod is not None and pod["spec"].get("nodeName"):
                # The binding records the queues that admitted the pod, which may be deleted while it runs.
                record = pod_queues.record(pod, self.state.queues.charged(bind.pod))
                annotations = {**(pod["metadata"].get("annotations") or {}), pod_queues.RECORD: record}
                metadata = {**pod["metadata"], "annotations": annotations}
                self.objects["Pod", bind.pod.key[1]] = {**pod, "metadata": metadata}

    async def stop_queue(self):
        if self._random_of("ClusterQueue") is not None:
            policy = self.random.choice(("Hold", "None", "None"))
            self._edit(self._random_of("ClusterQueue"), lambda spec: spec.update(stopPolicy=policy))

    async def start_pod(self):
        """A kubelet starts the pods of its node a while after they were bound."""
        for key, pod in list(self.objects.items()):
            status = pod.get("status") or {}
            is_new = not status.get("phase") and not status.get("startTime")
            if key[0] == "Pod" and pod["spec"].get("nodeName") and is_new:
                self.change("Pod", key[1], status={"phase": "Running", "startTime": text_of(self.now)})

    async def change_quota(self):
        random = self.random
        if self._system == "kai":
            if (queue := self._random_of("Queue")) is not None:
                gpu = {"quota": random.choice((-1, 0, 1, 3)), "limit": random.choice((-1, 1, 3, 8))}
                self._edit(queue, lambda spec: spec["resources"]["gpu"].update(gpu))
            return
        queue = self._random_of("ClusterQueue", "Cohort")
        if queue is None:
            return

        def edit(spec):
            for group in spec.get("resourceGroups") or ():
                for each in group["flavors"]:
                    for quota in each["resources"]:
                        quota["nominalQuota"] = str(random.randrange(5))
                        for limit in ("borrowingLimit", "lendingLimit"):
                            quota.pop(limit, None)
                            if (spec.get("cohortName") or spec.get("parentName")) and random.random() < 0.3:
                                quota[limit] = str(random.randrange(4))

        self._edit(queue, edit)

    async def change_policy(self):
        choose = self.random.choice
        policy = {
            "reclaimWithinCohort": choose(("Never", "LowerPriority", "Any")),
            "withinClusterQueue": choose(("Never", "LowerPriority", "LowerOrNewerEqualPriority")),
        }
        strategy = choose(("StrictFIFO", "BestEffortFIFO"))
        if (queue := self._random_of("ClusterQueue")) is not None:
            self._edit(queue, lambda spec: spec.update(preemption=policy, queueingStrategy=strategy))

    async def change_parent(self):
        parent = self.random.choice(("", "org", "unit"))
        if (queue := self._random_of("ClusterQueue")) is not None:

            def edit(spec):
                spec["cohortName"] = parent
                for group in spec["resourceGroups"] if not parent else ():
                    for each in group["flavors"]:
                        for quota in each["resources"]:
                            quota.pop("borrowingLimit", None)
                            quota.pop("lendingLimit", None)

            self._edit(queue, edit)

    async def change_presence(self):
        if self._absent and self.random.random() < 0.7:
            key = self.random.choice(sorted(self._absent))
            document = self._absent.pop(key)
            self.put({**document, "metadata": {**document["metadata"], "uid": None}})
        elif (found := self._random_of("ClusterQueue", "LocalQueue", "ResourceFlavor", "Cohort", "Queue")) is not None:
            key = found["kind"], found["metadata"]["name"]
            self._absent[key] = found
            self.remove(*key)
