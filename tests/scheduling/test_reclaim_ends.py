"""Reclaim from pods of higher priority that are made again, as a Job would see to it: there is an end to it."""

from random import Random

import pytest

from dray.testing import objects
from tests import gpus
from tests.scheduling.core import Core, bound, pod, victims
from tests.scheduling.test_group_attempts import gang, member
from tests.scheduling.test_kai_groups import kai_group, kai_member, tell
from tests.scheduling.test_queues import (
    cluster_queue,
    cohort,
    flavor,
    in_queue,
    local_queue,
    nominal,
    queued,
)
from tests.scheduling.test_share_tree import queue
from tests.scheduling.test_vectors_kai import cluster, labelled, submit

ANY = {"reclaimWithinCohort": "Any"}


def lenders(*documents, quotas=(("any", 4),), more=()):
    """Queues `team`, which has quota, and `other`, which has none, in one cohort."""
    core = Core(*documents, local_queue("team", "team"), local_queue("other", "other"))
    core.put(cohort("org", *more))
    flavors = [(name, {"cpu": nominal(number)}) for name, number in quotas]
    core.put(cluster_queue("team", *flavors, cohort="org", preemption=ANY))
    core.put(cluster_queue("other", *[(name, {"cpu": nominal(0)}) for name, _ in quotas], cohort="org"))
    return core


def run(core, again, most=10):
    """Does what is wanted until nothing is; gives who was removed, for each of whom `again` is called."""
    gone = []
    for _ in range(most):
        actions = core.later()
        for action in actions:
            found = victims([action])
            pods = [core.get("Pod", each) for each in found]
            core.do(action)
            gone += found
            for each in pods:
                again(each)
        if not actions:
            return gone
    raise AssertionError(f"there is no end to it: {gone}")


def is_bound(core, name):
    return bool(core.get("Pod", name)["spec"].get("nodeName"))


class Copies:
    """Makes pods of `other` again, under another name."""

    def __init__(self, core):
        self.core, self.number = core, 0

    def __call__(self, document):
        self.number += 1
        spec = {key: value for key, value in document["spec"].items() if key != "nodeName"}
        metadata = {"name": f"again{self.number}", "labels": document["metadata"]["labels"]}
        self.core.put({**document, "metadata": metadata, "spec": spec})


def test_a_gang_reclaims_places_of_more_urgent_borrowers_once():
    """There is more quota than room, so that one of them has quota still."""
    more = [("any", {"cpu": nominal(2)})]
    core = lenders(objects.node("n1", cpu="2"), objects.node("n2", cpu="2"), flavor(), more=more)
    core.put(queued("b1", "other", cpu="2", value=10), queued("b2", "other", cpu="2"))
    assert len(bound(core.settle())) == 2
    core.put(gang("owner", 2), *(in_queue(member(f"owner-{n}", of="owner", cpu="2")) for n in range(2)))
    assert sorted(run(core, Copies(core))) == ["b1", "b2"]
    assert is_bound(core, "owner-0")
    assert is_bound(core, "owner-1")


def test_quota_is_kept_in_the_flavor_that_a_gang_asks_for():
    """Its place may be in another one."""
    zones = [objects.node(f"n{n}", cpu="4", labels={"f": n}) for n in "12"]
    core = lenders(*zones, *(flavor(f"f{n}", f=n) for n in "12"), quotas=(("f1", 1), ("f2", 2)))
    for name in ("b1", "b2"):
        core.put(queued(name, "other", cpu="1", value=10, nodeSelector={"f": "2"}))
    assert len(bound(core.settle())) == 2
    core.put(gang("g", 2), *(in_queue(member(f"g-{n}", cpu="1")) for n in range(2)))
    assert sorted(run(core, Copies(core))) == ["b1", "b2"]
    assert is_bound(core, "g-0")
    assert is_bound(core, "g-1")


def test_a_place_that_was_reclaimed_is_kept_from_more_urgent_pods_of_these_queues():
    core = lenders(objects.node("n", cpu="4"), flavor(), more=[("any", {"cpu": nominal(1)})])
    core.put(queued("borrower", "other", cpu="4", value=10))
    core.settle()
    core.put(queued("owner", cpu="4"))
    (refused,) = core.later()
    assert victims([refused]) == ["borrower"]
    core.do(refused)
    core.put(queued("urgent", "other", cpu="1", value=20))
    assert bound(core.later()) == {"owner": "n"}


def test_more_urgent_pods_in_no_queue_take_a_place_that_is_kept():
    core = lenders(objects.node("n", cpu="4"), flavor())
    core.put(queued("borrower", "other", cpu="4", value=10))
    core.settle()
    core.put(queued("owner", cpu="4"))
    (refused,) = core.later()
    core.put(pod("plain", cpu="4", value=20))
    core.do(refused)
    assert bound(core.later()) == {"plain": "n"}


@pytest.mark.parametrize(("own", "others"), [(50, 50), (50, 75), (75, 50)])
def test_a_queue_of_kai_gets_its_share_from_more_urgent_pods_once(own, others):
    core = cluster(queue("a", "dept", quota=2), queue("b", "dept", quota=0, priority=200), gpu_count=2)
    submit(core, "b", "b0", number=2, value=others)
    core.settle()
    tell(core, kai_group("big", minMember=3, queue="a"))
    for n in range(3):
        core.put(*kai_member(f"big-{n}", "big", value=own))
    core.settle()
    submit(core, "a", "a", value=own)
    made = iter(range(1, 100))
    assert run(core, lambda _: submit(core, "b", f"b{next(made)}", number=2, value=others)) == ["b0"]
    assert is_bound(core, "a")


