"""Trials of the scheduler's state: whatever is tried out in them, nested or not, leaves nothing behind."""

import os
from contextlib import nullcontext
from functools import partial
from random import Random

import pytest

from dray.allocation import Work
from dray.api.objects import key_of
from dray.scheduling.model.group import single
from dray.scheduling.model.node import Node
from dray.scheduling.model.pod import Pod
from dray.scheduling.placement.algorithm import Placement
from dray.scheduling.quota.kueue.policy import KueueQueues
from tests.scheduling.changing_worlds import ChangingWorld
from tests.scheduling.random_worlds import PREFIX, SYSTEMS
from tests.scheduling_loop.changing_walk import ChangingWalk
from tests.scheduling_loop.core_walk import CoreWalk
from tests.scheduling_loop.volume_walk import VolumeWalk

TRIALS = int(os.environ.get("DRAY_TRIALS", "400"))
FIRST = int(os.environ.get("DRAY_WALK_SEED", "1"))
WORLDS = 10
DEEPEST = 4


def picture(value, seen=()):
    """Returns the value as plain tuples that can be compared; pods and nodes by their names."""
    if isinstance(value, Pod):
        return value.uid
    if isinstance(value, Node):
        return value.name
    if isinstance(value, dict):
        found = {key: picture(each, seen) for key, each in value.items()}
        # Counters may keep what counts for nothing.
        return {key: each for key, each in found.items() if each not in (0, {}, [], ())}
    if isinstance(value, set | frozenset):
        return frozenset(map(str, value))
    if isinstance(value, list | tuple):
        return [picture(each, seen) for each in value]
    if id(value) not in seen and type(value).__module__.startswith("dray.scheduling"):
        names = [*getattr(value, "__dict__", ()), *getattr(value, "__slots__", ())]
        return picture({name: getattr(value, name) for name in names if hasattr(value, name)}, (*seen, id(value)))
    return value if isinstance(value, str | int | float | bool | None) else type(value).__name__


def fingerprint(walk):
    """Everything that a decision changes: pods on nodes, devices, counts, groups, quota, the queue and who waits."""
    state, scheduler = walk.state, walk.scheduler
    usage = state.inventory.usage
    return {
        "nodes": {
            node.name: (sorted(node.pods), dict(node.requested), dict(node.scoring), node.ports.all())
            for node in state.nodes.values()
        },
        "claims": {key: [str(each) for each in results] for key, results in usage.claims.items()},
        "devices": {device: sorted(map(str, use.claims())) for device, use in usage.devices.items() if use.claims()},
        "affinity": {key: found for key, each in state.affinity._pods.items() if (found := _by_name(each.by_node))},
        "groups": picture({key: state.groups.members(key) for key in sorted(state.groups._members, key=str)}),
        "quota": [
            (policy.charges.totals(), policy.charges.admitted(), sorted(policy.charges.ending), usage_of(policy))
            for policy in state.queues.policies
        ],
        "volumes": [{key: str(each) for key, each in kind.items()} for kind in _volumes(state)],
        "reserved": (scheduler.nominations.places(), scheduler.nominations.reserved_places()),
        "reserved quota": state.queues.reservations.uids(),
        "waits": picture(scheduler.waits.objects),
        "quota waits": [picture(scheduler.waits.quota._called), picture(scheduler.waits.reclaims._places)],
        "queue": {
            each.pod.uid: (each.subqueue, each.entry and str(each.entry.wait.key)) for each in scheduler.queue.all()
        },
        "woken": (
            picture(state.queues.log._changes),
            list(scheduler.waits.quota._ready),
            state.helped.end,
            state.pods_revision,
        ),
    }


def _volumes(state):
    return state.volumes._claims, state.volumes._volumes, state.volumes._classes


def usage_of(policy):
    """The amounts that the queues of a system are charged with, as far as floats can tell."""
    if isinstance(policy, KueueQueues):
        found = {name: [node.used] for name, node in policy.tree._queues.items()}
    else:
        found = {name: [node.held, node.evicting, node.reserved] for name, node in policy.tree._nodes.items()}
    return {
        (queue, number, asset): round(amount, 6)
        for queue, kinds in found.items()
        for number, amounts in enumerate(kinds)
        for asset, amount in amounts.items()
        if round(amount, 6)
    }


