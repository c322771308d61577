"""Queues of KAI through random days: what is counted is what is there, and no bound is exceeded at any time."""

from collections import Counter
from random import Random

import pytest

from dray.scheduling.model.actions import Bind, BindGroup
from dray.scheduling.quota.kai.policy import KaiQueues
from tests.scheduling.core import pod
from tests.scheduling.test_kai_groups import kai_group, kai_member, tell
from tests.scheduling.test_share_tree import queue
from tests.scheduling.test_vectors_kai import cluster, submit

TEAMS = ("a", "b", "c", "d")


class Day:
    def __init__(self, seed):
        self.chance = Random(seed)
        self.core = cluster(queue("other", quota=self.chance.randint(0, 4)), gpu_count=12, nodes=3)
        self.teams = {}
        for name in TEAMS:
            self.change(name)
        self.number = 0

    def change(self, name):
        chance = self.chance
        parent = "dept" if name in "ab" else "other"
        self.core.put(
            queue(
                name,
                parent,
                chance.choice((100, 200)),
                quota=chance.randint(0, 5),
                limit=chance.choice((-1, 12, 12)),
                weight=chance.randint(0, 3),
            )
        )

    def step(self):
        chance, core = self.chance, self.core
        self.number += 1
        name, team = f"p{self.number}", chance.choice(TEAMS)
        what = chance.random()
        if what < 0.45:
            submit(core, team, name, number=chance.randint(1, 3), value=chance.choice((0, 50, 100)))
        elif what < 0.6:
            size = chance.randint(2, 4)
            tell(core, kai_group(name, queue=team, minMember=chance.randint(2, size)))
            for n in range(size):
                core.put(*kai_member(f"{name}-{n}", name))
        elif what < 0.65:
            self.change(team)
        elif what < 0.7:
            core.put(pod(name, cpu="1"))
        else:
            there = sorted(name for kind, name in core.objects if kind == "Pod")
            if there:
                gone = chance.choice(there)
                core.remove_with_claims(gone)

    def work(self):
        for _ in range(200):
            actions = self.core.later(30)
            for action in actions:
                if isinstance(action, Bind | BindGroup):
                    self.core.do(action)
                elif action.preemption is not None:
                    for each in action.preemption.victims:
                        if ("Pod", each.key[1]) in self.core.objects:
                            self.core.remove_with_claims(each.key[1])
                self.check()
            if not actions:
                return
        raise AssertionError("there is no end to it")

    def check(self):
        kai = self.core.state.queues.system(KaiQueues)
        tree, count = kai.shares(), Counter()
        for node in self.core.state.nodes.values():
            for each in node.pods.values():
                name = kai.queue_of(each) if not each.is_placeholder else None
                if name is not None:
                    for above in tree.path(name):
                        count[above.name] += sum(kai.charges.held(each).get(key, 0) for key in ("gpu",)) // (
                            1 if kai.is_preemptible(each) else 2
                        )
        for node in tree.all():
            assert node.held.get("gpu", 0) == count[node.name], node.name
            assert all(amount >= 0 for amount in (*node.held.values(), *node.waiting.values(), *node.kept.values()))
            assert node.kept.get("gpu", 0) <= node.held.get("gpu", 0) + node.reserved.get("gpu", 0)

    def settle(self):
        self.work()
        tree = self.core.state.queues.system(KaiQueues).shares()
        for node in tree.all():
            assert not any(node.evicting.values()), node.name
            assert not any(node.reserved.values()), node.name


@pytest.mark.parametrize("seed", range(40))
def test_what_is_counted_is_what_is_there(seed):
    day = Day(seed)
    for _ in range(25):
        for _ in range(day.chance.randint(1, 4)):
            day.step()
        day.settle()


@pytest.mark.parametrize("seed", range(20))
def test_limits_hold_at_every_moment(seed):
    chance = Random(seed)
    limits = {name: chance.randint(1, 4) for name in TEAMS}
    core = cluster(
        queue("top", "dept", limit=6),
        *[queue(name, "top", quota=chance.randint(0, 2), limit=limit) for name, limit in limits.items()],
    )
    for number in range(30):
        submit(core, chance.choice(TEAMS), f"p{number}", number=chance.randint(1, 2), value=chance.choice((0, 50, 100)))
        for action in core.later(5):
            core.do(action)
            tree = core.state.queues.system(KaiQueues).tree
            for name, limit in (*limits.items(), ("top", 6)):
                node = tree.get(name)
                assert node.held.get("gpu", 0) <= limit
                assert node.kept.get("gpu", 0) <= node.quota("gpu") or name == "top"
        if chance.random() < 0.3:
            there = [name for kind, name in core.objects if kind == "Pod"]
            core.remove_with_claims(chance.choice(there))
