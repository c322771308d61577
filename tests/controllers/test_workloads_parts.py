"""What controllers of workloads share: availability, the order of removal, batches, and pods made from templates."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from dray.client.clock import timestamp
from dray.client.errors import ApiError
from dray.controllers.kinds import JOBS
from dray.controllers.workloads import pod_template, revisions
from dray.controllers.workloads.availability import is_available, until_available
from dray.controllers.workloads.batches import slow_start
from dray.controllers.workloads.removal import DELETION_COST, ranked_order

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def pod(name, *, node="a", phase="Running", ready=60, made=3600, restarts=0, cost=None):
    """`ready` and `made` are seconds ago; None is not ready."""
    since = timestamp(NOW - timedelta(seconds=ready)) if ready is not None else None
    conditions = [{"type": "Ready", "status": "True", "lastTransitionTime": since}] if since else []
    annotations = {DELETION_COST: cost} if cost is not None else {}
    created = timestamp(NOW - timedelta(seconds=made))
    return {
        "metadata": {"name": name, "uid": name, "annotations": annotations, "creationTimestamp": created},
        "spec": {"nodeName": node},
        "status": {"phase": phase, "conditions": conditions, "containerStatuses": [{"restartCount": restarts}]},
    }


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (pod("b", node=""), pod("a", phase="Pending")),
        (pod("b", phase="Pending", cost="5"), pod("a", phase="Unknown")),
        (pod("b", ready=None, cost="9"), pod("a")),
        (pod("b", ready=6000, cost="-1"), pod("a", ready=1)),
        (pod("b", ready=3), pod("a", ready=500)),
        (pod("b", restarts=3), pod("a", restarts=1)),
        (pod("b", made=10), pod("a", made=5000)),
        # Nearly as old: any may go, and the cost of no number is none.
        (pod("a", ready=1100, cost="much"), pod("b", ready=1200)),
    ],
)
def test_pods_that_are_lost_least_are_removed_first(first, second):
    assert ranked_order(first, 1, NOW) < ranked_order(second, 1, NOW)


def test_a_pod_with_many_neighbours_is_removed_before_a_lonely_one():
    assert ranked_order(pod("b", ready=5000), 3, NOW) < ranked_order(pod("a", ready=1), 1, NOW)


def test_a_pod_is_available_when_it_was_ready_for_long_enough():
    young, old = pod("a", ready=5), pod("b", ready=30)
    assert is_available(young, 0, NOW)
    assert not is_available(young, 10, NOW)
    assert is_available(old, 10, NOW)
    assert not is_available(pod("c", ready=None), 0, NOW)
    assert until_available([young, old], 10, NOW) == 5.0
    assert until_available([old], 10, NOW) is None


async def test_a_batch_that_fails_is_the_last():
    tried = []

    async def action(item):
        tried.append(item)
        if item == 2:
            raise ApiError(403, "Forbidden", "exceeded quota")

    with pytest.raises(ApiError, match="quota"):
        await slow_start(action, range(100))
    assert tried == [0, 1, 2]


def test_a_pod_has_the_labels_of_its_template_and_the_name_of_its_owner():
    owner = {"metadata": {"name": "web", "namespace": "x", "uid": "u"}}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": []}}
    made = pod_template.pod(owner, JOBS, template)
    assert made["metadata"]["generateName"] == "web-"
    assert made["metadata"]["labels"] == {"app": "web"}
    assert made["metadata"]["ownerReferences"][0]["blockOwnerDeletion"]
    # A name that takes no dash behind it.
    assert pod_template.name_prefix("w." + "a" * 250) == "w." + "a" * 250


def test_the_data_of_a_revision_has_its_members_in_the_order_of_their_names():
    template = {"spec": {"dnsPolicy": "x", "containers": [{"name": "c", "image": "i"}]}, "metadata": {"labels": {}}}
    data = json.dumps(revisions.data_of({"spec": {"template": template}}), separators=(",", ":"))
    assert data == (
        '{"spec":{"template":{"$patch":"replace","metadata":{"labels":{}},'
        '"spec":{"containers":[{"image":"i","name":"c"}],"dnsPolicy":"x"}}}}'
    )
