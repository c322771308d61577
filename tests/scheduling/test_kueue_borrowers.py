"""Cohorts of cohorts: from whom a queue takes quota back, by its place in the tree and by theirs."""

import random

import pytest

from dray.scheduling.quota.kueue.evictions import KueueEvictions
from dray.testing import objects
from tests.scheduling.core import Core, bound, victims
from tests.scheduling.test_queues import cluster_queue, cohort, flavor, local_queue, nominal, queued

ANY = {"reclaimWithinCohort": "Any"}
LOWER = {"reclaimWithinCohort": "LowerPriority"}
BORROWING = {**ANY, "borrowWithinCohort": {"policy": "LowerPriority"}}


def tree(cohorts, queues):
    """Cohorts by name with the one above them and their cpus; queues with their cohort, cpus and `preemption`."""
    core = Core(objects.node("n", cpu="64"), flavor(), cohort("root"))
    for name, (above, quota) in cohorts.items():
        core.put(cohort(name, ("any", {"cpu": quota}), parentName=above))
    for name, (above, number, policy) in queues.items():
        quotas = ("any", {"cpu": nominal(number)})
        core.put(cluster_queue(name, quotas, cohort=above, preemption=policy), local_queue(name, name))
    return core


def run(core, *pods):
    """Names, the first letter of which is their queue, with cpus and priority: the later ones are younger."""
    for name, cpu, value in pods:
        start = f"2026-01-01T00:{len(core.objects):02}:00Z"
        made = queued(name, name[0], cpu=str(cpu), value=value)
        core.put({**made, "status": {"startTime": start}})
        assert list(bound(core.settle())) == [name]


def come(core, name, cpu, value=0):
    """Who goes for the pod, which is let in then; where nobody does it is not, and gives up."""
    core.put(queued(name, name[0], cpu=str(cpu), value=value))
    actions = core.settle()
    assert list(bound(actions)) == ([name] if victims(actions) else [])
    if not victims(actions):
        core.remove("Pod", name)
    return victims(actions)


def two_cohorts(policy):
    """A has four cpus, and B those of its queue x."""
    return tree(
        {"A": ("root", nominal(4)), "B": ("root", nominal(0))},
        {"a": ("A", 0, policy), "w": ("A", 0, {}), "x": ("B", 2, policy), "y": ("B", 0, {})},
    )


def test_who_is_within_the_quota_of_its_cohort_keeps_it():
    core = two_cohorts(ANY)
    run(core, ("y1", 2, 0), ("a1", 2, 0), ("a2", 2, 0))
    # The younger one uses what is its cohort's.
    assert come(core, "x1", 2) == ["y1"]


def test_what_is_the_cohorts_comes_back_to_queues_without_quota():
    core = two_cohorts(ANY)
    run(core, ("y1", 3, 0), ("y2", 3, 0))
    assert come(core, "a1", 2) == ["y2"]
    # What is beyond A's four is not A's.
    assert come(core, "a2", 3) == []
    assert come(core, "a3", 2) == ["y1"]


def test_nobody_goes_where_all_are_within_what_is_theirs():
    core = tree(
        {"A": ("root", nominal(0)), "B": ("root", nominal(4))},
        {"a": ("A", 0, ANY), "y": ("B", 0, {}), "z": ("B", 0, {})},
    )
    run(core, ("y1", 2, 0), ("z1", 2, 0))
    assert come(core, "a1", 1, value=9) == []


def three_levels(policy):
    return tree(
        {
            "A": ("root", nominal(4)),
            "A1": ("A", nominal(0)),
            "A2": ("A", nominal(0)),
            "B": ("root", nominal(0)),
            "B1": ("B", nominal(2)),
        },
        {"a": ("A1", 0, policy), "z": ("A2", 0, {}), "y": ("B1", 0, {})},
    )


def test_what_is_a_cohorts_comes_back_over_several_levels():
    core = three_levels(ANY)
    run(core, ("y1", 2, 0), ("y2", 2, 0), ("z1", 2, 0))
    # z is as near to what is A's as a is, and has it.
    assert come(core, "a1", 3) == []
    assert come(core, "a2", 2) == ["y2"]
    assert come(core, "a3", 1) == []


def test_no_more_comes_back_from_a_cohort_than_it_borrowed():
    core = tree(
        {"A": ("root", nominal(2)), "B": ("root", nominal(2)), "C": ("root", nominal(0))},
        {"a": ("A", 0, ANY), "y": ("B", 0, {}), "v": ("C", 0, {})},
    )
    run(core, ("y1", 1, 0), ("y2", 1, 0), ("y3", 1, 0), ("v1", 1, 1))
    # Without y3 cohort B is within its own.
    assert sorted(come(core, "a1", 2)) == ["v1", "y3"]


