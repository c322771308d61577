"""Containers that can be ended whatever they, their supervisors or their clients do."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import time
import uuid
from dataclasses import replace
from pathlib import Path

import pytest

from dray.node.cgroups import Cgroups
from dray.node.runtimes import stopping
from dray.node.runtimes.configs import SandboxConfig
from dray.node.runtimes.process import ProcessRuntime
from dray.process.identity import started_at
from tests.node.runtimes.conftest import UIDS
from tests.node.runtimes.streams import Recorder, until_said

FOUR_MEBIBYTES = [bytes(65536)] * 64
TICKS = os.sysconf("SC_CLK_TCK")
process_only = pytest.mark.parametrize("kind", ["process"])
root_only = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


class StalledReader(Recorder):
    """A client that takes no output."""

    async def output(self, stream: int, data: bytes) -> None:
        await asyncio.Event().wait()


@pytest.fixture
def shim(tmp_path):
    """The pid of a container's shim, and that of its first process."""

    def of(state):
        found = json.loads((tmp_path / "run/containers" / state.id / "state.json").read_text())
        return found["shim"], found["pid"]

    return of


@pytest.fixture
def impatient(monkeypatch):
    """A supervisor that does not answer is given up after a short time."""
    monkeypatch.setattr(stopping, "OBEY_SECONDS", 0.5)


def cpu_seconds(pid):
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / TICKS


async def attached(runtime, state, streams, *, until):
    """Attaches until something holds; the task goes on."""
    task = asyncio.create_task(runtime.attach(state.id, streams, stdin=True))
    async with asyncio.timeout(20):
        while not until() and not task.done():
            await asyncio.sleep(0.01)
    return task


async def left(task):
    """The client leaves, and the agent is done with it soon."""
    task.cancel()
    async with asyncio.timeout(20):
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def gone(*pids):
    async with asyncio.timeout(20):
        while any(started_at(pid) for pid in pids):
            await asyncio.sleep(0.02)


async def filled(runtime, state):
    """Gives a container more input than it takes; the input that was accepted does not grow any more."""
    streams = Recorder(*FOUR_MEBIBYTES, ends=False)
    counts = []

    def stuck():
        counts.append(len(streams._inputs))
        return len(counts) > 20 and len(set(counts[-20:])) == 1

    return await attached(runtime, state, streams, until=stuck)


@process_only
@pytest.mark.parametrize("tty", [False, True])
async def test_a_container_that_does_not_read_its_input_can_be_killed(runtime, config, shim, tty):
    state = await runtime.start(config("sh", "-c", "stty raw 2>&-; exec sleep 1000", stdin=True, tty=tty))
    supervisor, pid = shim(state)
    await left(await filled(runtime, state))
    before, began = cpu_seconds(supervisor), time.monotonic()
    await asyncio.sleep(1)
    used, passed = cpu_seconds(supervisor) - before, time.monotonic() - began
    assert used < 0.2 * passed, "the shim computes although nothing happens"
    async with asyncio.timeout(20):
        ended = await runtime.stop(state.id, 15)
    # The shim obeyed: the agent did not have to kill the processes itself.
    assert ended.signal == signal.SIGTERM
    assert not started_at(pid)


@process_only
async def test_input_that_waits_is_not_lost_when_the_container_reads_it_later(runtime, config, tmp_path):
    script = f"while [ ! -e {tmp_path}/go ]; do sleep 0.05; done; wc -c"
    given = config("sh", "-c", script, stdin=True, stdin_once=True)
    state = await runtime.start(given)
    streams = Recorder(*FOUR_MEBIBYTES)
    task = await attached(runtime, state, streams, until=lambda: len(streams._inputs) < 50)
    (tmp_path / "go").touch()
    async with asyncio.timeout(20):
        await task
    assert streams.outputs[1].strip() == b"4194304"


@process_only
async def test_clients_that_come_and_go_while_the_input_is_full_leave_nothing(runtime, config, shim):
    state = await runtime.start(config("sleep", "1000", stdin=True))
    supervisor, _ = shim(state)
    await left(await filled(runtime, state))

    def descriptors():
        return len(os.listdir(f"/proc/{supervisor}/fd"))

    before = descriptors()
    for _ in range(2):
        streams = [Recorder(*FOUR_MEBIBYTES, ends=False) for _ in range(20)]
        found = [
            await attached(runtime, state, recorder, until=lambda s=recorder: len(s._inputs) < 64)
            for recorder in streams
        ]
        await asyncio.gather(*map(left, found))
    async with asyncio.timeout(20):
        while descriptors() > before + 1:
            await asyncio.sleep(0.05)
    async with asyncio.timeout(20):
        assert (await runtime.stop(state.id, 0)).signal == signal.SIGKILL


