"""T20: the EASY example of the reference, as arithmetic and as decisions of the scheduler.

Eight nodes; R uses five of them until 10; the head J1 needs six.
"""

from math import inf

import pytest

from dray.api.times import text_of
from dray.scheduling.reservations.backfill import earliest, end_of, ends, may_start, run_time, shadow_of
from dray.testing import objects
from tests.scheduling import models
from tests.scheduling.core import Core, bound, placed
from tests.scheduling.test_reserved_places import training

FREE, NEED, ENDS = 3, 6, [10.0] * 5


def reservation():
    position = earliest(len(ENDS), lambda number: FREE + number >= NEED)
    return shadow_of(ENDS, position, 0.0), FREE + len(ENDS) - NEED


def test_t20_shadow_and_extra():
    assert reservation() == (10.0, 2)


@pytest.mark.parametrize(("size", "length", "starts"), [(3, 8, True), (3, 15, False), (2, 20, True)])
def test_t20_j2_starts_j3_waits_j4_could(size, length, starts):
    shadow, extra = reservation()
    assert may_start(float(length), shadow, size=size, extra=extra) is starts


def test_t20_by_the_scheduler():
    nodes = [objects.node(f"n{n}", cpu="1") for n in range(8)]
    core = Core(*nodes, reservation_seconds=600)
    core.now = 1000.0
    for n in range(5):
        made = placed(f"r-{n}", f"n{n}", cpu="1", activeDeadlineSeconds=1000)
        core.put({**made, "status": {"startTime": text_of(1000.0)}})
    core.put(*training("j1", 6, cpu="1"))
    core.settle(1)
    # Something newer went past it.
    core.put(models.document("past", requests={"cpu": "1"}, activeDeadlineSeconds=40))
    assert bound(core.settle(1)).keys() == {"past"}
    core.now += 30
    core.remove("Pod", "past")
    core.settle(10)
    assert core.scheduler.reservations.active
    # It can start when R ends, at 2000.
    core.put(*training("j3", 3, cpu="1", activeDeadlineSeconds=1500))
    assert bound(core.settle(10)) == {}
    core.put(*training("j2", 3, cpu="1", activeDeadlineSeconds=800))
    assert bound(core.settle(10)).keys() == {"j2-0", "j2-1", "j2-2"}


def test_an_end_is_known_from_the_deadline_or_from_the_label_of_kueue():
    plain = models.pod()
    assert run_time(plain) == inf
    assert end_of(plain, 5.0) == inf
    assert end_of(models.pod(activeDeadlineSeconds=60), 5.0) == 65.0
    label = {"kueue.x-k8s.io/max-exec-time-seconds": "30"}
    assert end_of(models.pod(activeDeadlineSeconds=60, labels=label), 5.0) == 35.0
    assert run_time(models.pod(labels={"kueue.x-k8s.io/max-exec-time-seconds": "soon"})) == inf
    assert run_time(models.pod(labels={"kueue.x-k8s.io/max-exec-time-seconds": "9" * 40})) == inf


def test_pods_whose_controller_replaces_them_do_not_end():
    owner = {"kind": "ReplicaSet", "name": "web", "uid": "u", "controller": True, "apiVersion": "apps/v1"}
    served = models.pod(restartPolicy="Always")
    served.document["metadata"]["ownerReferences"] = [owner]
    assert not ends(served)
    served.document["spec"]["activeDeadlineSeconds"] = 5
    assert ends(served)
    assert ends(models.pod(restartPolicy="Always"))
