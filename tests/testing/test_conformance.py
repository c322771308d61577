"""The conformance command, and the corpora themselves."""

import gzip
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from dray.testing.conformance.__main__ import main

CORPORA = Path(__file__).parents[1] / "conformance"


def test_the_api_corpus_passes():
    done = CliRunner().invoke(main, ["api", str(CORPORA / "api.jsonl.gz")])
    assert done.exit_code == 0, done.output
    assert done.output.splitlines()[-1] == "2661 passed, 0 failed"


def case(name, code, **expect):
    body = {"metadata": {"name": "gpu"}, "spec": {}}
    return {
        "name": name,
        "method": "POST",
        "path": "/apis/resource.k8s.io/v1/deviceclasses?dryRun=All",
        "body": body,
        "expect": {"code": code, **expect},
    }


@pytest.fixture
def corpus(tmp_path):
    path = tmp_path / "cases.jsonl.gz"
    stored = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": {}}
    cases = [
        case("good: same", 201, object=stored),
        case("bad: other code", 422, causes=[["spec", "FieldValueRequired"]]),
        case("bad: other object", 201, object={**stored, "spec": {"extendedResourceName": "x.io/y"}}),
    ]
    path.write_bytes(gzip.compress("\n".join(map(json.dumps, cases)).encode()))
    return path


def test_what_differs_is_shown(corpus):
    done = CliRunner().invoke(main, ["api", str(corpus)])
    assert done.exit_code == 1
    assert "expected 422" in done.output
    assert ".spec.extendedResourceName is missing" in done.output
    assert done.output.splitlines()[-1] == "1 passed, 2 failed"


@pytest.mark.parametrize("text", [None, b"{", b"{}"], ids=["not gzip", "not JSON", "no case"])
def test_what_is_not_a_corpus_is_named(tmp_path, text):
    path = tmp_path / "broken.jsonl.gz"
    path.write_bytes(b"not gzip" if text is None else gzip.compress(text))
    done = CliRunner().invoke(main, ["api", str(path)])
    assert done.exit_code == 2
    assert "broken.jsonl.gz" in done.output
