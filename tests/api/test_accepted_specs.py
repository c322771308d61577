"""Objects that bear the same spec as another are accepted and refused as if each were the first."""

import copy
import gzip
import json
from pathlib import Path

import pytest

from dray.api import intake
from dray.api.catalogue import find
from dray.api.gates import ALL_GATES
from dray.api.intake import Accepted, Place
from dray.api.rules import Rules

CORPUS = Path(__file__).parents[1] / "conformance" / "api.jsonl.gz"
NOW = "2026-01-01T00:00:00Z"
PLACE = Place("default")
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p"},
    "spec": {"containers": [{"name": "main", "image": "i", "resources": {"requests": {"cpu": "1"}}}]},
}
CLAIM = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaim",
    "metadata": {"name": "c"},
    "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu", "adminAccess": True}}]}},
}


def create(document, rules=None, place=PLACE):
    """By rules of its own, if none are given: what was accepted by others does not count for it."""
    example = CLAIM if document["kind"] == "ResourceClaim" else POD
    target = find(example["apiVersion"], example["kind"])
    return intake.create(copy.deepcopy(document), target, place, rules or Rules(ALL_GATES), now=NOW)


def with_metadata(document, **metadata):
    return {**document, "metadata": {**document["metadata"], **metadata}}


def recorded(kind):
    with gzip.open(CORPUS, "rt") as lines:
        bodies = [json.loads(line).get("body") for line in lines]
    return [body for body in bodies if isinstance(body, dict) and body.get("kind") == kind]


@pytest.mark.parametrize("example", [POD, CLAIM], ids=["Pod", "ResourceClaim"])
def test_the_second_of_each_recorded_document_fares_as_the_first(example):
    accepted = 0
    for document in recorded(example["kind"]):
        if not isinstance(document.get("metadata"), dict):
            continue
        first = create(document)
        rules = Rules(ALL_GATES)
        assert create(document, rules) == first
        assert create(document, rules) == first
        other = with_metadata(document, name="another", labels={"a": "b"})
        assert create(other, rules) == create(other)
        accepted += isinstance(first, Accepted)
    assert accepted > 5


@pytest.mark.parametrize(
    "metadata",
    [
        {"name": "Not A Name"},
        {"name": ""},
        {"namespace": "elsewhere"},
        {"labels": {"a": "not a value!"}},
        {"colour": "red"},
        {"labels": ["a"]},
        {"annotations": {"kubernetes.io/config.mirror": "yes"}},
        {"finalizers": ["short"]},
    ],
    ids=str,
)
@pytest.mark.parametrize("example", [POD, CLAIM], ids=["Pod", "ResourceClaim"])
def test_metadata_are_judged_for_each(example, metadata):
    rules = Rules(ALL_GATES, admin_namespace=True)
    assert isinstance(create(example, rules), Accepted)
    document = with_metadata(example, **metadata)
    assert create(document, rules) == create(document, Rules(ALL_GATES, admin_namespace=True))


def test_what_one_namespace_may_is_not_taken_for_what_another_may():
    assert isinstance(create(CLAIM, Rules(ALL_GATES, admin_namespace=True)), Accepted)
    assert create(CLAIM, Rules(ALL_GATES)).code == 422


def test_a_change_to_one_object_does_not_reach_the_next():
    rules = Rules(ALL_GATES)
    first = create(POD, rules).object
    kept = copy.deepcopy(first)
    first["spec"]["containers"][0]["image"] = "changed"
    second = create(POD, rules).object
    assert second == kept
    second["spec"]["containers"][0]["image"] = "changed"
    assert create(POD, rules).object == kept