def test_what_a_cohort_does_not_lend_needs_nobody_to_go():
    core = tree(
        {"A": ("root", nominal(4, lendingLimit=2)), "B": ("root", nominal(0))}, {"a": ("A", 0, ANY), "y": ("B", 0, {})}
    )
    run(core, ("y1", 1, 0), ("y2", 1, 0), ("a1", 2, 0))
    assert come(core, "a2", 1) == ["y2"]
    assert come(core, "a3", 1) == ["y1"]
    assert come(core, "a4", 1) == []


def test_those_stay_that_a_cohort_could_not_borrow_from():
    core = tree(
        {"R": ("root", nominal(2)), "A": ("root", nominal(0, borrowingLimit=0)), "B": ("root", nominal(0))},
        {"x": ("A", 2, ANY), "z": ("A", 0, {}), "y": ("B", 0, {})},
    )
    run(core, ("z1", 2, 0), ("y1", 2, 0))
    # y1 is younger, but A may not have more than its own.
    assert come(core, "x1", 2) == ["z1"]


def test_a_cohort_that_may_not_borrow_takes_nothing():
    core = tree(
        {"R": ("root", nominal(4)), "A": ("root", nominal(1, borrowingLimit=1)), "B": ("root", nominal(0))},
        {"a": ("A", 0, BORROWING), "y": ("B", 0, {})},
    )
    run(core, ("y1", 5, 0))
    assert come(core, "a1", 3, value=5) == []
    assert come(core, "a2", 2, value=5) == ["y1"]


def test_only_lower_priorities_give_back_what_is_the_cohorts_where_the_queue_says_so():
    core = two_cohorts(LOWER)
    run(core, ("y1", 3, 5), ("y2", 3, 6))
    assert come(core, "a1", 2, value=5) == []
    assert come(core, "a2", 2, value=6) == ["y1"]


def test_while_it_borrows_cohorts_within_their_own_keep_it_from_higher_priorities():
    core = tree(
        {"R": ("root", nominal(2)), "A": ("root", nominal(0)), "B": ("root", nominal(0)), "C": ("root", nominal(2))},
        {"a": ("A", 0, BORROWING), "y": ("B", 0, {}), "z": ("C", 0, {})},
    )
    run(core, ("y1", 2, 4), ("z1", 2, 0))
    assert come(core, "a1", 2, value=4) == []
    assert come(core, "a2", 2, value=5) == ["y1"]


def test_those_go_first_that_have_what_is_the_cohorts_then_the_less_important():
    core = two_cohorts(BORROWING)
    run(core, ("y1", 4, 9), ("w1", 2, 0))
    # w1 has as much right to what is A's: it goes only for who is more important, and if it must.
    assert come(core, "a1", 2, value=5) == ["y1"]
    assert come(core, "a2", 3, value=5) == ["w1"]


def random_tree(chosen):
    """Queues at random places of four levels, and pods that take what they can."""
    limits = {"borrowingLimit": chosen.randrange(4)} if chosen.random() < 0.2 else {}
    cohorts = {"A": "root", "B": "root", "A1": "A", "B1": "B", "B2": "B1"}
    core = tree(
        {name: (above, nominal(chosen.choice((0, 0, 2, 4)), **limits)) for name, above in cohorts.items()},
        {
            name: (
                chosen.choice(("root", *cohorts)),
                chosen.randrange(5),
                {
                    "reclaimWithinCohort": chosen.choice(("Any", "LowerPriority")),
                    "withinClusterQueue": chosen.choice(("Never", "LowerPriority", "LowerOrNewerEqualPriority")),
                },
            )
            for name in "abcd"
        },
    )
    for number in range(12):
        name = chosen.choice("abcd")
        core.put(queued(f"{name}{number}", name, cpu=str(chosen.randrange(1, 4)), value=chosen.randrange(3)))
        for each in core.later():
            core.do(each)
    for kind, name in [key for key in core.objects if key[0] == "Pod"]:
        if not core.get(kind, name)["spec"].get("nodeName"):
            core.remove(kind, name)
    return core


@pytest.mark.parametrize("seed", range(60))
def test_who_could_have_others_removed_is_not_told_beforehand_that_it_is_of_no_use(seed, monkeypatch):
    chosen = random.Random(seed)
    core = random_tree(chosen)
    told, may_reclaim = [], KueueEvictions.may_reclaim
    monkeypatch.setattr(KueueEvictions, "may_reclaim", lambda self: told.append(may_reclaim(self)) or True)
    core.put(queued("last", chosen.choice("abcd"), cpu=str(chosen.randrange(1, 6)), value=chosen.randrange(4)))
    leaving = victims(core.later())
    assert not leaving or told == [True]