@process_only
async def test_a_shim_refuses_more_clients_than_it_can_serve_and_goes_on(runtime, config, shim):
    state = await runtime.start(config("sleep", "1000", stdin=True))
    supervisor, _ = shim(state)
    tasks = [asyncio.create_task(runtime.attach(state.id, Recorder(ends=False))) for _ in range(100)]
    async with asyncio.timeout(20):
        while sum(task.done() for task in tasks) < 50:
            await asyncio.sleep(0.05)
    assert started_at(supervisor)
    assert len(os.listdir(f"/proc/{supervisor}/fd")) < 60
    async with asyncio.timeout(20):
        await runtime.stop(state.id, 15)
        await asyncio.gather(*tasks, return_exceptions=True)


@process_only
async def test_clients_that_do_not_read_do_not_delay_the_end(runtime, config, shim):
    state = await runtime.start(config("sh", "-c", "while :; do head -c 3000000 /dev/zero; sleep 0.1; done"))
    tasks = [asyncio.create_task(runtime.attach(state.id, StalledReader(ends=False))) for _ in range(30)]
    await asyncio.sleep(0.3)
    began = time.monotonic()
    async with asyncio.timeout(60):
        ended = await runtime.stop(state.id, 50)
    assert ended.signal == signal.SIGTERM
    # With a second for each of them it would be half a minute.
    assert time.monotonic() - began < 20
    for task in tasks:
        await left(task)


@process_only
@pytest.mark.parametrize("with_cgroups", [True, False])
async def test_a_container_whose_shim_is_stopped_is_killed_without_it(tmp_path, config, shim, impatient, with_cgroups):
    cgroups = Cgroups() if with_cgroups else Cgroups(Path("/none"))
    runtime = ProcessRuntime(tmp_path / "run", cdi_directories=[], cgroups=cgroups)
    await runtime.create_sandbox(SandboxConfig(pod_uid=UIDS["process"], namespace="default", name="p"))
    given = config("sh", "-c", "trap '' TERM; setsid sh -c 'echo $$; exec sleep 1000' & wait")
    state = await runtime.start(given)
    async with asyncio.timeout(20):
        while not given.log_path.read_text().endswith("\n"):
            await asyncio.sleep(0.02)
    other = int(given.log_path.read_text().split()[-1])
    supervisor, pid = shim(state)
    os.kill(supervisor, signal.SIGSTOP)
    async with asyncio.timeout(30):
        ended = await runtime.stop(state.id, 0.2)
    assert (ended.exit_code, ended.signal) == (137, signal.SIGKILL)
    assert not [process for process in (supervisor, pid, other) if started_at(process)]
    await runtime.remove_sandbox(UIDS["process"])
    assert await runtime.pods() == set()


@process_only
async def test_a_stopped_shim_does_not_block_the_agent(runtime, config, shim, impatient):
    state = await runtime.start(config("sleep", "1000", stdin=True))
    os.kill(shim(state)[0], signal.SIGSTOP)
    # More connections than a listener keeps for later.
    waiting = [asyncio.create_task(runtime.wait(state.id)) for _ in range(200)]
    async with asyncio.timeout(30):
        assert (await runtime.stop(state.id, 0)).exit_code == 137
        assert {ended.exit_code for ended in await asyncio.gather(*waiting)} == {137}


@process_only
async def test_a_process_with_the_number_of_a_shim_is_left_alone(runtime, config, tmp_path, impatient):
    state = await runtime.start(config("true"))
    await runtime.wait(state.id)
    directory = tmp_path / "run/containers" / state.id
    stranger = await asyncio.create_subprocess_exec("sleep", "1000", start_new_session=True)
    try:
        (directory / "exit.json").unlink()
        told = json.loads((directory / "state.json").read_text())
        (directory / "state.json").write_text(json.dumps({**told, "shim": stranger.pid, "pid": stranger.pid}))
        assert (await runtime.stop(state.id, 0)).exit_code == 137
        await runtime.kill(state.id)
        assert started_at(stranger.pid)
    finally:
        stranger.kill()
        await stranger.wait()


@process_only
async def test_processes_without_control_groups_end_when_their_shim_was_killed(tmp_path, config, shim):
    runtime = ProcessRuntime(tmp_path / "run", cdi_directories=[], cgroups=Cgroups(Path("/none")))
    await runtime.create_sandbox(SandboxConfig(pod_uid=UIDS["process"], namespace="default", name="p"))
    given = config("sh", "-c", "sh -c 'echo $$; exec sleep 1000' & wait")
    state = await runtime.start(given)
    async with asyncio.timeout(20):
        while not given.log_path.read_text().endswith("\n"):
            await asyncio.sleep(0.02)
    child = int(given.log_path.read_text().split()[-1])
    os.kill(shim(state)[0], signal.SIGKILL)
    assert (await runtime.wait(state.id)).exit_code == 137
    assert not started_at(child)
    await runtime.remove_sandbox(UIDS["process"])


