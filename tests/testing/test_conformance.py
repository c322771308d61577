"""The conformance command, and the corpora themselves."""

import gzip
import itertools
import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from dray.server.api_server import ApiServer
from dray.server.context import Context
from dray.server.requests import Stream
from dray.store.memory import MemoryStore
from dray.testing import objects
from dray.testing.conformance import api, flows
from dray.testing.conformance.__main__ import main
from dray.testing.conformance.servers import Answer, InProcess
from tests.server.api import PROTOBUF, ProtobufApi, document_of, serving
from tests.server.process import listening
from tests.virtual_time import VirtualLoop

CORPORA = Path(__file__).parents[1] / "conformance"


def test_the_api_corpus_passes():
    done = CliRunner().invoke(main, ["api", str(CORPORA / "api.jsonl.gz")])
    assert done.exit_code == 0, done.output
    assert done.output.splitlines()[-1] == "2661 passed, 0 failed"


GROUPS = str(CORPORA / "groups.jsonl.gz")
KNOWN_GROUPS = CORPORA / "groups-known.json"


def test_the_groups_corpus_passes_but_for_known_differences():
    done = CliRunner().invoke(main, ["groups", GROUPS, "--known", str(KNOWN_GROUPS)])
    assert done.exit_code == 0, done.output
    assert f"{len(json.loads(KNOWN_GROUPS.read_text()))} known differences" in done.output
    assert done.output.splitlines()[-1].endswith(" passed, 0 failed")


def test_a_known_difference_that_passes_fails_the_run(tmp_path):
    known = tmp_path / "known.json"
    known.write_text(json.dumps({"native-cpg-000": "It did not work once."}))
    only = ["--only", "native-cpg-000"]
    assert CliRunner().invoke(main, ["groups", GROUPS, *only]).exit_code == 0
    done = CliRunner().invoke(main, ["groups", GROUPS, *only, "--known", str(known)])
    assert done.exit_code == 1
    assert "passes now: remove it from the known differences" in done.output


def group_case(**members):
    """A case of the groups corpus with one node and one pod that fits."""
    pod = objects.pod("a", requests={"cpu": "1"})
    steps = [{"create": [objects.node("n1"), pod]}, {"check": "waiting", "names": ["a"]}]
    return {"case": {"id": "native-own-0", "family": "native", "mode": "steps", "steps": steps, **members}}


@pytest.mark.parametrize(
    ("members", "last"),
    [
        ({}, "0 passed, 1 failed"),
        ({"verdict": "bug", "note": "to be fixed"}, "0 passed, 1 failed"),
        ({"verdict": "documented", "note": "as the docs say"}, "1 passed, 0 failed"),
        ({"family": "unknown"}, "0 passed, 1 failed"),
    ],
    ids=["no verdict", "bug", "documented", "unknown family"],
)
def test_a_verdict_other_than_bug_accepts_a_difference(tmp_path, members, last):
    path = tmp_path / "cases.jsonl"
    path.write_text("\n".join(map(json.dumps, (group_case(**members), {"case": {"note": "a case without id"}}))))
    done = CliRunner().invoke(main, ["groups", str(path)])
    assert done.output.splitlines()[-1] == last
    assert done.exit_code == (0 if last.endswith("0 failed") else 1)


# A watch shows what has happened, and ends in a second: in this process nothing is on its way for longer.
FLOWS = [
    json.loads(re.sub(rb"timeoutSeconds=\d+", b"timeoutSeconds=1", line))
    for line in gzip.decompress((CORPORA / "flows.jsonl.gz").read_bytes()).splitlines()
]


@pytest.mark.parametrize("flow", FLOWS, ids=[flow["name"] for flow in FLOWS])
def test_every_conversation_passes(flow):
    assert flows.run(flow).difference is None


def test_conversations_pass_also_if_every_request_takes_a_second():
    start = datetime(2026, 1, 1, tzinfo=UTC)
    for flow in FLOWS:
        seconds = itertools.count()
        context = Context(MemoryStore(), clock=lambda seconds=seconds: start + timedelta(seconds=next(seconds)))
        server = InProcess(ApiServer(context))
        try:
            assert flows.play(flow, server).difference is None, flow["name"]
        finally:
            server.close()


class InProtobuf:
    """A server that is asked in protobuf, wherever a step does not ask for a form of its own."""

    def __init__(self, server):
        self.server = server

    def ask(self, method, path, body=None, **headers):
        if headers.get("accept") == "application/json":
            del headers["accept"]
        answer = self.server.raw(method, path, body or b"", **headers)
        if isinstance(answer, Stream):
            return Answer(200, b"\n".join(map(msgspec.json.encode, self.server.read(answer))))
        shown = msgspec.json.encode(document_of(answer)) if answer.content_type == PROTOBUF else answer.whole()
        return Answer(answer.code, shown)


def test_every_conversation_passes_in_protobuf():
    """In virtual time: a watch ends at once."""
    with serving(client=ProtobufApi, loop_factory=VirtualLoop) as server:
        for flow in FLOWS:
            assert flows.play(flow, InProtobuf(server)).difference is None, flow["name"]


def test_the_api_corpus_passes_in_protobuf():
    """Every tenth of it; bodies that protobuf cannot carry go as JSON."""
    cases = gzip.decompress((CORPORA / "api.jsonl.gz").read_bytes()).splitlines()[::10]
    with serving(client=ProtobufApi) as server:
        asked = InProtobuf(server)
        api.prepare(asked)
        for case in map(json.loads, cases):
            assert api.ask(case, asked).difference is None, case["name"]


def test_a_conversation_that_goes_another_way_is_shown():
    flow = {**FLOWS[0], "steps": [{**FLOWS[0]["steps"][0], "expect": {"code": 418}}]}
    assert flows.run(flow).difference.startswith("step 0, POST /apis/resource.k8s.io/v1/")


def test_a_server_can_be_asked_by_its_url(tmp_path):
    lines = gzip.decompress((CORPORA / "api.jsonl.gz").read_bytes()).splitlines()
    path = tmp_path / "few.jsonl"
    path.write_bytes(b"\n".join(lines[::100]))
    talk = tmp_path / "talk.jsonl"
    talk.write_text("\n".join(map(json.dumps, FLOWS[:3])))
    with listening() as server:
        for mode, file in (("api", path), ("flows", talk)):
            done = CliRunner().invoke(main, [mode, str(file), "--url", server.url])
            assert done.exit_code == 0, done.output
    assert CliRunner().invoke(main, ["cel", str(path), "--url", "http://x"]).exit_code == 2


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
