"""Slices and classes: what may change, and what is not judged again."""

import pytest

from tests.api.objects import CLASS, RULE, SLICE, causes, changed, create, update

DEVICE_A = "spec.devices.0"


def test_a_class_is_ratcheted_by_list():
    long = {"x": "y" * 11000}
    stored = changed(CLASS, {"spec.config.0.opaque.parameters": long})
    assert causes(create(stored)) == {"spec.config[0].opaque.parameters TooLong"}
    assert causes(update(changed(stored, {"spec.selectors": []}), stored)) == set()
    other = changed(stored, {"spec.config.0.opaque.driver": "e.example.com"})
    assert causes(update(other, stored)) == {"spec.config[0].opaque.parameters TooLong"}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"spec.driver": "e.example.com"}, {"spec.driver Invalid"}),
        ({"spec.pool.name": "q"}, {"spec.pool.name Invalid"}),
        ({"spec.nodeName": "m"}, {"spec.nodeName Invalid"}),
        ({"spec.nodeName": None, "spec.allNodes": True}, {"spec.nodeName Invalid"}),
        ({"spec.pool.generation": 2, "spec.devices": []}, set()),
        ({"spec.devices": [], "spec.sharedCounters": []}, set()),
    ],
)
def test_what_may_change_in_a_slice(changes, expected):
    assert causes(update(changed(SLICE, changes), SLICE)) == expected


def test_presence_of_both_lists_counts_on_create():
    assert causes(create(changed(SLICE, {"spec.devices": [], "spec.sharedCounters": []}))) == {"spec Invalid"}


def test_unchanged_capacity_and_taints_of_a_device_are_not_judged_again():
    stored = changed(SLICE, {f"{DEVICE_A}.capacity": {"9": {"value": "1"}}, f"{DEVICE_A}.taints.0.key": "no good"})
    assert causes(create(stored)) == {"spec.devices[0].capacity Invalid", "spec.devices[0].taints[0].key Invalid"}
    stored = changed(stored, {f"{DEVICE_A}.taints.0.timeAdded": "2026-01-01T00:00:00Z"})
    touched = changed(stored, {"spec.devices.1.bindsToNode": True})
    assert causes(update(touched, stored)) == set()


def test_an_unknown_stored_effect_survives_only_in_a_rule():
    rule = changed(RULE, {"spec.taint.effect": "Future", "spec.taint.timeAdded": "2026-01-01T00:00:00Z"})
    assert causes(update(changed(rule, {"spec.taint.value": "v"}), rule)) == set()
    stored = changed(
        SLICE, {f"{DEVICE_A}.taints.0": {"key": "k", "effect": "Future", "timeAdded": "2026-01-01T00:00:00Z"}}
    )
    assert causes(update(changed(stored, {"metadata.labels": {"a": "b"}}), stored)) == set()
    assert causes(update(changed(stored, {"spec.devices.1.bindsToNode": True}), stored)) == {
        "spec.devices[0].taints[0].effect NotSupported"
    }