class Trials:
    """Random changes inside trials, and questions that open trials of their own."""

    def __init__(self, walk, seed):
        self.walk = walk
        self.random = Random(seed)
        self.count = 0

    def run(self, depth=0):
        self.count += 1
        state = self.walk.state
        with self._view(), state.what_if() as trial:
            evicted, placed = [], []
            for _ in range(self.random.randrange(1, 5)):
                self._change(trial, evicted, placed)
            if depth < DEEPEST and self.random.random() < 0.5:
                self.run(depth + 1)
            if evicted and self.random.random() < 0.5:
                trial.restore(evicted.pop(self.random.randrange(len(evicted))))

    def _view(self):
        """Sometimes the state as a pod sees it that waits, with what is kept for the pod; or without reservations."""
        nominations, number = self.walk.scheduler.nominations, self.random.random()
        waiting = [each.pod for each in self.walk.scheduler.queue.all()]
        if number < 0.3 and waiting:
            return nominations.seen_by(self.random.choice(waiting))
        return nominations.without_reservations() if number < 0.4 else nullcontext()

    def _set_aside(self, trial):
        """Tries out that a pod gives its quota back."""
        for policy in self.walk.state.queues.policies:
            pods = [pod for pod in policy.charges.pods() if not self.walk.state.journal.has(("charge", pod.uid))]
            if pods:
                policy.charges.set_aside(self.random.choice(pods), trial)

    def _change(self, trial, evicted, placed):
        state, number = self.walk.state, self.random.random()
        if number < 0.45:
            pods = [pod for node in state.nodes.values() for pod in node.pods.values() if not pod.is_placeholder]
            pods = [pod for pod in pods if not trial.has(("pod", pod.uid)) and pod.is_assigned]
            if pods:
                evicted.append(self.random.choice(pods))
                trial.evict([evicted[-1]])
        elif number < 0.55:
            claims = self.walk.scheduler.preemptor.all_orphans()
            claims = [each for each in claims if not trial.has(("claim", key_of(each)))]
            trial.release(self.random.sample(claims, min(1, len(claims))))
        elif number < 0.65:
            self._set_aside(trial)
        elif number < 0.85:
            self._place(trial, placed)
        else:
            self._ask()

    def _waiting(self):
        """Returns a waiting pod that may be tried, and what is known about it."""
        scheduler = self.walk.scheduler
        queued = [each for each in scheduler.queue.all() if self.walk.state.placed(each.pod.uid) is None]
        for each in self.random.sample(queued, min(3, len(queued))):
            cycle = scheduler.algorithm.begin(each.pod, self.walk.now, Work(100_000))
            if scheduler.framework.pre_enqueue(each.pod) is None and scheduler.framework.prefilter(cycle) is None:
                return each, cycle
        return None

    def _place(self, trial, placed):
        algorithm = self.walk.scheduler.algorithm
        if (found := self._waiting()) is None:
            return
        answer = algorithm.schedule(found[1])
        if isinstance(answer, Placement):
            algorithm.assume(answer)
            placed.append(answer)
            trial.record(("placed", found[0].pod.uid), lambda: algorithm.take_back(answer))

    def _ask(self):
        """Asks for evictions, and for places of a group of one."""
        scheduler = self.walk.scheduler
        if (found := self._waiting()) is None:
            return
        queued, cycle = found
        scheduler.preemptor.find(cycle)
        with scheduler.placer.trial([(queued, cycle)], Work(100_000)) as (trial, members):
            group = single(queued.pod.key, queued.pod.uid, queued.pod.document)
            scheduler.placer.place(group, members, 1, trial)
            trial.undo()


class OtherWorld(ChangingWorld):
    """A world with groups of Kueue that keep quota for missing pods, and with groups of KAI; queues, nodes and groups
    change."""

    @property
    def state(self):
        return self.scheduler.state

    def _written_job(self, job, priority):
        admission = self.chance.choice(("", f"{PREFIX}pod-group-fast-admission", f"{PREFIX}pod-group-serving"))
        total = str(job.size + self.chance.randrange(2))
        for document in super()._written_job(job, priority):
            annotations = document["metadata"].get("annotations") or {}
            if admission and f"{PREFIX}pod-group-total-count" in annotations:
                more = {admission: "true", f"{PREFIX}pod-group-total-count": total}
                document["metadata"]["annotations"] = {**annotations, **more}
                requests = {"cpu": self.chance.choice(("500m", "1", "2"))}
                document["spec"]["containers"][0].setdefault("resources", {})["requests"] = requests
            yield document


def _by_name(counts):
    return {node.name: picture(count) for node, count in counts.items() if count}


WALKS = [
    partial(walk, system=system)
    for walk, systems in (
        (CoreWalk, ("", "kueue", "flavors", "kai")),
        (ChangingWalk, ("kueue",)),
        (VolumeWalk, ("flavors", "kai")),
    )
    for system in systems
]


@pytest.mark.parametrize("seed", range(FIRST, FIRST + WORLDS))
def test_trials_leave_state_queue_and_waits_as_they_were(seed):
    walk = WALKS[seed % len(WALKS)](seed)
    trials = Trials(walk, seed)
    while trials.count < TRIALS // WORLDS:
        for _ in range(10):
            walk.step()
        for _ in range(10):
            leave_nothing_behind(trials)
    assert any(node.pods for node in walk.state.nodes.values())


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("seed", range(FIRST, FIRST + max(1, TRIALS // 300)))
def test_trials_in_worlds_with_other_groups(seed, system):
    trials = Trials(OtherWorld(seed, system), seed)
    while trials.count < 100:
        trials.walk.step()
        for _ in range(6):
            leave_nothing_behind(trials)


def leave_nothing_behind(trials):
    # Whatever is worked out when it is asked for has been asked for.
    trials.walk.state.queues.refresh()
    before = fingerprint(trials.walk)
    trials.run()
    assert fingerprint(trials.walk) == before
