"""Objects that bear the same spec as another are accepted and refused as if each were the first."""

import copy
import gzip
import json
from pathlib import Path

import pytest

from dray.api.catalogue import find
from dray.api.gates import ALL_GATES
from dray.api.intake import Accepted, Place
from dray.api.rules import Rules
from dray.server.resources import BuiltIn

CORPUS = Path(__file__).parents[1] / "conformance" / "api.jsonl.gz"
NOW = "2026-01-01T00:00:00Z"
PLACE = Place("default")
RULES = Rules(ALL_GATES)
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


def resource(document):
    return BuiltIn(find(document["apiVersion"], document["kind"]))


def create(server, document, rules=RULES, place=PLACE):
    return server.create(copy.deepcopy(document), place, rules, NOW)


def with_metadata(document, **metadata):
    return {**document, "metadata": {**document["metadata"], **metadata}}


def recorded(kind):
    with gzip.open(CORPUS, "rt") as lines:
        bodies = [json.loads(line).get("body") for line in lines]
    return [body for body in bodies if isinstance(body, dict) and body.get("kind") == kind]


@pytest.mark.parametrize("example", [POD, CLAIM], ids=["Pod", "ResourceClaim"])
def test_the_second_of_each_recorded_document_fares_as_the_first(example):
    remembering, accepted = resource(example), 0
    documents = recorded(example["kind"])
    for document in documents:
        if not isinstance(document.get("metadata"), dict):
            continue
        first = create(resource(example), document)
        assert create(remembering, document) == first
        assert create(remembering, document) == first
        other = with_metadata(document, name="another", labels={"a": "b"})
        assert create(remembering, other) == create(resource(example), other)
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
    remembering = resource(example)
    admins = Rules(ALL_GATES, admin_namespace=True)
    assert isinstance(create(remembering, example, admins), Accepted)
    document = with_metadata(example, **metadata)
    assert create(remembering, document, admins) == create(resource(example), document, admins)


def test_what_one_namespace_may_is_not_taken_for_what_another_may():
    remembering = resource(CLAIM)
    assert isinstance(create(remembering, CLAIM, Rules(ALL_GATES, admin_namespace=True)), Accepted)
    refused = create(remembering, CLAIM)
    assert refused == create(resource(CLAIM), CLAIM)
    assert refused.code == 422


def test_a_change_to_one_object_does_not_reach_the_next():
    remembering = resource(POD)
    first = create(remembering, POD).object
    kept = copy.deepcopy(first)
    first["spec"]["containers"][0]["image"] = "changed"
    second = create(remembering, POD).object
    assert second == kept
    second["spec"]["tolerations"] = []
    assert create(remembering, POD).object == kept


def test_memory_is_bounded():
    remembering = resource(POD)
    for number in range(500):
        spec = {"containers": [{"name": "main", "image": f"i{number}"}]}
        create(remembering, {**POD, "spec": spec})
    assert len(remembering._twins._known) <= 128
    long = {"containers": [{"name": "main", "image": "i", "command": ["x" * 100_000]}]}
    assert create(remembering, {**POD, "spec": long}) == create(resource(POD), {**POD, "spec": long})
    assert all(len(key) < 20_000 for key in remembering._twins._known)
