"""Pods come, end and go for each other in queues of all policies: no queue has too much, and there is an end to it."""

import random

import pytest

from dray.scheduling.quota.kueue.policy import KueueQueues
from dray.testing import objects
from tests import gpus
from tests.scheduling.core import Core, victims
from tests.scheduling.test_queues import GPU, cluster_queue, cohort, flavor, local_queue, nominal, put_gang, queued

QUEUES = ("a", "b", "c", "d")
COHORTS = {"left": "org", "right": "org", "lower": "left"}
"""With the ones above."""


class Walk:
    def __init__(self, seed):
        self.random = random.Random(seed)
        fair = {"fairSharing": {}} if self.random.random() < 0.5 else {}
        self.core = Core(objects.node("n", cpu="64"), gpus.slice_of("n", 8), objects.node("m", cpu="64"), flavor())
        self.core.put(gpus.slice_of("m", 8), cohort("org", ("any", {GPU: nominal(2)}), **fair))
        for name, above in COHORTS.items():
            quotas = [("any", {GPU: nominal(self.random.randrange(4), **self.limits())})] if self.chance(0.5) else []
            self.core.put(cohort(name, *quotas, parentName=above))
        for name in QUEUES:
            above = self.random.choice(("org", *COHORTS))
            self.core.put(self.queue(name, above), local_queue(name, name))
        self.number = 0

    def limits(self):
        return {key: self.random.randrange(5) for key in ("borrowingLimit", "lendingLimit") if self.chance(0.3)}

    def queue(self, name, above):
        policy = {
            "reclaimWithinCohort": self.random.choice(("Never", "LowerPriority", "Any")),
            "withinClusterQueue": self.random.choice(("Never", "LowerPriority", "LowerOrNewerEqualPriority")),
        }
        if policy["reclaimWithinCohort"] != "Never" and self.chance(0.4):
            policy["borrowWithinCohort"] = {"policy": "LowerPriority", "maxPriorityThreshold": self.random.randrange(3)}
        strategy = self.random.choice(("StrictFIFO", "BestEffortFIFO"))
        quota = nominal(self.random.randrange(5), **self.limits())
        return cluster_queue(name, ("any", {GPU: quota}), cohort=above, preemption=policy, queueingStrategy=strategy)

    def chance(self, part):
        return self.random.random() < part

    def step(self):
        self.number += 1
        name, value = f"p{self.number}", self.random.randrange(3)
        running = [
            each for (kind, each), pod in self.core.objects.items() if kind == "Pod" and pod["spec"].get("nodeName")
        ]
        if running and self.chance(0.4):
            self.core.remove_with_claims(self.random.choice(sorted(running)))
        elif self.chance(0.2):
            put_gang(self.core, name, self.random.randrange(2, 4), self.random.choice(QUEUES), value=value)
        else:
            self.come(name, self.random.choice(QUEUES), value, self.random.randrange(1, 4))

    def come(self, name, queue, value, count):
        claim = objects.claim(f"c-{name}", objects.request(count=count))
        self.core.put(claim, queued(name, queue=queue, claims=[f"c-{name}"], value=value))

    def settle(self):
        """Whoever is removed comes again, as a Job would see to it."""
        for _ in range(40):
            known = dict(self.core.objects)
            actions = self.core.later()
            for action in actions:
                self.core.do(action)
            for name in victims(actions):
                if not name.startswith("p") or "-" in name:
                    continue
                pod = known["Pod", name]
                count = known["ResourceClaim", f"c-{name}"]["spec"]["devices"]["requests"][0]["exactly"].get("count", 1)
                self.number += 1
                labels = pod["metadata"]["labels"]
                self.come(
                    f"p{self.number}", labels["kueue.x-k8s.io/queue-name"], pod["spec"].get("priority") or 0, count
                )
            if not actions:
                return
        raise AssertionError("there is no end to it")

    def check(self):
        queues = self.core.state.queues.system(KueueQueues)
        for queue in queues.all():
            for asset, quota in queue.quotas.items():
                held = queues.tree.used(queue.name, asset)
                if quota.borrowing is not None:
                    assert held <= quota.nominal + quota.borrowing
        for name in ("org", *COHORTS):
            node = queues.tree.cohort(name)
            for asset, used in node.used.items():
                limit = node.quota(asset).borrowing if node.parent is not None else 0
                assert limit is None or used <= node.total(asset) + limit


@pytest.mark.parametrize("seed", range(40))
def test_random_walk(seed):
    walk = Walk(seed)
    for _ in range(40):
        walk.step()
        walk.settle()
        walk.check()