class Jobs:
    """Jobs of one to three pods, all of which are made again when one of them is removed."""

    def __init__(self, seed):
        self.chance = Random(seed)
        self.jobs = {}
        self.number = 0
        self.core = self.world()

    def step(self):
        if self.jobs and self.chance.random() < 0.35:
            self.drop(self.chance.choice(sorted(self.jobs)))
        else:
            self.start(self.job())

    def start(self, job):
        self.number += 1
        self.jobs[f"j{self.number}"] = job
        self.put(f"j{self.number}", job)

    def drop(self, name):
        for n in range(self.jobs.pop(name)["size"]):
            if ("Pod", f"{name}-{n}") in self.core.objects:
                self.core.remove_with_claims(f"{name}-{n}")

    def settle(self, most=40):
        """Gives how many pods were removed until nothing changed."""
        number = 0
        while actions := self.core.later():
            for action in actions:
                found = victims([action])
                number += len(found)
                assert number <= most, "there is no end to it"
                there = {name for kind, name in self.core.objects if kind == "Pod"}
                if there.issuperset((*found, *bound([action]))):
                    self.core.do(action)
                for name in sorted({each.rsplit("-", 1)[0] for each in found} & self.jobs.keys()):
                    job = self.jobs[name]
                    self.drop(name)
                    self.start(job)


class KueueJobs(Jobs):
    def world(self):
        chance = self.chance
        core = Core(*(objects.node(f"n{n}", cpu="4") for n in range(2)), flavor(), reservation_seconds=0)
        core.put(cohort("org", ("any", {"cpu": nominal(chance.choice((0, 2, 4)))})))
        for name in "abc":
            policy = {"reclaimWithinCohort": chance.choice(("Any", "Any", "LowerPriority"))}
            quota = {"cpu": nominal(chance.choice((0, 2, 4)))}
            core.put(cluster_queue(name, ("any", quota), cohort="org", preemption=policy), local_queue(name, name))
        return core

    def job(self):
        chance = self.chance
        return {
            "queue": chance.choice("abc"),
            "size": chance.choice((1, 1, 2, 3)),
            "cpu": str(chance.choice((1, 2, 3))),
            "value": chance.choice((0, 1, 10)),
        }

    def put(self, name, job):
        more = {"cpu": job["cpu"], "value": job["value"]}
        if job["size"] > 1:
            self.core.put(gang(name, job["size"]))
        for n in range(job["size"]):
            made = member(f"{name}-{n}", of=name, **more) if job["size"] > 1 else pod(f"{name}-{n}", **more)
            self.core.put(in_queue(made, job["queue"]))


class FairJobs(KueueJobs):
    """Whole gangs of different size take turns, if the same gang may evict another one without end."""

    def world(self):
        core = super().world()
        known = core.get("Cohort", "org")
        core.put({**known, "spec": {**known["spec"], "fairSharing": {}}})
        for name in "abc":
            known = core.get("ClusterQueue", name)
            within = self.chance.choice(("Never", "LowerPriority", "LowerOrNewerEqualPriority"))
            spec = {**known["spec"], "preemption": {**known["spec"]["preemption"], "withinClusterQueue": within}}
            core.put({**known, "spec": {**spec, "fairSharing": {"weight": str(self.chance.choice((1, 1, 2)))}}})
        return core

    def start(self, job):
        """A job that is made again has the same name."""
        self.number += "name" not in job
        name = job.setdefault("name", f"j{self.number}")
        self.jobs[name] = job
        self.put(name, job)

    def settle(self, most=60):
        return super().settle(most)


class KaiJobs(Jobs):
    def world(self):
        chance = self.chance
        core = Core(queue("dept", quota=-1), reservation_seconds=0)
        for n in range(2):
            core.put(objects.node(f"n{n}", cpu="64"), gpus.slice_of(f"n{n}", chance.choice((2, 4))))
        for name in "abc":
            core.put(queue(name, "dept", quota=chance.choice((0, 2, 4)), priority=chance.choice((100, 200))))
        return core

    def job(self):
        chance = self.chance
        size = chance.choice((1, 1, 2))
        value, number = chance.choice((50, 50, 75)), chance.choice((1, 1, 2))
        least = chance.choice((1, size))
        return {"queue": chance.choice("abc"), "size": size, "least": least, "value": value, "number": number}

    def put(self, name, job):
        if job["size"] > 1:
            tell(self.core, kai_group(name, minMember=job["least"], queue=job["queue"]))
        for n in range(job["size"]):
            made = labelled(pod(f"{name}-{n}", claims=[f"{name}-{n}"], value=job["value"]), job["queue"])
            if job["size"] > 1:
                made["metadata"]["annotations"] = {"pod-group-name": name}
            self.core.put(objects.claim(f"{name}-{n}", objects.request(count=job["number"])), made)


@pytest.mark.parametrize("seed", [*range(16), 96, 131, 180, 283])
@pytest.mark.parametrize("jobs", [KueueJobs, FairJobs, KaiJobs])
def test_whoever_is_removed_and_made_again_there_is_an_end_to_it(jobs, seed):
    made = jobs(seed)
    for _ in range(20):
        made.step()
        made.settle()
    scheduler = made.core.scheduler
    assert not scheduler.nominations.places()
    assert not scheduler.state.queues.reservations
