from __future__ import annotations

import json
from collections.abc import Callable

from click.testing import CliRunner, Result

from dray.cli.explain import explain
from tests.cli.test_allocate import CLUSTER, claim, pod

Write = Callable[..., str]


def run(*arguments: str) -> Result:
    result = CliRunner().invoke(explain, arguments)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


MEMORY = 'has(device.capacity["gpu.example.com"].memory)'


def test_shows_what_was_chosen_and_from_what(write: Write) -> None:
    selectors = f"deviceClassName: gpu, selectors: [{{cel: {{expression: '{MEMORY}'}}}}],"
    result = run("small", write(CLUSTER + claim("small", 1).replace("deviceClassName: gpu,", selectors)))
    assert result.output.splitlines() == [
        "claim default/small: on node b",
        "├─ node b: fits",
        "│  └─ claim default/small",
        "│     └─ request gpus: needs 1, 2 available",
        "│        └─ picked b/gpu-0",
        "├─ node a: does not fit",
        "│  └─ claim default/small",
        "│     └─ request gpus: needs 1, 0 available",
        "│        └─ 1 device not selected by request, selector 1 (no memory): a/gpu-0",
        f"└─ request gpus, selector 1: {MEMORY}",
    ]
    assert result.exit_code == 0


def test_places_first_what_comes_first(write: Write) -> None:
    result = run("claim/second", write(CLUSTER + claim("first", 2) + claim("second", 2)))
    assert result.exit_code == 1
    assert "2 devices in use by default/first: b/gpu-0, b/gpu-1" in result.output
    assert "would fit if freed: default/first" in result.output


def test_explains_a_pod(write: Write) -> None:
    path = write(CLUSTER + pod("p", "resourceClaimTemplateName: one-gpu"))
    assert run("p", path).output == run("default/p", path).output == run("pod/p", path).output
    assert "picked a/gpu-0" in run("p", path).output


def test_the_target_must_be_one(write: Write) -> None:
    path = write(CLUSTER + claim("same", 1) + pod("same", "resourceClaimTemplateName: one-gpu"))
    result = run("same", path)
    assert result.exit_code == 2
    assert "say which" in result.output
    assert run("claim/same", path).exit_code == 0
    other = run("other", path)
    assert other.exit_code == 2
    assert "error: no claim or pod other" in other.output


def test_a_missing_claim_is_named(write: Write) -> None:
    result = run("p", write(CLUSTER + pod("p", "resourceClaimName: nothing")))
    assert "ResourceClaim default/nothing not found" in result.output
    assert result.exit_code == 1


def test_data(write: Write) -> None:
    result = run("claim/second", write(CLUSTER + claim("first", 2) + claim("second", 2)), "-o", "json")
    assert result.exit_code == 1
    row = json.loads(result.stdout)
    assert (row["kind"], row["namespace"], row["name"], row["fits"]) == ("claim", "default", "second", False)
    assert row["conclusion"].endswith("would fit on b if freed: default/first")
    [a, b] = row["nodes"]
    assert (a["node"], a["requests"][0]["available"]) == ("a", ["gpu.example.com/a/gpu-0"])
    [used] = b["requests"][0]["unavailable"]
    assert (used["reason"], used["owners"]) == ("InUse", [["default", "first"]])
    assert used["devices"] == ["gpu.example.com/b/gpu-0", "gpu.example.com/b/gpu-1"]
    assert b["toFree"] == ["default/first"]
    fits = json.loads(run("claim/first", write(CLUSTER + claim("first", 1)), "-o", "json").stdout)
    assert fits["nodes"][0]["claims"][0]["allocation"]["devices"]["results"][0]["device"] == "gpu-0"


def test_labels_that_no_node_has_are_named(write: Write) -> None:
    nowhere = pod("p", "resourceClaimTemplateName: one-gpu", extra="nodeSelector: {zone: north}")
    result = run("pod/p", write(CLUSTER + nowhere))
    assert result.stdout.splitlines() == [
        "pod default/p: does not fit: no node fits: label zone must be north, but is not set"
        "; change the node selector, or label a node with zone",
        "└─ 2 nodes (a, b): do not fit",
        "   └─ label zone must be north, but is not set",
    ]
