"""Which pods an event wakes."""

from types import SimpleNamespace

import pytest

from dray.scheduling.model.reasons import ObjectRef
from dray.scheduling.model.status import Diagnosis
from dray.scheduling.quota.quota_log import QuotaChanges
from dray.scheduling.waiting.queued_pods import QueuedPod, SubQueue, Wait
from dray.scheduling.waiting.quota_waits import Alike, QuotaWaits
from dray.scheduling.waiting.wait_entries import Timers, WaitEntries
from dray.scheduling.waiting.wait_index import ObjectChanged, PodBound, PodsReady, QuotaChanged, ReasonsOutdated
from dray.testing import objects
from tests.scheduling.core import Core, pod

NOWHERE = {"nodeSelector": {"no": "where"}}


def waiting(*names):
    """Pods that no node suits, which wait one by one; and the index of what they wait for."""
    core = Core(objects.node("n"), *(pod(name, **NOWHERE) for name in names))
    core.later()
    for queued in core.scheduler.queue.all():
        core.scheduler.queue.gate(queued, core.now)
    return core, core.scheduler.waits, {queued.pod.key[1]: queued for queued in core.scheduler.queue.all()}


def file(core, queued, **members):
    """The pod is refused, and waits for that."""
    wait = Wait(queued.pod.uid, nodes=frozenset(), **members)
    core.scheduler.queue.add_unschedulable(queued, Diagnosis(1), wait, core.now)


def active(pods):
    return [name for name, queued in pods.items() if queued.subqueue is SubQueue.ACTIVE]


def test_a_changed_object_wakes_the_pods_that_wait_for_it():
    core, waits, pods = waiting("a", "b")
    storage = ObjectRef("StorageClass", "", "fast")
    waits.objects.add(pods["a"].pod.uid, [storage])
    waits.wake(ObjectChanged(ObjectRef("StorageClass", "", "slow")), core.now)
    assert active(pods) == []
    waits.wake(ObjectChanged(storage), core.now)
    assert active(pods) == ["a"]


def test_pods_that_do_not_wait_any_more_are_not_woken():
    core, waits, pods = waiting("a", "b")
    storage = ObjectRef("StorageClass", "", "fast")
    for queued in pods.values():
        waits.objects.add(queued.pod.uid, [storage])
    core.remove("Pod", "a")
    waits.wake(ObjectChanged(storage), core.now)
    waits.wake(PodsReady([pods["a"].pod.uid]), core.now)
    assert active(pods) == ["b"]


def test_freed_quota_wakes_pods_that_wait_for_it_on_some_nodes():
    core, waits, pods = waiting("a", "b")
    one, other = (ObjectRef("quota", "", root) for root in ("one", "other"))
    file(core, pods["a"], quota=(one,))
    file(core, pods["b"], quota=(other,))
    core.now += 1
    waits.wake(QuotaChanged(QuotaChanges({("other", lambda *_: True): None})), core.now)
    assert active(pods) == ["b"]


def test_a_pod_with_an_outdated_reason_is_tried_without_what_was_known():
    core, waits, pods = waiting("a")
    file(core, pods["a"])
    entry = pods["a"].entry
    waits.wake(ReasonsOutdated([pods["a"]]), core.now)
    assert entry.diagnosis is None
    assert active(pods) == ["a"]


def test_a_pod_that_waits_for_a_binding_is_tried_when_a_pod_is_bound():
    core, waits, pods = waiting("a", "b")
    file(core, pods["a"], binding=True)
    file(core, pods["b"])
    core.decisions = 0
    waits.wake(PodBound(), core.now)
    core.later(1)
    assert core.decisions == 1
    assert pods["a"].attempts == pods["b"].attempts + 1


@pytest.mark.parametrize("end", ["granted", "passed"])
def test_pods_count_on_the_pod_that_was_woken_before_them_until_it_has_quota_or_is_gone(end):
    """The woken pod is stopped by another limit, which would stop the other pods too."""
    entries = WaitEntries(lambda queued: None, lambda queued: queued.arrival, Timers(lambda _: True, lambda: 2))
    own = Alike("own", "team", "default/team", 0, frozenset({("gpu", 1)}))
    above = own._replace(root="above")
    pods = [QueuedPod(SimpleNamespace(uid=uid), number, 0.0) for number, uid in enumerate(("first", "second"))]
    for queued in pods:
        queued.entry = entries.add(queued, None, Wait(own), 0.0)
    waits = QuotaWaits(entries, lambda uid: False)
    waits.free("own", lambda *_: True)
    assert waits.pop() == ["first"]
    entries.pick(pods[0])
    waits.lack("first", above)
    assert waits.pop() == []
    waits.granted("first", above) if end == "granted" else waits.passed("first")
    assert waits.pop() == ["second"]
