"""Objects that are there already, ours and those that Kubernetes answered with: in protobuf they are the same."""

import gzip
import json
from pathlib import Path
from typing import Any

from dray.api import schema, wire_types
from dray.api.protobuf import envelope
from dray.yaml.documents import parse

ROOT = Path(__file__).parents[3]
CORPUS = ROOT / "tests" / "conformance" / "api.jsonl.gz"


def written(document: dict[str, Any]) -> dict[str, Any]:
    type_name = wire_types.type_of(document["apiVersion"], document["kind"])
    assert type_name is not None
    read, problems = schema.read(document, type_name)
    assert not problems
    return schema.write(read, type_name)


def through_protobuf(document: dict[str, Any]) -> dict[str, Any]:
    return written(envelope.decode(envelope.encode(written(document))))


def test_answers_of_kubernetes() -> None:
    found = 0
    with gzip.open(CORPUS, "rt") as lines:
        for case in map(json.loads, lines):
            answered = case["expect"].get("object")
            if answered is not None:
                assert through_protobuf(answered) == answered, case["name"]
                body = {**case["body"], "apiVersion": answered["apiVersion"], "kind": answered["kind"]}
                assert through_protobuf(body) == written(body), case["name"]
                found += 1
    assert found > 700


def test_our_examples() -> None:
    found = 0
    for path in sorted((ROOT / "examples").rglob("*.yaml")):
        if path.relative_to(ROOT / "examples").parts[0] in ("mistakes", "legacy"):
            continue
        for document in (each.value for each in parse(path.read_bytes())):
            if isinstance(document, dict) and wire_types.type_of(document["apiVersion"], document["kind"]):
                assert through_protobuf(document) == written(document), path
                found += 1
    assert found > 30
