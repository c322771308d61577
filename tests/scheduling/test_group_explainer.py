"""Why a group waits: size, queue, topology and devices, each by itself."""

from dray.answers.explaining.queue_explainer import QueueExplainer
from dray.scheduling.explain.explainer import GroupExplainer
from dray.scheduling.model.messages import diagnosis_text, reason_text, status_text
from dray.testing import objects
from tests import gpus
from tests.scheduling.core import Core, placed, refused_groups
from tests.scheduling.test_group_attempts import gang, member, nodes, training
from tests.scheduling.test_queues import GPU, QUEUE, cluster_queue, flavor, local_queue, nominal

RACK = "rack"


def explained(core, name="g"):
    (group,) = (each for each in core.state.groups.forest.all() if each.key.name == name)
    before = dict(core.state.inventory.usage.claims)
    found = GroupExplainer(core.scheduler, QueueExplainer(core.scheduler).answer).explain(group, core.now)
    # It was thought only.
    assert core.state.inventory.usage.claims == before
    return found


def test_pods_that_are_missing_come_first():
    core = Core(*nodes(a=4), *training("g", 3, number=2))
    found = explained(core)
    (size,) = found.sizes
    assert (size.least, size.pods, size.placed, size.ready) == (3, 2, 0, 0)
    assert "has 2 of the 3 pods that have to start together" in status_text(found.obstacle)
    assert found.diagnosis is None


def test_a_place_for_some_of_the_pods():
    core = Core(*nodes(a=2, b=1), *training("g", 4))
    found = explained(core)
    assert found.obstacle is None
    assert (found.diagnosis.need, found.diagnosis.best, found.waiting) == (4, 3, 4)
    assert "cannot allocate all claims" in diagnosis_text(found.diagnosis.following)


def test_the_best_domain_is_named():
    core = Core()
    for name, rack, number in (("a", "r1", 1), ("b", "r2", 2), ("c", "r2", 1)):
        core.put(objects.node(name, labels={RACK: rack}), gpus.slice_of(name, number))
    core.put(*list(training("g", 4))[1:])
    core.put(gang("g", 4, schedulingConstraints={"topology": [{"key": RACK}]}))
    found = explained(core).diagnosis
    assert (found.domains, found.domain, found.best) == (2, "rack=r2", 3)


def test_the_queue_is_asked_for_all_pods_that_start_together():
    core = Core(*nodes(a=4), flavor(), cluster_queue("team", ("any", {GPU: nominal(2)})), local_queue("team", "team"))
    core.put(objects.namespace("default"), gang("g", 3))
    for number in range(3):
        made = member(f"g-{number}", claims=[f"g-{number}"])
        made["metadata"]["labels"] = {QUEUE: "team"}
        core.put(objects.claim(f"g-{number}"), made)
    found = explained(core)
    assert found.queue.queue == "team"
    assert "ClusterQueue team has 2 gpu at most, borrowing included, and 3 are needed" in reason_text(
        found.queue.problem
    )
    # There would be a place for it.
    assert found.diagnosis is None
    core.remove("ResourceSlice", "a")
    found = explained(core)
    assert "ClusterQueue team has 2 gpu at most, borrowing included, and 3 are needed" in reason_text(
        found.queue.problem
    )
    assert found.diagnosis.best == 0
    assert QUEUE not in diagnosis_text(found.diagnosis.following)


def test_one_that_runs_says_so():
    core = Core(*nodes(a=2), *training("g", 2))
    core.settle()
    found = explained(core)
    assert (found.started, found.waiting, found.diagnosis) == (True, 0, None)


def test_a_group_that_waits_is_told_so_once_whatever_else_happens():
    core = Core(*nodes(a=2, b=1, c=1), *training("g", 6))
    assert len(refused_groups(core.settle())) == 1
    for number in range(6):
        core.put(placed(f"x{number}", "abc"[number % 3], cpu="1"))
        assert not refused_groups(core.settle())
        core.remove("Pod", f"x{number}")
        assert not refused_groups(core.settle())
