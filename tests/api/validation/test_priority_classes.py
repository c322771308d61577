"""PriorityClasses."""

import pytest

from tests.api.objects import causes, changed, create, update

CLASS = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 10}


def test_they_preempt_unless_they_say_otherwise():
    assert create(CLASS).object["preemptionPolicy"] == "PreemptLowerPriority"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"value": 1_000_000_000}, set()),
        ({"value": 1_000_000_001}, {"value Forbidden"}),
        ({"value": -5}, set()),
        ({"metadata.name": "system-mine"}, {"metadata.name Forbidden"}),
        ({"metadata.name": "system-node-critical", "value": 2_000_001_000}, set()),
        ({"preemptionPolicy": "Never"}, set()),
        ({"preemptionPolicy": "Always"}, {"preemptionPolicy NotSupported"}),
    ],
)
def test_classes(changes, expected):
    assert causes(create(changed(CLASS, changes))) == expected


def test_what_pods_were_given_stays():
    found = causes(update(changed(CLASS, {"value": 11, "preemptionPolicy": "Never", "description": "new"}), CLASS))
    assert found == {"value Forbidden", "preemptionPolicy Invalid"}
