"""PodDisruptionBudgets."""

import pytest

from tests.api.objects import BUDGET, causes, changed, create, update


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, set()),
        ({"spec.minAvailable": "50%"}, set()),
        ({"spec.minAvailable": -1}, {"spec.minAvailable Invalid"}),
        ({"spec.minAvailable": "half"}, {"spec.minAvailable Invalid"}),
        ({"spec.minAvailable": "101%"}, {"spec.minAvailable Invalid"}),
        ({"spec.maxUnavailable": 1}, {"spec Invalid"}),
        ({"spec.unhealthyPodEvictionPolicy": "AlwaysAllow"}, set()),
        ({"spec.unhealthyPodEvictionPolicy": "Never"}, {"spec.unhealthyPodEvictionPolicy NotSupported"}),
        ({"spec.selector": {"matchLabels": {"a b": ""}}}, {"spec.selector.matchLabels Invalid"}),
        (
            {"spec.selector": {"matchExpressions": [{"key": "a", "operator": "In"}]}},
            {"spec.selector.matchExpressions[0].values Required"},
        ),
        (
            {"spec.selector": {"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["b"]}]}},
            {"spec.selector.matchExpressions[0].values Forbidden"},
        ),
        (
            {"spec.selector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}},
            {"spec.selector.matchExpressions[0].operator Invalid"},
        ),
    ],
)
def test_budgets(changes, expected):
    assert causes(create(changed(BUDGET, changes))) == expected


def test_status():
    assert causes(update(changed(BUDGET, {"status.disruptionsAllowed": -1}), BUDGET, "status")) == {
        "status.disruptionsAllowed Invalid"
    }
