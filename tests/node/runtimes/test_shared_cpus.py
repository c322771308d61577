"""Containers without a claim stay off the CPUs that claims hold, while claims come and go, in both runtimes."""

import asyncio
import json
import logging
import os
from pathlib import Path

import pytest

from dray.node.cgroups import Cgroups
from dray.node.cpusets.cgroups import Hierarchy
from dray.node.cpusets.lists import parse_cpuset
from dray.node.runtimes.configs import SandboxConfig
from dray.node.runtimes.process import ProcessRuntime
from dray.node.runtimes.shared_cpus import SharedCpus
from tests.node.cpusets.fixtures import two_cpus
from tests.node.runtimes.conftest import UIDS

__all__ = ["two_cpus"]
CLAIMED = "dra.k8s.io/cpu=claim"
# Says on which CPUs it may run, again and again.
LOOK = ("sh", "-c", "while :; do grep Cpus_allowed_list /proc/self/status; sleep 0.05; done")


@pytest.fixture
def claim(tmp_path, two_cpus):
    """A claim that holds the first CPU; its CDI id."""
    device = {"name": "claim", "containerEdits": {"env": [f"DRA_CPUSET_claim={two_cpus[0]}"]}}
    (tmp_path / "cdi").mkdir()
    (tmp_path / "cdi/cpu.json").write_text(
        json.dumps({"cdiVersion": "0.6.0", "kind": "dra.k8s.io/cpu", "devices": [device]})
    )
    return CLAIMED


def seen(config):
    """The CPUs that the container named last; none before it has said anything."""
    lines = config.log_path.read_text().splitlines() if config.log_path.exists() else []
    whole = [line for line in lines if "Cpus_allowed_list" in line]
    return parse_cpuset(whole[-1].split()[-1]) if whole else frozenset()


async def sees(config, cpus):
    async with asyncio.timeout(30):
        while seen(config) != cpus:
            await asyncio.sleep(0.05)


async def test_containers_without_a_claim_leave_claimed_cpus_and_get_them_back(runtime, config, claim, two_cpus):
    online = frozenset(os.sched_getaffinity(0))
    others = online - {two_cpus[0]}
    await runtime.follow_claims([])
    before = config(*LOOK, name="before")
    started = [await runtime.start(before)]
    await sees(before, online)
    await runtime.follow_claims([claim])
    await sees(before, others)
    owner = config(*LOOK, name="owner", cdi_devices=(claim,))
    after = config(*LOOK, name="after")
    started += [await runtime.start(owner), await runtime.start(after)]
    await sees(owner, {two_cpus[0]})
    await sees(after, others)
    # From its first instruction.
    assert {parse_cpuset(line.split()[-1]) for line in after.log_path.read_text().splitlines()} == {others}
    await runtime.follow_claims([])
    await sees(before, online)
    await sees(after, online)
    assert seen(owner) == {two_cpus[0]}
    for container in started:
        await runtime.stop(container.id, 0)
        await runtime.remove(container.id)


async def test_an_agent_that_starts_again_gives_cpus_back_whose_claims_are_gone(
    runtime, make_runtime, config, claim, two_cpus
):
    before = config(*LOOK, name="restart")
    await runtime.follow_claims([claim])
    started = await runtime.start(before)
    await sees(before, frozenset(os.sched_getaffinity(0)) - {two_cpus[0]})
    successor = make_runtime()
    await successor.follow_claims([])
    await sees(before, frozenset(os.sched_getaffinity(0)))
    await successor.stop(started.id, 0)
    await successor.remove(started.id)


@pytest.mark.parametrize("kind", ["process"])
async def test_affinity_limits_containers_where_control_groups_are_missing_and_the_log_warns(
    kind, tmp_path, config, claim, two_cpus, caplog
):
    runtime = ProcessRuntime(tmp_path / "run", cdi_directories=[tmp_path / "cdi"], cgroups=Cgroups(Path("/none")))
    await runtime.create_sandbox(SandboxConfig(pod_uid=UIDS[kind], namespace="default", name="p", hostname="here"))
    try:
        before, after = config(*LOOK, name="before"), config(*LOOK, name="after")
        await runtime.start(before)
        with caplog.at_level(logging.WARNING):
            await runtime.follow_claims([claim])
        assert "kept off claimed CPUs by affinity, which their processes can change" in caplog.text
        others = frozenset(os.sched_getaffinity(0)) - {two_cpus[0]}
        await sees(before, others)
        await runtime.start(after)
        await sees(after, others)
        await runtime.follow_claims([])
        await sees(before, frozenset(os.sched_getaffinity(0)))
        await sees(after, frozenset(os.sched_getaffinity(0)))
    finally:
        await runtime.remove_sandbox(UIDS[kind])


@pytest.mark.parametrize("kind", ["process"])
async def test_claims_that_hold_all_cpus_leave_others_everywhere_and_the_log_says_so(runtime, tmp_path, caplog):
    cpus = ",".join(map(str, os.sched_getaffinity(0)))
    device = {"name": "all", "containerEdits": {"env": [f"DRA_CPUSET_all={cpus}"]}}
    (tmp_path / "cdi").mkdir()
    spec = {"cdiVersion": "0.6.0", "kind": "dra.k8s.io/cpu", "devices": [device]}
    (tmp_path / "cdi/cpu.json").write_text(json.dumps(spec))
    with caplog.at_level(logging.WARNING):
        await runtime.follow_claims(["dra.k8s.io/cpu=all"])
    assert "claims hold all CPUs" in caplog.text
    assert "reservedCPUs" in caplog.text
    assert runtime._shared.cpus == frozenset(os.sched_getaffinity(0))


def test_control_groups_of_version_2_are_confined_and_groups_that_fit_are_not_written(tmp_path, two_cpus, monkeypatch):
    group = tmp_path / "dray/uid/main-0"
    group.mkdir(parents=True)
    for name, text in {"cgroup.procs": "", "cpuset.cpus": "", "cpuset.cpus.effective": "0-1"}.items():
        (group / name).write_text(text)
    monkeypatch.setattr("dray.node.runtimes.shared_cpus.find_hierarchy", lambda: Hierarchy(tmp_path, 2))
    shared = SharedCpus([])
    assert shared.hold("dray/uid/main-0", frozenset({1}), lambda: pytest.fail("affinity is not needed"))
    assert (group / "cpuset.cpus").read_text() == "1"
    # The kernel says on which CPUs the processes run now.
    (group / "cpuset.cpus.effective").write_text("1")
    (group / "cpuset.cpus").write_text("unchanged")
    assert shared.hold("dray/uid/main-0", frozenset({1}), lambda: pytest.fail("affinity is not needed"))
    assert (group / "cpuset.cpus").read_text() == "unchanged"


def test_control_groups_of_version_2_pass_cpusets_on(tmp_path):
    (tmp_path / "cgroup.controllers").write_text("cpuset cpu memory pids")
    written = []

    class Control(type(tmp_path)):
        def write_text(self, text):
            written.append((self.parent.name, text))

    for place in (tmp_path, tmp_path / "dray", tmp_path / "dray/uid"):
        place.mkdir(exist_ok=True)
        (place / "cgroup.subtree_control").touch()
    Cgroups(Control(tmp_path)).make("uid", "main-0")
    assert {place for place, text in written if text == "+cpuset"} == {tmp_path.name, "dray", "uid"}
    # In a line of its own: a kernel without the controller refuses the whole line.
    assert {text for _, text in written} == {"+cpu +memory +pids", "+cpuset"}