async def test_commands_that_run_in_a_container_end_with_it(runtime, config, tmp_path):
    """The command does not read its input, and its client does not read its output."""
    mark = f"{time.monotonic_ns()}"
    state = await runtime.start(config("sleep", "1000", environment={"MARK": mark}))
    streams = Recorder(*FOUR_MEBIBYTES, ends=False)
    script = "echo ready; exec sleep 1001"
    command = asyncio.create_task(runtime.exec(state.id, ["sh", "-c", script], streams, stdin=True))
    await streams.until(b"ready")
    stalled = asyncio.create_task(runtime.exec(state.id, ["yes"], StalledReader()))
    async with asyncio.timeout(30):
        while not (pids := processes(b"sleep", mark)) or not (yes := processes(b"yes", mark)):
            await asyncio.sleep(0.02)
        await runtime.stop(state.id, 0)
        assert not [pid for pid in (*pids, *yes) if started_at(pid)]
        await asyncio.wait((command, stalled))


@pytest.mark.parametrize("kind", ["podman"])
async def test_a_container_ends_although_the_client_of_a_command_in_it_does_not_read(runtime, config, tmp_path):
    mark = f"{time.monotonic_ns()}"
    state = await runtime.start(config("sh", "-c", "sleep 1", environment={"MARK": mark}))
    stalled = asyncio.create_task(runtime.exec(state.id, ["yes"], StalledReader()))
    async with asyncio.timeout(40):
        assert (await runtime.wait(state.id)).exit_code == 0
        await asyncio.wait((stalled,))
    assert not processes(b"yes", mark)


def processes(command, mark):
    """Returns the pids of processes with this command and this value of the variable MARK."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            if (entry / "cmdline").read_bytes().split(b"\0")[0].endswith(command) and (
                f"MARK={mark}".encode() in (entry / "environ").read_bytes().split(b"\0")
            ):
                found.append(int(entry.name))
    return found


@pytest.mark.parametrize("kind", ["podman"])
async def test_a_container_whose_conmon_is_stopped_is_killed_without_it(runtime, config, impatient):
    given = config("sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.1; done")
    state = await runtime.start(given)
    await until_said(given.log_path, "ready")
    found = runtime._registry.get(state.id)
    os.kill(found.monitor, signal.SIGSTOP)
    async with asyncio.timeout(60):
        assert (await runtime.stop(state.id, 0.2)).exit_code == 137
    await gone(found.pid, found.monitor)


@process_only
async def test_a_pod_with_a_container_that_was_never_started_is_removed(runtime, tmp_path):
    directory = tmp_path / "run/containers" / f"{UIDS['process']}.main.0"
    directory.mkdir()
    await runtime.remove_sandbox(UIDS["process"])
    assert await runtime.pods() == set()


@process_only
@root_only
async def test_a_removed_pod_leaves_no_control_groups(runtime, config):
    if not runtime._cgroups.usable:
        pytest.skip("needs control groups that this user may write")
    script = "mkdir -p $0/below && echo $$ > $0/below/cgroup.procs; sleep 1000"
    state = await runtime.start(config("sleep", "1000"))
    (group, *_) = runtime._cgroups.find(UIDS["process"], state.id.partition(".")[2].replace(".", "-")).directories
    assert group.is_dir()
    inner = await runtime.start(config("sh", "-c", script, str(group.parent), name="inner"))
    await asyncio.sleep(0.1)
    assert inner.running
    await runtime.remove_sandbox(UIDS["process"])
    assert not [directory for directory in runtime._cgroups.find(UIDS["process"], "").directories if directory.exists()]


@process_only
@root_only
async def test_containers_that_end_with_a_killed_cluster_leave_no_control_groups(tmp_path, config):
    owner = await asyncio.create_subprocess_exec("sleep", "1000")
    uid = str(uuid.uuid4())
    runtime = ProcessRuntime(tmp_path / "run", cdi_directories=[], ends_with=owner.pid)
    if not runtime._cgroups.usable:
        pytest.skip("needs control groups that this user may write")
    await runtime.create_sandbox(SandboxConfig(pod_uid=uid, namespace="default", name="p"))
    states = [await runtime.start(replace(config("sleep", "1000"), pod_uid=uid)) for _ in range(2)]
    groups = runtime._cgroups.find(uid).directories
    assert all(group.is_dir() for group in groups)
    owner.kill()
    await owner.wait()
    async with asyncio.timeout(20):
        assert [(await runtime.wait(container.id)).exit_code for container in states] == [137, 137]
        while any(group.exists() for group in groups):
            await asyncio.sleep(0.05)
