"""`dray mcp`, driven by the client of the official package over standard input and output."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

from dray.cli.agents import questions
from dray.cli.agents.questions import Refused, Subject, answered
from tests.cli.running import DRAY

READING = {"allocate", "devices", "explain", "lint", "plan", "queue", "topology"}
FLEET = Subject("", "", "", "", ("p5.48xlarge=1",))
JOB = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: gpus}
spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.nvidia.com, count: 5}}]}}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: train}
spec:
  completions: 2
  parallelism: 2
  template:
    spec:
      restartPolicy: Never
      containers: [{name: main, image: x, resources: {claims: [{name: gpus}]}}]
      resourceClaims: [{name: gpus, resourceClaimTemplateName: gpus}]
"""
POD = """
apiVersion: v1
kind: Pod
metadata: {name: secretive, annotations: {example.com/note: planted-annotation}}
spec:
  containers:
  - {name: main, image: x, command: [planted-command], args: [planted-argument], env: [{name: A, value: planted-env}]}
  nodeSelector: {nowhere: "true"}
"""


@asynccontextmanager
async def connected(*options: str) -> AsyncIterator[ClientSession]:
    server = StdioServerParameters(command=DRAY[0], args=[*DRAY[1:], "mcp", *options])
    async with stdio_client(server) as (reading, writing), ClientSession(reading, writing) as session:
        await session.initialize()
        yield session


async def call(session: ClientSession, tool: str, **arguments: Any) -> str:
    result = await session.call_tool(tool, arguments)
    text = "".join(each.text for each in result.content if each.type == "text")
    return f"error: {text}" if result.is_error else text


@pytest.mark.time_limit(120)
async def test_an_agent_asks_about_a_fleet() -> None:
    async with connected("--fleet", "p5.48xlarge=1") as session:
        tools = {each.name: each for each in (await session.list_tools()).tools}
        assert tools.keys() == READING
        assert all(each.annotations is not None and each.annotations.read_only_hint for each in tools.values())
        planned = await call(session, "plan", manifests=JOB)
        assert "1 of 2 pods fit; each of these changes helps:" in planned
        assert "  add 1 p5.48xlarge\n" in planned
        assert '"verdict":"FitsWithChange"' in await call(session, "plan", manifests=JOB, output="json")
        assert "2 of 2 pods fit" in await call(session, "plan", manifests=JOB, add=["1xp5.48xlarge"], policy="pack")
        assert "Input should be 'kubernetes', 'pack'" in await call(session, "plan", manifests=JOB, policy="best")
        assert "node p5-48xlarge-0" in await call(session, "topology")
        assert "nothing found in 2 objects" in await call(session, "lint", manifests=JOB)
        assert "1 of 2 fit" in await call(session, "allocate", manifests=JOB, policy="spread")
        assert "gpu-7" in await call(session, "devices", states=["free"])
        assert (await call(session, "queue")).startswith("error: ")
        assert "not found" in await call(session, "explain", target="pod/nobody")
        assert "node nowhere not found" in await call(session, "plan", drain=["nowhere"])
        assert "there is no state lost" in (await call(session, "devices", states=["lost"])).replace("'", "")
        assert "name a target" in await call(session, "explain", target="")
        assert "nothing to plan" in await call(session, "plan")
        assert tools["plan"].input_schema["additionalProperties"] is False
        assert "Extra inputs are not permitted" in await call(session, "plan", manifests=JOB, drains=["nowhere"])


@pytest.mark.time_limit(120)
async def test_a_question_that_is_cancelled_does_not_hold_up_the_next_one() -> None:
    waiting = "---".join(POD.replace("secretive", f"p{number}") for number in range(400))
    async with connected("--fleet", "p5.48xlarge=1") as session:
        await call(session, "devices")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await call(session, "plan", manifests=waiting, seconds=60)
        answers = await asyncio.gather(*(call(session, "devices", states=["free"]) for _ in range(3)))
        assert all("42 devices: 42 free" in each for each in answers)


@pytest.mark.time_limit(180)
async def test_answers_about_a_cluster_have_no_secrets_and_writes_are_tried_first(config: Path) -> None:
    where = ("--kubeconfig", str(config))
    async with connected(*where) as session:
        assert {each.name for each in (await session.list_tools()).tools} == READING
    async with connected(*where, "--allow-writes") as session:
        tools = {each.name: each for each in (await session.list_tools()).tools}
        assert tools.keys() == {*READING, "apply", "delete"}
        assert tools["apply"].annotations is not None
        assert tools["apply"].annotations.read_only_hint is False
        tried = await call(session, "apply", manifests=POD)
        assert "pod/secretive created (server dry run)" in tried
        assert "nothing was changed" in tried
        assert "not found" in await call(session, "explain", target="pod/secretive")
        assert "pod/secretive created\n" in await call(session, "apply", manifests=POD, confirm=True)
        for output in ("text", "json"):
            told = await call(session, "explain", target="pod/secretive", output=output)
            assert "there are no nodes" in told
            assert "planted" not in told
        assert "(server dry run)" in await call(session, "delete", manifests=POD)
        assert "secretive" in await call(session, "explain", target="pod/secretive")
        assert "deleted" in await call(session, "delete", manifests=POD, confirm=True)
        refused = await call(session, "apply", manifests="apiVersion: v1", confirm=True)
        assert "nothing more was changed: <stdin>:1:1: error: kind is required" in refused


def test_long_answers_are_cut_or_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(questions, "MOST_CHARACTERS", 400)
    text = answered(FLEET, "devices", {}, "text")
    assert "more lines; ask for less" in text
    assert text.endswith("42 devices: 42 free\n")
    with pytest.raises(Refused, match="more than 400"):
        answered(FLEET, "devices", {}, "json")
    with pytest.raises(Refused) as raised:
        answered(FLEET, "explain", {"target": f"pod/{'x' * 5000}"}, "text")
    assert len(str(raised.value)) < 600


def test_manifests_are_text_and_never_a_path(tmp_path: Path) -> None:
    (tmp_path / "pod.yaml").write_text(POD)
    with pytest.raises(Refused, match="a single value where a Kubernetes object belongs"):
        answered(FLEET, "allocate", {"manifests": str(tmp_path / "pod.yaml")}, "text")
    with pytest.raises(Refused, match="is no machine type"):
        answered(FLEET, "plan", {"add": [str(tmp_path / "pod.yaml")]}, "text")
    with pytest.raises(Refused, match="is no machine type"):
        answered(FLEET, "plan", {"add": ["p5.48xlarge=1,box.yaml"]}, "text")
    with pytest.raises(Refused, match="10,000 machines at most"):
        answered(FLEET, "plan", {"add": ["99999xp5.48xlarge"]}, "text")
    for endless in ("9" * 5000, "9" * 5000 + "xp5.48xlarge"):
        with pytest.raises(Refused, match=r"is no machine type|10,000 machines at most"):
            answered(FLEET, "plan", {"add": [endless]}, "text")


def test_a_fault_of_a_question_is_an_answer(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(questions._TOOLS, "lint", lambda subject, arguments: 1 / 0)  # type: ignore[arg-type]
    with pytest.raises(Refused, match="dray failed on this question: ZeroDivisionError"):
        answered(FLEET, "lint", {}, "text")
    assert "Traceback" in capsys.readouterr().err


def test_without_the_package_the_command_says_what_to_install() -> None:
    code = "import sys; sys.modules['mcp'] = None; from dray.cli import main; main(['mcp'])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert "pip install 'dray[mcp]'" in result.stderr
