"""The process runtime: real processes, with their environment, mounts, limits, log, streams and end."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import uuid
from pathlib import Path

import pytest

from dray.node.runtimes import shim_lock
from dray.node.runtimes.interface import ContainerConfig, Limits, Mount, SandboxConfig, StartError
from dray.node.runtimes.process import ProcessRuntime

# Another one in each process: control groups are those of the machine.
UID = str(uuid.uuid4())
root_only = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


@pytest.fixture
def runtime(tmp_path):
    return ProcessRuntime(tmp_path / "run", cdi_directories=[tmp_path / "cdi"])


@pytest.fixture
def config(tmp_path):
    def make(*command: str, name: str = "main", attempt: int = 0, **more):
        given = {"image": "busybox", "command": command, "args": (), "log_path": tmp_path / f"{name}.log"} | more
        return ContainerConfig(UID, "default", "p", name, attempt, **given)

    return make


@pytest.fixture(autouse=True)
async def ended(runtime):
    await runtime.create_sandbox(SandboxConfig(UID, "default", "p"))
    yield
    await runtime.remove_sandbox(UID)


class Recorder:
    """Streams that keep what they get."""

    def __init__(self, *inputs: bytes, ends: bool = True) -> None:
        self.outputs = {1: b"", 2: b""}
        self._inputs = list(inputs)
        self._ends = ends
        self.resizes: asyncio.Queue[tuple[int, int]] = asyncio.Queue()
        self.changed = asyncio.Event()

    async def output(self, stream: int, data: bytes) -> None:
        self.outputs[stream] += data
        self.changed.set()

    async def read_input(self) -> bytes:
        if self._inputs:
            return self._inputs.pop(0)
        if not self._ends:
            await asyncio.Event().wait()
        return b""

    async def until(self, text: bytes) -> None:
        while text not in self.outputs[1] + self.outputs[2]:
            self.changed.clear()
            async with asyncio.timeout(20):
                await self.changed.wait()


def lines(path: Path) -> list[tuple[str, str, str]]:
    """Of a log: stream, tag, text."""
    found = []
    for line in path.read_text().splitlines():
        _, stream, tag, text = line.split(" ", 3)
        found.append((stream, tag, text))
    return found


async def test_output_and_exit_code_are_kept(runtime, config):
    given = config("sh", "-c", "echo out; echo err >&2; printf half; exit 3")
    state = await runtime.start(given)
    state = await runtime.wait(state.id)
    assert (state.exit_code, state.signal) == (3, 0)
    assert state.finished_at >= state.started_at > 0
    assert sorted(lines(given.log_path)) == [("stderr", "F", "err"), ("stdout", "F", "out"), ("stdout", "P", "half")]


async def test_a_container_that_never_stops_writing_can_be_stopped(runtime, config):
    state = await runtime.start(config("yes"))
    async with asyncio.timeout(30):
        state = await runtime.stop(state.id, 20)
    assert state.signal == signal.SIGTERM


async def test_environment_is_that_of_the_container_alone(runtime, config, monkeypatch):
    monkeypatch.setenv("SECRET_OF_THE_AGENT", "x")
    given = config("env", environment={"COLOUR": "blue"})
    await runtime.wait((await runtime.start(given)).id)
    said = {text for _, _, text in lines(given.log_path)}
    assert "COLOUR=blue" in said
    assert not any(each.startswith("SECRET_OF_THE_AGENT") for each in said)


async def test_no_file_of_the_agent_is_open_in_a_container(runtime, config, tmp_path):
    with open(tmp_path / "secret", "w") as file:
        os.set_inheritable(file.fileno(), True)
        given = config("sh", "-c", "ls -l /proc/self/fd")
        started = await runtime.start(given)
        await runtime.wait(started.id)
        streams = Recorder()
        running = await runtime.start(config("sleep", "1000", name="other"))
        await runtime.exec(running.id, ["sh", "-c", "ls -l /proc/self/fd"], streams)
    said = given.log_path.read_text() + streams.outputs[1].decode()
    assert "pipe:" in said
    assert "secret" not in said


@root_only
async def test_mounts_are_seen_by_the_container_alone(runtime, config, tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data/file").write_text("hello")
    (tmp_path / "token").write_text("secret")
    mounts = (
        Mount(str(tmp_path / "data"), "/dray-data"),
        Mount(str(tmp_path / "token"), "/var/run/secrets/dray/token", read_only=True),
    )
    script = (
        "cat /dray-data/file /var/run/secrets/dray/token; echo new > /dray-data/new; "
        "echo x > /var/run/secrets/dray/token || echo refused; ls -d /usr/bin"
    )
    given = config("sh", "-c", script, mounts=mounts)
    state = await runtime.wait((await runtime.start(given)).id)
    said = [text for stream, _, text in lines(given.log_path) if stream == "stdout"]
    assert (state.exit_code, said) == (0, ["hellosecretrefused", "/usr/bin"])
    assert (tmp_path / "data/new").read_text() == "new\n"
    assert not Path("/dray-data").exists()
    assert not Path("/run/secrets/dray").exists()


async def test_what_cannot_be_started_says_why(runtime, config, tmp_path):
    with pytest.raises(StartError, match="no-such-program: no such file") as caught:
        await runtime.start(config("no-such-program"))
    assert caught.value.reason == "RunContainerError"
    with pytest.raises(StartError, match="--runtime podman") as caught:
        await runtime.start(config(image="ghcr.io/somebody/train:1"))
    assert caught.value.reason == "ErrImagePull"
    with pytest.raises(StartError, match="working directory /nowhere"):
        await runtime.start(config("true", working_dir="/nowhere"))
    with pytest.raises(StartError, match="no CDI spec has device"):
        await runtime.start(config("true", cdi_devices=("example.com/gpu=gpu0",)))
    assert await runtime.containers() == []


@root_only
async def test_cdi_edits_are_applied(runtime, config, tmp_path):
    (tmp_path / "tool").write_text("#!/bin/sh\necho tool of $GPU\n")
    (tmp_path / "tool").chmod(0o755)
    edits = {
        "env": ["GPU=7"],
        "deviceNodes": [{"path": "/dev/dray-null", "hostPath": "/dev/null"}],
        "mounts": [
            {"hostPath": str(tmp_path / "tool"), "containerPath": "/usr/bin/dray-tool", "options": ["ro", "bind"]}
        ],
    }
    spec = {"cdiVersion": "0.5.0", "kind": "example.com/gpu", "devices": [{"name": "gpu0", "containerEdits": edits}]}
    (tmp_path / "cdi").mkdir()
    (tmp_path / "cdi/example.json").write_text(json.dumps(spec))
    given = config(
        "sh", "-c", "dray-tool; test -c /dev/dray-null && echo device", cdi_devices=("example.com/gpu=gpu0",)
    )
    await runtime.wait((await runtime.start(given)).id)
    assert [text for _, _, text in lines(given.log_path)] == ["tool of 7", "device"]


async def test_a_device_that_is_not_found_names_the_files_that_cannot_be_read(runtime, config, tmp_path):
    (tmp_path / "cdi").mkdir()
    (tmp_path / "cdi/broken.json").write_text("{")
    with pytest.raises(StartError, match=r"no CDI spec has device example.com/gpu=gpu0; .*broken\.json"):
        await runtime.start(config("true", cdi_devices=("example.com/gpu=gpu0",)))


async def test_all_processes_end_with_the_first(runtime, config, tmp_path):
    script = f"(setsid sleep 1000 & echo $! > {tmp_path}/pid); sleep 0.1; echo done"
    await runtime.wait((await runtime.start(config("sh", "-c", script))).id)
    assert not Path(f"/proc/{(tmp_path / 'pid').read_text().strip()}").exists()


async def test_stop_asks_and_then_kills(runtime, config):
    polite = await runtime.start(config("sh", "-c", "trap 'exit 5' TERM; while :; do sleep 0.05; done", name="polite"))
    assert (await runtime.stop(polite.id, 20)).exit_code in (5, 143)
    rude = config("sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.05; done", name="rude")
    started = await runtime.start(rude)
    while not rude.log_path.exists() or not lines(rude.log_path):
        await asyncio.sleep(0.02)
    state = await runtime.stop(started.id, 0.2)
    assert (state.exit_code, state.signal) == (137, signal.SIGKILL)


async def test_containers_are_found_by_the_next_agent(runtime, config, tmp_path):
    started = await runtime.start(config("sh", "-c", "sleep 1000"))
    successor = ProcessRuntime(tmp_path / "run")
    (found,) = await successor.containers()
    assert (found.id, found.running) == (started.id, True)
    assert (await successor.stop(found.id, 0)).exit_code == 137


async def test_a_container_whose_shim_is_killed_has_ended(runtime, config, tmp_path):
    started = await runtime.start(config("sleep", "1000"))
    state = json.loads((tmp_path / "run/containers" / started.id / "state.json").read_text())
    os.kill(state["shim"], signal.SIGKILL)
    ended = await runtime.wait(started.id)
    assert ended.exit_code == 137
    async with asyncio.timeout(20):
        while Path(f"/proc/{state['pid']}").exists():
            await asyncio.sleep(0.02)


async def test_exec_runs_in_the_container(runtime, config, tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data/file").write_text("hello\n")
    mounts = (Mount(str(tmp_path / "data"), "/dray-data"),) if os.geteuid() == 0 else ()
    started = await runtime.start(config("sleep", "1000", environment={"COLOUR": "blue"}, mounts=mounts))
    streams = Recorder(b"input\n")
    script = "cat; echo $COLOUR; echo oops >&2; exit 4" + ("; cat /dray-data/file" if mounts else "")
    assert await runtime.exec(started.id, ["sh", "-c", script], streams, stdin=True) == 4
    assert streams.outputs == {1: b"input\nblue\n", 2: b"oops\n"}
    if mounts:
        streams = Recorder()
        assert await runtime.exec(started.id, ["cat", "/dray-data/file"], streams) == 0
        assert streams.outputs[1] == b"hello\n"


async def test_exec_with_a_terminal(runtime, config):
    started = await runtime.start(config("sleep", "1000"))
    streams = Recorder(b"stty size; exit 6\n", ends=False)
    streams.resizes.put_nowait((100, 40))
    assert await runtime.exec(started.id, ["sh", "-c", "sleep 0.2; exec sh -i"], streams, tty=True, stdin=True) == 6
    assert b"40 100" in streams.outputs[1]


async def test_attach_sees_output_and_gives_input(runtime, config):
    started = await runtime.start(config("sh", "-c", "read line; echo got $line", stdin=True, stdin_once=True))
    streams = Recorder(b"hello\n", ends=False)
    async with asyncio.timeout(20):
        await runtime.attach(started.id, streams, stdin=True)
    assert streams.outputs[1] == b"got hello\n"
    assert (await runtime.wait(started.id)).exit_code == 0


async def test_a_terminal_of_the_container_itself(runtime, config):
    started = await runtime.start(config("sh", "-i", tty=True, stdin=True))
    streams = Recorder(b"tty && echo is-a-$((40+2)); exit 0\n", ends=False)
    async with asyncio.timeout(20):
        await runtime.attach(started.id, streams, stdin=True)
    assert b"is-a-42" in streams.outputs[1]


async def test_limits_hold_where_there_are_control_groups(runtime, config):
    if not runtime._cgroups.usable:
        pytest.skip("needs control groups that this user may write")
    eat = "import time; data = bytearray(200 << 20); time.sleep(100)"
    started = await runtime.start(config("python3", "-c", eat, limits=Limits(500, 0, 64 << 20)))
    ended = await runtime.wait(started.id)
    assert (ended.exit_code, ended.oom_killed) == (137, True)


async def test_a_long_log_is_rotated(runtime, config, monkeypatch):
    monkeypatch.setattr("dray.node.runtimes.process_spec.LOG_SIZE", 4000)
    given = config("sh", "-c", "i=0; while [ $i -lt 400 ]; do echo line $i; i=$((i+1)); done")
    await runtime.wait((await runtime.start(given)).id)
    files = sorted(given.log_path.parent.glob("main.log*"))
    assert len(files) == 5
    assert all(each.stat().st_size <= 4000 for each in files)
    assert lines(given.log_path)[-1] == ("stdout", "F", "line 399")


async def test_a_container_that_a_killed_agent_was_starting_is_waited_for(runtime, config, tmp_path):
    state = await runtime.start(config("sleep", "1000"))
    directory = tmp_path / "run/containers" / state.id
    (directory / "state.json").rename(directory / "later")
    successor = ProcessRuntime(tmp_path / "run")
    looking = asyncio.create_task(successor.containers())
    done, _ = await asyncio.wait((looking,), timeout=0.1)
    assert not done
    (directory / "later").rename(directory / "state.json")
    async with asyncio.timeout(20):
        assert [(each.id, each.running) for each in await looking] == [(state.id, True)]


async def test_a_container_that_was_never_started_is_cleared_away(tmp_path, runtime):
    directory = tmp_path / "run/containers" / f"{UID}.main.0"
    directory.mkdir()
    with shim_lock.held(directory):
        assert shim_lock.is_held(directory)
    assert await runtime.containers() == []
    assert not directory.exists()


@root_only
async def test_nothing_of_a_container_outlives_its_shim(runtime, config, tmp_path):
    script = "setsid sh -c 'echo $$; exec sleep 1000' & wait"
    state = await runtime.start(config("sh", "-c", script))
    async with asyncio.timeout(20):
        while not (tmp_path / "main.log").read_text().endswith("\n"):
            await asyncio.sleep(0.02)
        (_, _, pid), *_ = lines(tmp_path / "main.log")
        shim = json.loads((tmp_path / "run/containers" / state.id / "state.json").read_text())["shim"]
        os.kill(shim, signal.SIGKILL)
        assert (await runtime.wait(state.id)).exit_code == 137
        while Path(f"/proc/{pid}").exists() and "Z" not in Path(f"/proc/{pid}/stat").read_text():
            await asyncio.sleep(0.02)
