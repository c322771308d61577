"""The stories of a Kubernetes control plane, played in this process."""

from __future__ import annotations

import gzip
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from click.testing import CliRunner

from dray.api.protobuf import envelope
from dray.testing.conformance.__main__ import main
from dray.testing.conformance.cluster import QUIET, QUIET_HERE, InThread, Play
from dray.testing.conformance.servers import Answer
from tests.cli.running import running
from tests.server.api import PROTOBUF, as_json

CORPUS = Path(__file__).parents[1] / "conformance/cluster.jsonl.gz"


def test_all_stories_end_as_with_kubernetes():
    done = CliRunner().invoke(main, ["cluster", str(CORPUS)])
    assert done.exit_code == 0, done.output
    assert done.output.splitlines()[-1] == "23 passed, 0 failed"


class InProtobuf:
    """The server in this process, asked by a client that sends and takes protobuf only; patches are JSON by nature."""

    def __init__(self, server):
        self.server = server

    def ask(self, method, path, body=None, **headers):
        headers["accept"] = PROTOBUF
        if headers.get("content_type") == "application/json":
            body, headers["content_type"] = envelope.encode(json.loads(body)), PROTOBUF
        answer = self.server.ask(method, path, body, **headers)
        assert answer.body.startswith(envelope.MAGIC)
        return Answer(answer.code, json.dumps(as_json(answer.body)).encode())


def differences(names, quiet, asked=lambda server: server):
    lines = gzip.decompress(CORPUS.read_bytes()).splitlines()
    stories = [story for story in map(json.loads, lines) if story["name"] in names]
    server = InThread("default-scheduler")
    try:
        with ThreadPoolExecutor(len(stories)) as pool:
            plays = pool.map(lambda story: Play(asked(server), "default-scheduler", quiet).run(story), stories)
            return {outcome.name: outcome.difference for outcome in plays}
    finally:
        server.close()


def test_stories_told_in_protobuf():
    told = {"template comes later", "taint rule evicts", "extended resource", "two claims in one pod", "priority order"}
    assert differences(told, QUIET_HERE, InProtobuf) == dict.fromkeys(told)


def test_a_missing_claim_is_not_reported_while_a_step_on_another_server_settles():
    told = {"template comes later", "claim deleted before use"}
    assert differences(told, QUIET) == dict.fromkeys(told)


def test_one_that_ends_otherwise_is_shown(tmp_path):
    lines = gzip.decompress(CORPUS.read_bytes()).splitlines()
    [story] = [each for each in map(json.loads, lines) if each["name"] == "scheduling gate"]
    story["steps"][-1]["expect"]["pods"][0]["node"] = "elsewhere"
    path = tmp_path / "other.jsonl"
    path.write_text(json.dumps(story))
    done = CliRunner().invoke(main, ["cluster", str(path), "--only", "gate"])
    assert done.exit_code == 1
    assert "step 2: .pods[0].node" in done.output
    assert "elsewhere" in done.output


def test_they_are_played_over_http_too(tmp_path):
    with running("up", "--plain", "--port", "0", "--scheduler-name", "mine", cwd=tmp_path) as process:
        url = process.line().partition(" at ")[2]
        options = ["--only", "node is picked by its devices", "--url", url, "--scheduler", "mine"]
        done = CliRunner().invoke(main, ["cluster", str(CORPUS), *options])
    assert done.exit_code == 0, done.output
    assert done.output.splitlines()[-1] == "1 passed, 0 failed"
