"""Who comes next, and how long those wait for whom nothing can be done."""

import pytest

from dray.scheduling.model.status import Diagnosis
from dray.scheduling.waiting.queue import Queue
from dray.scheduling.waiting.queued_pods import SubQueue, Wait
from dray.scheduling.waiting.wait_entries import FLUSH_AFTER, INITIAL_BACKOFF, MAX_BACKOFF, backoff
from tests.scheduling import models


def waiting(queue, name, *, priority=0, now=0.0):
    pod = models.pod(name)
    pod.priority = priority
    return queue.add(pod, now)


def active(queue, *names, priority=0):
    found = []
    for name in names:
        found.append(waiting(queue, name, priority=priority))
        queue.activate(found[-1], 0.0)
    return found


def popped(queue, now=0.0):
    names = []
    while (each := queue.pop(now)) is not None:
        names.append(each.pod.key[1])
        queue.gate(each, now)
    return names


def park(queue, each, key="k", now=0.0):
    queue.add_unschedulable(each, Diagnosis(0), Wait(key), now)


def test_by_priority_and_then_by_arrival():
    queue = Queue()
    active(queue, "a")
    active(queue, "b", priority=3)
    active(queue, "c")
    assert popped(queue) == ["b", "a", "c"]


def old(queue, name, created):
    pod = models.pod(name)
    pod.created = created
    queue.activate(queue.add(pod, 0.0), 0.0)


def test_by_creation_though_it_is_seen_late():
    queue = Queue()
    old(queue, "b", "2030-01-01T00:00:07Z")
    old(queue, "c", "2030-01-01T00:00:07Z")
    old(queue, "a", "2030-01-01T00:00:05Z")
    assert popped(queue) == ["a", "b", "c"]


def test_who_does_not_say_when_it_was_created_is_behind_those_that_came_before():
    queue = Queue()
    for name, created in (("b", "2030-01-01T00:00:07Z"), ("c", ""), ("a", "2030-01-01T00:00:05Z"), ("d", "nonsense")):
        old(queue, name, created)
    assert popped(queue) == ["a", "b", "c", "d"]


def in_group(queue, name, group, created):
    pod = models.pod(name)
    pod.created, pod.group = created, group
    queue.activate(queue.add(pod, 0.0), 0.0)


def test_a_group_that_its_pods_order_has_the_age_of_the_oldest_pod_of_its_tree():
    queue = Queue()
    for group in ("left", "right"):
        queue.put_group(group, (), "root", by_pods=True)
    old(queue, "early", "2030-01-01T00:00:05Z")
    in_group(queue, "l", "left", "2030-01-01T00:00:06Z")
    old(queue, "late", "2030-01-01T00:00:07Z")
    in_group(queue, "r", "right", "2030-01-01T00:00:08Z")
    assert popped(queue) == ["early", "l", "r", "late"]


def test_the_oldest_pod_of_a_group_may_be_seen_late():
    queue = Queue()
    queue.put_group("group", (), "group", by_pods=True)
    in_group(queue, "b", "group", "2030-01-01T00:00:07Z")
    old(queue, "other", "2030-01-01T00:00:06Z")
    in_group(queue, "a", "group", "2030-01-01T00:00:05Z")
    assert popped(queue)[0] == "a"
    queue.put_group("group", ["uid-a", "uid-b"], "group", "2030-01-01T00:00:05Z", by_pods=True)
    assert queue.get("uid-b").arrival == queue.get("uid-a").arrival


def test_a_group_that_its_pods_order_is_put_off_too():
    queue = Queue()
    queue.put_group("group", (), "group", by_pods=True)
    in_group(queue, "g", "group", "2030-01-01T00:00:05Z")
    old(queue, "other", "2030-01-01T00:00:07Z")
    queue.postpone("group", ["uid-g"], 0.0, 0.0)
    assert popped(queue) == ["other", "g"]


def test_a_group_has_the_age_of_its_object_until_it_is_put_off():
    queue = Queue()
    for name in ("a", "g", "b"):
        old(queue, name, "2030-01-01T00:00:07Z")
    queue.put_group("group", ["uid-g"], "group", "2030-01-01T00:00:05Z")
    assert popped(queue) == ["g", "a", "b"]
    queue.postpone("group", ["uid-g"], 0.0, 0.0)
    for name in ("a", "g", "b"):
        queue.activate(queue.get(f"uid-{name}"), 0.0)
    old(queue, "late", "2030-01-01T00:00:09Z")
    assert popped(queue) == ["a", "b", "g", "late"]


def test_one_that_is_gated_is_not_tried():
    queue = Queue()
    (each,) = active(queue, "a")
    queue.gate(each, 0.0)
    assert popped(queue) == []
    queue.activate(each, 0.0)
    queue.activate(each, 0.0)
    assert popped(queue) == ["a"]


def test_one_that_is_gone_is_not_tried():
    queue = Queue()
    active(queue, "a", "b")
    queue.remove("uid-a", 0.0)
    assert popped(queue) == ["b"]


@pytest.mark.parametrize(("failures", "seconds"), [(1, INITIAL_BACKOFF), (2, 2 * INITIAL_BACKOFF), (50, MAX_BACKOFF)])
def test_delays_grow_to_a_limit(failures, seconds):
    assert backoff(failures) == seconds


