"""The status of groups of `scheduling.x-k8s.io`, by the phases of their pods."""

import pytest

from dray.controllers.coscheduling import status


def group(size, phase=""):
    metadata = {"name": "g", "namespace": "default"}
    return {"metadata": metadata, "spec": {"minMember": size}, "status": {"phase": phase} if phase else {}}


def pods(*phases, owners=()):
    metadata = {"namespace": "default", "ownerReferences": [{"name": each} for each in owners]}
    return [{"metadata": {"name": f"p{n}", **metadata}, "status": {"phase": each}} for n, each in enumerate(phases)]


@pytest.mark.parametrize(
    ("phases", "expected"),
    [
        ((), "Pending"),
        (("Running", "Running"), "Pending"),
        (("Pending", "Pending", "Pending"), "Scheduling"),
        (("Running", "Running", "Pending"), "Scheduling"),
        (("Running", "Succeeded", "Running"), "Running"),
        (("Running", "Failed", "Running"), "Failed"),
        (("Running", "Failed", "Pending"), "Scheduling"),
        (("Succeeded", "Succeeded", "Succeeded"), "Finished"),
    ],
)
def test_phases(phases, expected):
    assert status(group(3), pods(*phases))["phase"] == expected


@pytest.mark.parametrize("last", ["Finished", "Failed"])
def test_the_last_phases_stay(last):
    assert status(group(3, last), pods("Running"))["phase"] == last


def test_numbers_and_owners():
    found = status(group(2), pods("Running", "Succeeded", "Failed", owners=("job", "set")))
    assert (found["running"], found["succeeded"], found["failed"]) == (1, 1, 1)
    assert found["occupiedBy"] == "default/job,default/set"
