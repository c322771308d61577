"""Processes beside the agent that are shown as pods: their state, their log, their restarts."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest

from dray.node import host_parts
from dray.node.agent import NodeAgent
from dray.node.agent_options import AgentOptions
from dray.node.host_parts import HostPart
from dray.node.runtimes.process import ProcessRuntime
from dray.server.security.users import node_user
from dray.testing.cluster import LocalCluster
from dray.testing.kubelet.double import QUICK

NODE = "here"
NAME = "kube-scheduler-here"


@pytest.fixture
async def cluster():
    async with LocalCluster() as made:
        yield made


@pytest.fixture
async def agent(cluster, tmp_path):
    parts = (HostPart("kube-scheduler", ("dray", "up")),)
    runtime = ProcessRuntime(tmp_path / "run", cdi_directories=[])
    options = AgentOptions(node=NODE, root=tmp_path, runtime=runtime, timing=QUICK, host_parts=parts)
    made = NodeAgent(cluster.client_of(node_user(NODE)), options)
    running = asyncio.create_task(made.run())
    async with asyncio.timeout(30):
        await made.ready.wait()
    yield made
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def until(cluster, holds):
    async def found():
        pod = await cluster.get("Pod", NAME, namespace="kube-system")
        return pod if pod is not None and holds(pod["status"].get("containerStatuses") or [{}]) else None

    return await cluster.eventually(found)


async def test_a_part_is_a_mirror_pod_that_says_how_its_process_fares(cluster, agent, tmp_path):
    log = host_parts.begin(tmp_path, "kube-scheduler", NODE)
    pod = await until(cluster, lambda statuses: statuses[0].get("ready"))
    assert pod["metadata"]["annotations"]["kubernetes.io/config.mirror"]
    assert pod["metadata"]["ownerReferences"][0]["name"] == NODE
    assert (pod["spec"]["nodeName"], pod["status"]["phase"]) == (NODE, "Running")
    found = agent.host_pod("kube-system", NAME)
    assert agent.setup.log_path(found.pod, "kube-scheduler", 0) == log
    # It has no worker: nobody here starts or ends it.
    assert agent.worker("kube-system", NAME) is None


async def test_its_next_process_is_a_restart(cluster, agent, tmp_path):
    call = f"begin(Path({str(tmp_path)!r}), 'kube-scheduler', {NODE!r})"
    script = f"from pathlib import Path; from dray.node.host_parts import begin; {call}"
    await asyncio.to_thread(subprocess.run, [sys.executable, "-c", script], check=True, timeout=60)
    pod = await until(cluster, lambda statuses: statuses[0].get("lastState"))
    assert pod["status"]["containerStatuses"][0]["ready"] is False
    host_parts.begin(tmp_path, "kube-scheduler", NODE)
    pod = await until(cluster, lambda statuses: statuses[0].get("ready"))
    assert pod["status"]["containerStatuses"][0]["restartCount"] == 1


async def test_a_mirror_that_is_deleted_comes_back_with_its_status(cluster, agent, tmp_path):
    host_parts.begin(tmp_path, "kube-scheduler", NODE)
    first = await until(cluster, lambda statuses: statuses[0].get("ready"))
    await cluster.delete("Pod", NAME, namespace="kube-system")
    second = await until(cluster, lambda statuses: statuses[0].get("ready"))
    assert second["metadata"]["uid"] != first["metadata"]["uid"]


def test_logs_of_the_present_and_the_last_run_are_kept(tmp_path):
    for attempt in range(4):
        log = host_parts.begin(tmp_path, "part", NODE)
        assert log.name == f"{attempt}.log"
        log.write_text("x")
        log.with_name(f"{attempt}.log.1").write_text("x")
    assert sorted(each.name for each in log.parent.glob("*.log*")) == ["2.log", "2.log.1", "3.log", "3.log.1"]