def test_after_an_error_it_is_tried_later():
    queue = Queue()
    (each,) = active(queue, "a")
    queue.pop(0.0)
    queue.back_off(each, 1.0)
    assert queue.due() == 1.0 + INITIAL_BACKOFF
    assert popped(queue, 1.0) == []
    assert popped(queue, 1.0 + INITIAL_BACKOFF) == ["a"]


def grouped(*names):
    queue = Queue()
    made = active(queue, *names)
    for each in made:
        queue.pop(0.0)
        park(queue, each)
    (group,) = queue.entries
    return queue, group, made


def test_only_the_first_of_a_group_is_woken():
    queue, group, (a, _, _) = grouped("a", "b", "c")
    queue.entries.move_to_active(group, 1.0)
    queue.entries.move_to_active(group, 1.0)
    assert queue.pop(1.0) is a
    assert queue.pop(1.0) is None


def test_if_the_first_finds_a_place_the_next_is_tried_at_once():
    queue, group, (a, b, c) = grouped("a", "b", "c")
    queue.entries.move_to_active(group, 1.0)
    assert queue.pop(1.0) is a
    queue.start_binding(a, 1.0)
    assert queue.pop(1.0) is b
    park(queue, b, now=1.0)
    assert queue.pop(1.0) is None
    assert c.subqueue is SubQueue.UNSCHEDULABLE


def test_if_the_first_is_gone_the_next_is_tried():
    queue, group, (a, b) = grouped("a", "b")
    queue.entries.move_to_active(group, 1.0)
    queue.remove("uid-a", 1.0)
    assert queue.pop(1.0) is b
    assert a.entry is None


def test_a_group_that_was_tried_in_vain_waits_before_it_is_tried_again():
    queue, group, (a, _) = grouped("a", "b")
    for failures in (2, 3, 4):
        now = group.not_before
        queue.entries.move_to_active(group, now)
        assert queue.pop(now) is a
        park(queue, a, now=now)
        assert group.not_before == now + backoff(failures)
        queue.entries.move_to_active(group, now)
        assert queue.pop(now) is None
        # It was not forgotten that something changed.
        assert queue.due() == group.not_before


@pytest.mark.parametrize(("priority", "first"), [(4, "a"), (5, "low"), (6, "low")])
def test_one_in_haste_goes_before_those_that_are_less_urgent_and_only_then(priority, first):
    queue = Queue()
    (a,) = active(queue, "a", priority=5)
    assert queue.pop(0.0) is a
    park(queue, a)
    (group,) = queue.entries
    queue.entries.let_ahead(group)
    queue.entries.move_to_active(group, 0.0)
    assert queue.pop(0.0) is None
    active(queue, "low", priority=priority)
    assert queue.pop(0.0).pod.key[1] == first
    # One try a haste.
    if first == "a":
        park(queue, a)
        assert queue.pop(0.0).pod.key[1] == "low"


def test_haste_ends_with_who_was_in_haste():
    queue, group, _ = grouped("a")
    queue.entries.let_ahead(group)
    queue.remove("uid-a", 0.0)
    (low,) = active(queue, "low", priority=-1)
    assert queue.pop(0.0) is low


def test_those_who_join_a_group_do_not_make_it_wait_longer():
    _, group, _ = grouped(*(f"p{n}" for n in range(30)))
    assert group.not_before == INITIAL_BACKOFF


def test_after_a_long_time_a_group_is_tried_without_a_cause():
    queue, _, (a, _) = grouped("a", "b")
    assert queue.due() == FLUSH_AFTER
    assert queue.pop(FLUSH_AFTER - 1) is None
    assert queue.pop(FLUSH_AFTER) is a


def test_one_of_a_group_can_be_tried_for_a_reason_of_its_own():
    queue, group, (a, b) = grouped("a", "b")
    queue.activate(b, 0.0)
    assert queue.pop(0.0) is b
    park(queue, b)
    assert group.members.keys() == {"uid-a", "uid-b"}
    assert a.subqueue is SubQueue.UNSCHEDULABLE


def test_an_empty_group_is_forgotten():
    queue, _, (a, b) = grouped("a", "b")
    queue.remove("uid-a", 0.0)
    queue.gate(b, 0.0)
    assert list(queue.entries) == []
    assert a.entry is b.entry is None


def test_one_that_changes_its_kind_changes_its_group():
    queue, group, (a, b) = grouped("a", "b")
    queue.entries.move_to_active(group, 1.0)
    queue.pop(1.0)
    park(queue, a, key="other", now=1.0)
    assert {each.wait.key for each in queue.entries} == {"k", "other"}
    # The next of those it left is tried, for it did not answer for them.
    assert queue.pop(1.0) is b


def test_counts():
    queue, _, _ = grouped("a", "b")
    active(queue, "c")
    waiting(queue, "d")
    counts = queue.counts()
    assert (counts[SubQueue.UNSCHEDULABLE], counts[SubQueue.ACTIVE], counts[SubQueue.GATED]) == (2, 1, 1)
    assert len(queue) == 4


def test_those_that_are_gone_are_not_kept_until_their_time_comes():
    queue = Queue()
    (stays,) = active(queue, "stays")
    park(queue, stays, "of its own")
    for number in range(2000):
        (each,) = active(queue, f"p{number}")
        park(queue, each, number)
        queue.remove(f"uid-p{number}", 0.0)
    assert len(queue._timers) < 200
    assert queue.due() == FLUSH_AFTER
    assert popped(queue, FLUSH_AFTER) == ["stays"]
