"""Queues of KAI: limits, quota of pods that stay, turns by share, and what others have too much of comes back."""

import pytest

from dray.scheduling.eviction.stale_gangs import StaleGangs
from dray.scheduling.quota.kai.policy import KaiQueues
from dray.testing import objects
from tests import gpus
from tests.scheduling.core import Core, bound, placed, pod, refused, refused_groups, victims
from tests.scheduling.test_group_attempts import gang, member
from tests.scheduling.test_kai_groups import job, kai_group, kai_member, of_job, racks, tell
from tests.scheduling.test_share_tree import queue

LABEL = "kai.scheduler/queue"


def cluster(*queues, gpu_count=8, nodes=1, **options):
    """GPUs on nodes, and queues below one that may have everything."""
    core = Core(queue("dept", quota=-1), **options)
    for number in range(nodes):
        core.put(objects.node(f"n{number}", cpu="64"), gpus.slice_of(f"n{number}", gpu_count // nodes))
    core.put(*queues)
    return core


def labelled(document, name, **labels):
    return {**document, "metadata": {**document["metadata"], "labels": {LABEL: name, **labels}}}


def submit(core, name, *pods, number=1, created=None, **more):
    """Pods with GPUs, in a queue."""
    for each in pods:
        made = labelled(pod(each, claims=[f"c-{each}"], **more), name)
        if created:
            made["metadata"]["creationTimestamp"] = created
        core.put(objects.claim(f"c-{each}", objects.request(count=number)), made)


def two_teams(**more):
    return cluster(
        queue("a", "dept", quota=4, created="2026-01-01T00:00:00Z"),
        queue("b", "dept", quota=4, created="2026-01-02T00:00:00Z"),
        **more,
    )


def names(prefix, number):
    return [f"{prefix}{n}" for n in range(number)]


def held(core, name):
    return core.state.queues.system(KaiQueues).tree.get(name).held.get("gpu", 0)


def test_who_finds_no_place_takes_back_what_others_get_beyond_their_share():
    core = cluster(queue("a", "dept", quota=2), queue("b", "dept", quota=2), gpu_count=4, nodes=2)
    for number in range(2):
        submit(core, "b", f"b{number}", nodeSelector={"kubernetes.io/hostname": f"n{number}"})
    core.settle()
    submit(core, "a", "a", number=2)
    assert victims(core.settle()) == []
    submit(core, "b", "b2", "b3")
    actions = core.settle()
    assert "a" in bound(actions)
    assert len(victims(actions)) == 1


def test_t7_what_another_queue_has_beyond_its_quota_comes_back():
    core = two_teams()
    submit(core, "b", *names("b", 8))
    assert len(bound(core.settle())) == 8
    submit(core, "a", *names("a", 4))
    actions = core.settle()
    assert sorted(bound(actions)) == names("a", 4)
    assert len(victims(actions)) == 4
    assert all(name.startswith("b") for name in victims(actions))
    assert (held(core, "a"), held(core, "b"), held(core, "dept")) == (4, 4, 8)


def test_t7_one_by_one():
    core = two_teams()
    submit(core, "b", *names("b", 8))
    core.settle()
    for number, name in enumerate(names("a", 4), 1):
        submit(core, "a", name)
        actions = core.settle()
        assert list(bound(actions)) == [name]
        assert len(victims(actions)) == 1
        assert (held(core, "a"), held(core, "b")) == (number, 8 - number)


def test_t7_a_fifth_job_of_a_is_not_entitled():
    core = two_teams()
    submit(core, "b", *names("b", 8))
    core.settle()
    submit(core, "a", *names("a", 5))
    actions = core.settle()
    assert len(bound(actions)) == 4
    assert len(victims(actions)) == 4
    submit(core, "a", "late")
    actions = core.settle()
    assert not bound(actions)
    assert not victims(actions)


def test_t7_no_more_go_than_are_needed_while_they_are_still_there():
    """Five want a place at once, before anybody is gone."""
    core = two_teams()
    submit(core, "b", *names("b", 8))
    core.settle()
    submit(core, "a", *names("a", 5))
    assert len(victims(core.later(60))) == 4


def test_t8_pods_that_are_not_preemptible_stay():
    core = two_teams()
    submit(core, "b", *names("stay", 4), value=100)
    submit(core, "b", *names("go", 4))
    assert len(bound(core.settle())) == 8
    submit(core, "a", *names("a", 4))
    actions = core.settle()
    assert sorted(bound(actions)) == names("a", 4)
    assert victims(actions) == names("go", 4)
    assert core.state.queues.system(KaiQueues).tree.get("b").kept == {"gpu": 4}


def test_a_queue_has_no_more_than_its_limit_nor_does_one_above_it():
    core = cluster(queue("team", "dept", limit=3), queue("a", "team"), queue("b", "team", limit=1))
    submit(core, "a", *names("a", 4))
    submit(core, "b", *names("b", 2))
    actions = core.settle()
    assert len(bound(actions)) == 3
    assert held(core, "b") <= 1
    said = [text for text in refused(actions).values() if "Queue team" in text]
    assert "Queue team: its limit of gpu is 3, its pods have 3, and 1 more are needed" in said[0]
    gone = next(name for name in bound(actions) if name.startswith("a"))
    core.remove_with_claims(gone)
    assert len(bound(core.settle())) == 1


def test_at_the_limit_of_a_department_its_teams_get_their_quota():
    """There are free GPUs, of which the department may have no more."""
    core = cluster(
        queue("dept", quota=-1, limit=8), queue("a", "dept", quota=4), queue("b", "dept", quota=4), gpu_count=16
    )
    submit(core, "b", *names("b", 10))
    assert len(bound(core.settle())) == 8
    submit(core, "a", *names("a", 6))
    core.settle()
    assert (held(core, "a"), held(core, "b")) == (4, 4)


def test_at_the_limit_of_a_queue_the_less_important_make_room():
    core = cluster(queue("a", "dept", limit=2))
    submit(core, "a", *names("low", 3), value=50)
    core.settle()
    submit(core, "a", "high", value=75)
    actions = core.settle()
    assert list(bound(actions)) == ["high"]
    assert len(victims(actions)) == 1


def test_what_does_not_go_for_others_stays_within_the_quota():
    core = cluster(queue("team", "dept", quota=2), queue("a", "team", quota=4))
    submit(core, "a", *names("a", 4), value=125)
    actions = core.settle()
    assert len(bound(actions)) == 2
    text = next(iter(refused(actions).values()))
    assert "Queue team: its quota of gpu is 2, pods that are not preemptible have 2, and 1 more are needed" in text
    submit(core, "a", "free")
    assert list(bound(core.settle())) == ["free"]


def test_a_label_says_whether_a_pod_is_preemptible():
    core = cluster(queue("a", "dept", quota=0))
    core.put(labelled(pod("stay", cpu="1"), "a", **{"kai.scheduler/preemptibility": "non-preemptible"}))
    assert list(bound(core.settle())) == ["stay"], "quota of cpu is unlimited"
    core.put(
        objects.claim("c"),
        labelled(pod("gpu", claims=["c"]), "a", **{"kai.scheduler/preemptibility": "non-preemptible"}),
    )
    assert not bound(core.settle())
    core.put(labelled(pod("gpu", claims=["c"], value=200), "a", **{"kai.scheduler/preemptibility": "preemptible"}))
    assert list(bound(core.settle())) == ["gpu"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("nobody", "Queue nobody not found; there are: dept, leaf"),
        ("dept", "Queue dept has no parentQueue: only queues with a parent accept pods"),
        ("middle", "Queue middle has child queues: only queues without children accept pods"),
        ("lost", "a parent of Queue lost does not exist, or its parents form a cycle"),
    ],
)
def test_a_queue_that_takes_no_pods(name, text):
    core = cluster(queue("middle", "dept"), queue("leaf", "middle"), queue("lost", "found"))
    core.put(labelled(pod("p"), name))
    assert text in refused(core.settle())["p"]
    core.put(labelled(pod("p"), "leaf"))
    assert list(bound(core.settle())) == ["p"]


def test_a_pod_of_a_queue_that_comes_later():
    core = cluster()
    core.put(labelled(pod("p"), "team"))
    assert not bound(core.settle())
    core.put(queue("team", "dept"))
    assert list(bound(core.settle())) == ["p"]


def test_queues_take_turns_by_their_share():
    """Who came first counts within a queue only."""
    core = cluster(queue("a", "dept", weight=1), queue("b", "dept", weight=1))
    submit(core, "a", *names("a", 8))
    submit(core, "b", *names("b", 8))
    actions = core.later(0)
    assert [name[0] for name in bound(actions)] == list("abababab")


def test_queues_take_turns_by_weight():
    core = cluster(queue("a", "dept", weight=3), queue("b", "dept", weight=1))
    submit(core, "b", *names("b", 8))
    submit(core, "a", *names("a", 8))
    core.settle()
    assert (held(core, "a"), held(core, "b")) == (6, 2)


def test_queues_of_higher_priority_are_first():
    core = cluster(queue("a", "dept"), queue("b", "dept", 200))
    submit(core, "a", *names("a", 8))
    submit(core, "b", *names("b", 6))
    core.settle()
    assert (held(core, "a"), held(core, "b")) == (2, 6)


def test_departments_take_turns_before_their_teams_do():
    core = cluster(queue("other", quota=-1), queue("a", "dept"), queue("b", "dept"), queue("c", "other"))
    for name in "abc":
        submit(core, name, *names(name, 8))
    core.settle()
    assert (held(core, "dept"), held(core, "other")) == (4, 4)
    assert (held(core, "a"), held(core, "b")) == (2, 2)


def test_whose_turn_it_is_gets_what_becomes_free():
    core = cluster(queue("a", "dept"), queue("b", "dept"))
    submit(core, "a", *names("a", 10))
    core.settle()
    submit(core, "b", "b0", value=-5, preemptionPolicy="Never")
    core.settle()
    core.remove_with_claims("a0")
    assert list(bound(core.settle())) == ["b0"]


def test_shares_beyond_quota_are_evened_out():
    """No quota at all: by weight alone."""
    core = cluster(queue("a", "dept"), queue("b", "dept"))
    submit(core, "b", *names("b", 8))
    core.settle()
    submit(core, "a", *names("a", 8))
    core.settle()
    assert (held(core, "a"), held(core, "b")) == (4, 4)


def test_what_pods_in_no_queue_hold_is_not_shared():
    core = cluster(queue("a", "dept"), queue("b", "dept"))
    core.put(objects.claim("c", objects.request(count=4)), pod("outside", claims=["c"]))
    submit(core, "b", *names("b", 4))
    core.settle()
    submit(core, "a", *names("a", 4))
    core.state.queues.system(KaiQueues).count_outside(core.state.nodes.values())
    core.settle()
    assert (held(core, "a"), held(core, "b")) == (2, 2)


def test_what_a_share_entitles_to_changes_when_others_want_less():
    core = cluster(*[queue(name, "dept") for name in "abc"], gpu_count=6)
    submit(core, "c", *names("c", 6), preemptionPolicy="Never")
    core.settle()
    submit(core, "b", *names("b", 6), preemptionPolicy="Never")
    submit(core, "a", *names("a", 6))
    core.settle()
    assert (held(core, "a"), held(core, "b"), held(core, "c")) == (2, 0, 4)
    for name in names("b", 6):
        core.remove("Pod", name)
    core.settle()
    assert (held(core, "a"), held(core, "c")) == (3, 3)


def test_within_a_queue_the_less_important_make_room():
    core = cluster(queue("a", "dept", limit=-1))
    submit(core, "a", *names("low", 8), value=50)
    core.settle()
    submit(core, "a", "high", value=75)
    actions = core.settle()
    assert list(bound(actions)) == ["high"]
    assert len(victims(actions)) == 1


def test_within_a_queue_that_has_its_share_the_less_important_make_room_later_too():
    core = cluster(queue("a", "dept", limit=-1), queue("b", "dept", quota=8), gpu_count=4)
    core.put(labelled(pod("plain", cpu="62", value=100), "b", **{"kai.scheduler/preemptibility": "non-preemptible"}))
    submit(core, "a", "low", cpu="2", number=1, value=50)
    submit(core, "b", "other", cpu="0", number=3, value=100)
    assert len(bound(core.settle())) == 3
    submit(core, "a", "high", cpu="4", number=1, value=75)
    assert victims(core.settle()) == []
    core.remove("Pod", "plain")
    actions = core.settle()
    assert victims(actions) == ["low"]
    assert list(bound(actions)) == ["high"]


def test_between_queues_priority_of_pods_does_not_count():
    core = two_teams()
    submit(core, "b", *names("b", 4))
    submit(core, "a", *names("a", 4))
    core.settle()
    submit(core, "a", "urgent", value=99)
    actions = core.settle()
    assert victims(actions) != []
    assert all(name.startswith("a") for name in victims(actions)), "only of its own queue"


def test_young_pods_are_left_alone_for_as_long_as_their_queue_says():
    young = queue("b", "dept", quota=4)
    young["spec"]["reclaimMinRuntime"] = "10m"
    core = cluster(queue("a", "dept", quota=4), young)
    core.now = 1767225600.0  # 2026-01-01
    submit(core, "b", *names("b", 8), created="2026-01-01T00:00:00Z")
    core.settle()
    submit(core, "a", "a0")
    assert not victims(core.later(300))
    assert len(victims(core.later(400))) == 1


def test_within_a_queue_the_time_to_run_is_inherited():
    team = queue("team", "dept")
    team["spec"]["preemptMinRuntime"] = "5m"
    core = cluster(team, queue("a", "team"), gpu_count=1)
    core.now = 1767225600.0
    submit(core, "a", "low", created="2026-01-01T00:00:00Z")
    core.settle()
    submit(core, "a", "high", value=50)
    assert not victims(core.later(100))
    assert victims(core.later(300)) == ["low"]


def test_a_pod_that_wants_to_wait_before_others_go():
    core = two_teams()
    core.now = 1767225600.0
    submit(core, "b", *names("b", 8))
    core.settle()
    made = labelled(pod("a0", claims=["c-a0"]), "a", **{"kai.scheduler/preemption-delay": "10m"})
    made["metadata"]["creationTimestamp"] = "2026-01-01T00:00:30Z"
    core.put(objects.claim("c-a0"), made)
    assert not victims(core.later(500))
    assert len(victims(core.later(300))) == 1


def test_a_claim_that_pods_share_counts_once():
    core = cluster(queue("a", "dept", limit=1), objects.claim("shared"))
    for n in range(5):
        core.put(labelled(pod(f"p{n}", claims=["shared"]), "a"))
    assert len(bound(core.settle())) == 5
    assert held(core, "a") == 1


def test_t19_a_claim_for_everything_changes_nothing_for_others():
    core = cluster(queue("a", "dept"), queue("b", "dept"))
    submit(core, "a", "huge", number=2**63 - 1)
    submit(core, "b", *names("b", 3))
    core.settle()
    assert held(core, "b") == 3


def test_devices_that_are_no_gpus_are_not_counted():
    core = cluster(queue("a", "dept", limit=0))
    core.put(objects.resource_slice("net", gpus.gpu("nic", kind="net"), nodeName="n0"))
    core.put(objects.claim("nic", objects.request(deviceClassName="net")), labelled(pod("p", claims=["nic"]), "a"))
    assert list(bound(core.settle())) == ["p"]
    submit(core, "a", "gpu")
    assert "its limit of gpu is 0" in refused(core.settle())["gpu"]


def test_memory_is_in_millions_of_bytes_and_cpu_in_thousandths():
    team = queue("a", "dept")
    team["spec"]["resources"]["cpu"] = {"quota": 0, "limit": 1500, "overQuotaWeight": 1}
    team["spec"]["resources"]["memory"] = {"quota": 0, "limit": 100, "overQuotaWeight": 1}
    core = cluster(team)
    core.put(labelled(pod("cpu", cpu="1500m"), "a"), labelled(pod("more", cpu="1m"), "a"))
    core.put(labelled(pod("memory", requests={"memory": "100M"}), "a"))
    core.put(labelled(pod("mebi", requests={"memory": "1"}), "a"))
    actions = core.settle()
    assert sorted(bound(actions)) == ["cpu", "memory"]
    assert "its limit of cpu is 1500, its pods have 1500, and 1 more are needed" in refused(actions)["more"]
    assert "its limit of memory is 100000000, its pods have 100000000" in refused(actions)["mebi"]


def test_missing_numbers_are_zero():
    core = cluster({"kind": "Queue", "metadata": {"name": "a"}, "spec": {"parentQueue": "dept"}})
    core.put(labelled(pod("p", cpu="1"), "a"))
    assert "its limit of cpu is 0" in refused(core.settle())["p"]


def group_of_four(core, name, team, size=4):
    core.put(gang(name, size))
    for n in range(size):
        claim = f"{name}-{n}"
        core.put(objects.claim(claim), labelled(member(claim, of=name, claims=[claim]), team))


def test_a_gang_takes_back_what_it_needs_for_all():
    core = two_teams(nodes=2)
    submit(core, "b", *names("b", 8))
    core.settle()
    group_of_four(core, "g", "a")
    actions = core.settle()
    assert len(bound(actions)) == 4
    assert len(victims(actions)) == 4
    assert (held(core, "a"), held(core, "b")) == (4, 4)


def test_a_gang_that_is_more_than_the_share_takes_nothing():
    core = two_teams(nodes=2)
    submit(core, "b", *names("b", 8))
    core.settle()
    group_of_four(core, "g", "a", size=5)
    actions = core.settle()
    assert not bound(actions)
    assert not victims(actions)


def test_a_gang_is_within_the_limit_as_a_whole():
    core = cluster(queue("a", "dept", limit=3))
    group_of_four(core, "g", "a")
    actions = core.settle()
    assert not bound(actions)
    assert "its limit of gpu is 3" in refused_groups(actions)["g"]
    core.put(queue("a", "dept", limit=4))
    assert len(bound(core.settle())) == 4


def test_what_another_scheduler_wrote_is_taken_for_what_it_is():
    """Numbers that are none, and durations that are none."""
    odd = queue("a", "dept")
    odd["spec"]["resources"]["gpu"] = {"quota": "4", "limit": float("nan"), "overQuotaWeight": -3}
    odd["spec"]["resources"]["cpu"] = {"quota": 10**400, "limit": 10**400, "overQuotaWeight": 10**400}
    odd["spec"].update(priority="high", preemptMinRuntime="soon", reclaimMinRuntime=5)
    core = cluster(odd)
    submit(core, "a", "p")
    assert "its limit of gpu is 0" in refused(core.settle())["p"]


def kai_gang(core, name, team, number, least=None, created=None, **spec):
    """A PodGroup of KAI with pods that have a GPU each and say nothing of their queue."""
    tell(core, kai_group(name, queue=team, minMember=number if least is None else least, **spec))
    for n in range(number):
        claim, made = kai_member(f"{name}-{n}", name)
        made["metadata"]["creationTimestamp"] = created or f"2026-01-01T00:00:0{n}Z"
        core.put(claim, made)


def test_the_queue_of_a_group_counts_not_that_of_its_pods():
    core = two_teams()
    tell(core, kai_group("g", queue="a", minMember=1))
    claim, made = kai_member("p", "g")
    made["metadata"]["labels"] = {LABEL: "b"}
    core.put(claim, made)
    assert list(bound(core.settle())) == ["p"]
    assert (held(core, "a"), held(core, "b")) == (1, 0)


def test_after_a_restart_pods_are_charged_once_their_group_is_known():
    core = two_teams()
    claim, made = kai_member("p", "g")
    made["spec"]["nodeName"] = "n0"
    core.put(claim, made)
    assert held(core, "a") == 0
    tell(core, kai_group("g", queue="a", minMember=1))
    core.settle()
    assert held(core, "a") == 1, "as many as it asks for"
    core.remove("Pod", "p")
    assert held(core, "a") == 0


def test_a_gang_goes_as_a_whole():
    core = two_teams()
    kai_gang(core, "g", "b", 6)
    assert len(bound(core.settle())) == 6
    submit(core, "a", *names("a", 3))
    actions = core.settle()
    assert victims(actions) == [f"g-{n}" for n in range(6)]
    assert len(bound(actions)) == 3


def test_an_elastic_gang_loses_what_it_can_do_without_first():
    core = two_teams()
    kai_gang(core, "g", "b", 8, least=4)
    assert len(bound(core.settle())) == 8
    submit(core, "a", *names("a", 2))
    actions = core.settle()
    assert victims(actions) == ["g-6", "g-7"], "the youngest"
    assert len(bound(actions)) == 2


def test_an_elastic_gang_makes_room_for_a_gang():
    core = two_teams()
    kai_gang(core, "g", "b", 8, least=4)
    core.settle()
    kai_gang(core, "h", "a", 3)
    actions = core.settle()
    assert victims(actions) == ["g-5", "g-6", "g-7"]
    assert len(bound(actions)) == 3


@pytest.mark.parametrize("least", [0, 1, 2])
def test_an_elastic_group_gives_back_what_its_queue_may_not_keep(least):
    core = cluster(queue("a", "dept", quota=4), queue("b", "dept", quota=0), gpu_count=4)
    faults = []
    core.state.report = lambda subject, error: faults.append((subject, error))
    kai_gang(core, "g", "b", 4, least=least)
    assert len(bound(core.settle())) == 4
    submit(core, "a", "p", number=2)
    actions = core.settle()
    assert victims(actions) == ["g-2", "g-3"], "the youngest"
    assert list(bound(actions)) == ["p"]
    assert not faults


def test_an_elastic_group_that_needs_one_pod_makes_room_for_a_gang():
    """Nobody is asked to go twice, nor counted twice among those that go."""
    core = cluster(queue("a", "dept", quota=4), queue("b", "dept", quota=0), nodes=2)
    kai_gang(core, "g", "b", 8, least=1)
    assert len(bound(core.settle())) == 8
    kai_gang(core, "h", "a", 4)
    actions = core.settle()
    assert len(victims(actions)) == len(set(victims(actions))) == 4
    assert len(bound(actions)) == 4


def test_a_group_says_that_it_is_not_preemptible():
    core = two_teams()
    kai_gang(core, "g", "b", 4, preemptibility="non-preemptible")
    submit(core, "b", *names("b", 4))
    assert len(bound(core.settle())) == 8
    submit(core, "a", *names("a", 2))
    assert all(name.startswith("b") for name in victims(core.settle()))


def test_a_gang_of_which_too_few_are_left_is_stale_after_a_while():
    core = two_teams()
    kai_gang(core, "g", "b", 3)
    kai_gang(core, "never", "b", 2, stalenessGracePeriod="-1s")
    core.settle()
    gangs = StaleGangs(core.state)
    assert gangs.overdue(1000.0) == []
    core.remove_with_claims("g-1")
    core.remove_with_claims("never-1")
    assert gangs.overdue(1000.0) == []
    assert gangs.overdue(1059.0) == []
    ((group, pods),) = gangs.overdue(1061.0)
    assert group.key.name == "g"
    assert sorted(each.key[1] for each in pods) == ["g-0", "g-2"]


def test_a_gang_that_is_whole_again_is_not_stale():
    core = two_teams()
    kai_gang(core, "g", "b", 3)
    core.settle()
    gangs = StaleGangs(core.state)
    core.remove_with_claims("g-1")
    assert gangs.overdue(1000.0) == []
    core.put(*kai_member("g-3", "g"))
    core.settle()
    assert gangs.overdue(1061.0) == []
    core.remove_with_claims("g-2")
    assert gangs.overdue(1062.0) == []


def test_a_gang_is_tried_again_when_devices_become_free():
    core = cluster(queue("a", "dept", quota=4), gpu_count=4, nodes=2)
    for name in names("x", 4):
        core.put(objects.claim(name), pod(name, claims=[name]))
    assert len(bound(core.settle())) == 4
    core.put(gang("g", 4))
    for name in names("g", 4):
        core.put(objects.claim(name), labelled(member(name, claims=[name]), "a"))
    assert not bound(core.settle())
    for name in names("x", 4):
        core.remove_with_claims(name)
    assert len(bound(core.settle())) == 4


def priority_class(name, value):
    return "PriorityClass", {"kind": "PriorityClass", "metadata": {"name": name}, "value": value}


def test_a_group_has_the_priority_of_its_class():
    core = cluster(queue("a", "dept", limit=-1))
    tell(core, priority_class("urgent", 75))
    submit(core, "a", *names("low", 8), value=50)
    core.settle()
    kai_gang(core, "g", "a", 2, priorityClassName="urgent")
    actions = core.settle()
    assert sorted(bound(actions)) == ["g-0", "g-1"]
    assert len(victims(actions)) == 2


def test_a_class_that_kai_brings_along_is_known_without_its_object():
    core = cluster(queue("a", "dept", limit=-1))
    submit(core, "a", *names("low", 8), value=50)
    core.settle()
    kai_gang(core, "same", "a", 1, priorityClassName="train")
    assert victims(core.settle()) == []
    kai_gang(core, "more", "a", 1, priorityClassName="build-preemptible")
    assert list(bound(core.settle())) == ["more-0"]


def test_of_a_class_from_100_on_pods_are_not_preemptible():
    core = cluster(queue("a", "dept", quota=1, limit=-1))
    kai_gang(core, "g", "a", 2, priorityClassName="build")
    actions = core.settle()
    assert bound(actions) == {}
    assert "not preemptible" in refused_groups(actions)["g"]
    tell(core, kai_group("g", minMember=2, queue="a", priorityClassName="train"))
    assert len(bound(core.settle())) == 2


def test_pods_follow_when_the_class_comes_changes_and_goes():
    core = cluster(queue("a", "dept", limit=-1))
    kai_gang(core, "g", "a", 1, priorityClassName="urgent")
    core.settle()

    def found():
        (placed,) = (each for node in core.state for each in node.pods.values())
        return placed.priority

    assert found() == 0
    for value in (70, 80):
        tell(core, priority_class("urgent", value))
        assert found() == value
    core.scheduler.remove(*priority_class("urgent", 80), core.now)
    assert found() == 0


def test_a_waiting_group_has_its_turn_by_the_class_that_comes_later():
    core = cluster(queue("a", "dept", limit=-1), gpu_count=1)
    submit(core, "a", "there", value=99)
    core.settle()
    kai_gang(core, "first", "a", 1)
    kai_gang(core, "second", "a", 1, priorityClassName="urgent")
    core.settle()
    tell(core, priority_class("urgent", 60))
    core.remove_with_claims("there")
    assert list(bound(core.settle())) == ["second-0"]


def test_a_job_is_stale_where_it_says_so():
    core = Core(*racks(a1=4))
    template = {"labels": {"kai.scheduler/queue": "team"}}
    for name, said in (("j", {"kai.scheduler/staleness-grace-period": "10s"}), ("k", {})):
        tell(core, job(name, {"kai.scheduler/batch-min-member": "2", **said}, template))
        core.put(*(each for n in range(2) for each in of_job(f"{name}-{n}", name, **template)))
    assert len(bound(core.settle())) == 4
    core.remove_with_claims("j-1")
    core.remove_with_claims("k-1")
    gangs = StaleGangs(core.state)
    assert gangs.overdue(1000.0) == []
    assert [group.key.name for group, _ in gangs.overdue(1011.0)] == ["j"]


def test_a_pod_evicts_another_of_its_queue_once_the_queue_above_has_room():
    """Its own queue is at the limit, which an eviction would help, and so is the queue above, which it would not."""
    core = cluster(queue("top", "dept", limit=3), queue("a", "top", limit=2), queue("b", "top"))
    submit(core, "a", "a0")
    submit(core, "b", "b0", number=2)
    assert len(bound(core.settle())) == 2
    submit(core, "a", "a1", number=2, value=10)
    assert victims(core.settle()) == []
    core.remove_with_claims("b0")
    done = core.settle()
    assert victims(done) == ["a0"]
    assert bound(done) == {"a1": "n0"}


def test_what_a_pod_holds_that_is_evicted_does_not_count_until_it_is_gone():
    """Whatever changes meanwhile: the pod is deleted with a grace period, its group names another queue."""
    core = cluster(queue("a", "dept", quota=1), queue("b", "dept"), queue("c", "dept"), gpu_count=2)
    tell(core, kai_group("g", minMember=2, queue="b"))
    for n in range(2):
        core.put(*kai_member(f"g-{n}", "g"))
    assert len(bound(core.settle())) == 2
    submit(core, "a", "a0")
    assert victims(core.later()) == ["g-0", "g-1"]
    tree = core.state.queues.system(KaiQueues).tree
    core.change("Pod", "g-0", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    assert (tree.get("b").held["gpu"], tree.get("b").evicting["gpu"]) == (2, 2)
    assert victims(core.later()) == []
    tell(core, kai_group("g", minMember=2, queue="b", priorityClassName="train"))
    assert tree.get("b").evicting["gpu"] == 2
    for n in range(2):
        core.remove_with_claims(f"g-{n}")
    assert not tree.get("b").evicting
    assert list(bound(core.settle())) == ["a0"]


@pytest.mark.parametrize("order", [("b0", "b1"), ("b1", "b0")])
def test_of_equal_pods_the_same_is_evicted_after_a_restart(order):
    core = cluster(queue("a", "dept", quota=1), queue("b", "dept", quota=1), gpu_count=0)
    gpu = {"nvidia.com/gpu": "1"}
    core.put(objects.node("n1", cpu="64", allocatable={"nvidia.com/gpu": "2"}))
    for name in order:
        started = {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"}
        core.put({**labelled(placed(name, "n1", requests=gpu, limits=gpu), "b"), "status": started})
    core.put(labelled(pod("a0", requests=gpu, limits=gpu), "a"))
    assert victims(core.settle()) == ["b0"]


@pytest.mark.parametrize("roots", [(), ("other",)])
def test_a_pod_reclaims_once_pods_of_its_queue_end_elsewhere(roots):
    """Queue `a` uses all of its share on another node than the one that the waiting pod selects. Its share stays the
    same when its pods end, since more of its pods wait than it has a share for."""
    core = cluster(
        *(queue(name, quota=0) for name in roots),
        queue("a", "dept", quota=1, weight=0),
        queue("b", "dept", quota=1, weight=0),
        gpu_count=4,
        nodes=2,
    )
    here, there = ({"nodeSelector": {"kubernetes.io/hostname": name}} for name in ("n0", "n1"))
    submit(core, "b", "b0", "b1", **here)
    submit(core, "a", "a0", "a1", **there)
    assert sorted(bound(core.settle())) == ["a0", "a1", "b0", "b1"]
    submit(core, "a", "nowhere0", "nowhere1", nodeSelector={"kubernetes.io/hostname": "n2"})
    submit(core, "a", "waiting", **here)
    assert victims(core.settle()) == []
    for name in ("a0", "a1"):
        core.remove_with_claims(name)
    assert len(victims(core.settle())) == 1


def test_a_queue_above_its_share_loses_pods_before_one_of_lower_priority_within_its_share():
    """Otherwise the queue that loses the pod would reclaim its share from the other at once."""
    core = cluster(
        queue("a", "dept", quota=1),
        queue("b", "dept", quota=1),
        queue("c", "dept", quota=1, weight=0, priority=101),
        gpu_count=4,
    )
    submit(core, "a", *names("a", 2))
    submit(core, "c", *names("c", 2))
    assert len(bound(core.settle())) == 4
    submit(core, "b", "b0")
    actions = core.settle()
    assert [name[0] for name in victims(actions)] == ["c"]
    assert list(bound(actions)) == ["b0"]


def test_extended_resources_of_mig_profiles_count_as_their_slices():
    profile = "nvidia.com/mig-3g.20gb"
    core = Core(queue("dept", quota=-1), queue("a", "dept", quota=3, weight=0), queue("b", "dept", quota=0, weight=0))
    core.put(objects.node("n", allocatable={profile: "2"}))

    def mig(name, team):
        resources = {"requests": {profile: "1"}, "limits": {profile: "1"}}
        return labelled(objects.pod(name, containers=[{"name": "c", "image": "i", "resources": resources}]), team)

    core.put(mig("b0", "b"), mig("b1", "b"))
    assert len(bound(core.settle())) == 2
    assert held(core, "b") == 6
    core.put(mig("a0", "a"), mig("a1", "a"))
    actions = core.settle()
    assert len(victims(actions)) == 1, "one profile is within the quota of a"
    assert len(bound(actions)) == 1
