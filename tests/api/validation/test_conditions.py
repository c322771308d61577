"""Conditions, and the requests for a status of pools that carry them."""

import pytest

from tests.api.objects import POOL_REQUEST, RULE, causes, changed, create, update

CONDITION = {"type": "T", "status": "True", "reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}


def test_conditions_of_a_rule():
    many = [{**CONDITION, "type": f"T{number}"} for number in range(9)]
    assert causes(update(changed(RULE, {"status.conditions": many}), RULE, "status")) == {"status.conditions TooMany"}
    bad = [{**CONDITION, "reason": "9", "status": "Maybe", "lastTransitionTime": None}, CONDITION]
    assert causes(update(changed(RULE, {"status.conditions": bad}), RULE, "status")) == {
        "status.conditions[0].reason Invalid",
        "status.conditions[0].status NotSupported",
        "status.conditions[0].lastTransitionTime Required",
        "status.conditions[1] Duplicate",
    }


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, set()),
        ({"spec.driver": ""}, {"spec.driver Required"}),
        ({"spec.driver": "x" * 70 + ".io"}, set()),
        ({"spec.poolName": ""}, {"spec.poolName Invalid"}),
        ({"spec.limit": 0}, {"spec.limit Invalid"}),
        ({"spec.limit": 1001}, {"spec.limit Invalid"}),
        ({"spec.defaultPartitionTypeAttribute": "bare"}, {"spec.defaultPartitionTypeAttribute Invalid"}),
    ],
)
def test_pool_status_requests(changes, expected):
    assert causes(create(changed(POOL_REQUEST, changes))) == expected


def test_a_pool_status_request_is_answered_once():
    pool = {"driver": "d", "poolName": "p", "generation": 1}
    answered = changed(POOL_REQUEST, {"status": {"poolCount": 1, "pools": [pool]}})
    assert causes(update(answered, POOL_REQUEST, "status")) == set()
    zero = changed(answered, {"status.pools.0.generation": 0})
    assert causes(update(zero, POOL_REQUEST, "status")) == {"status.pools[0].generation Required"}
    assert causes(update(changed(answered, {"status.poolCount": 2}), answered, "status")) == {"status Invalid"}
    assert causes(update(changed(POOL_REQUEST, {"spec.driver": "e"}), POOL_REQUEST)) == {"spec Invalid"}
