"""The contract of runtimes, kept by each of them: real containers with their files, limits, log, streams and end."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import pytest

from dray.node.runtimes.configs import Limits, Mount
from dray.node.runtimes.interface import StartError
from tests.node.runtimes.streams import Recorder, lines, said, until_said

root_only = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


async def test_output_and_exit_code_are_kept(runtime, config):
    given = config("sh", "-c", "echo out; echo err >&2; printf half; exit 3")
    state = await runtime.start(given)
    assert state.exit_code in (None, 3)
    state = await runtime.wait(state.id)
    assert (state.exit_code, state.signal) == (3, 0)
    assert (state.pod_uid, state.name, state.attempt) == (given.pod_uid, given.name, 0)
    assert state.finished_at >= state.started_at > 0
    assert sorted(lines(given.log_path)) == [("stderr", "F", "err"), ("stdout", "F", "out"), ("stdout", "P", "half")]


async def test_environment_is_that_of_the_container_alone(runtime, config, monkeypatch):
    monkeypatch.setenv("SECRET_OF_THE_AGENT", "x")
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:1")
    given = config("env", environment={"COLOUR": "blue", "TEXT": 'a\nb "c" # d'})
    await runtime.wait((await runtime.start(given)).id)
    found = said(given.log_path)
    assert "COLOUR=blue" in found
    assert "TEXT=a" in found
    assert 'b "c" # d' in found
    assert not any(each.startswith(("SECRET_OF_THE_AGENT", "https_proxy")) for each in found)


async def test_no_file_of_the_agent_is_open_in_a_container(runtime, config, tmp_path):
    with open(tmp_path / "secret", "w") as file:
        os.set_inheritable(file.fileno(), True)
        given = config("sh", "-c", "ls -l /proc/self/fd")
        started = await runtime.start(given)
        await runtime.wait(started.id)
        streams = Recorder()
        running = await runtime.start(config("sleep", "1000", name="other"))
        await runtime.exec(running.id, ["sh", "-c", "ls -l /proc/self/fd"], streams)
    found = given.log_path.read_text() + streams.outputs[1].decode()
    assert "pipe:" in found
    assert "secret" not in found


@root_only
async def test_mounts_are_seen_by_the_container_alone(runtime, config, tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data/file").write_text("hello\n")
    (tmp_path / "token").write_text("secret\n")
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
    found = [text for stream, _, text in lines(given.log_path) if stream == "stdout"]
    assert (state.exit_code, found) == (0, ["hello", "secret", "refused", "/usr/bin"])
    assert (tmp_path / "data/new").read_text() == "new\n"
    assert not Path("/dray-data").exists()
    assert not Path("/run/secrets/dray").exists()


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
    assert said(given.log_path) == ["tool of 7", "device"]


@root_only
async def test_device_files_that_the_host_lacks_are_made_from_their_numbers(runtime, config, tmp_path):
    nodes = [
        # As of a MIG capability: only the kernel knows the device.
        {"path": "/dev/dray-caps/cap12", "type": "c", "major": 1, "minor": 5, "fileMode": 0o444, "permissions": "rw"},
        {"path": "/dev/dray-other", "hostPath": "/dev/null", "type": "c", "major": 1, "minor": 5, "permissions": "rw"},
        {"path": "/dev/dray-same", "hostPath": "/dev/null", "type": "c", "major": 1, "minor": 3, "permissions": "rw"},
    ]
    device = {"name": "gpu0", "containerEdits": {"deviceNodes": nodes}}
    (tmp_path / "cdi").mkdir()
    spec = {"cdiVersion": "0.5.0", "kind": "example.com/gpu", "devices": [device]}
    (tmp_path / "cdi/example.json").write_text(json.dumps(spec))
    script = (
        "head -c 2 /dev/dray-caps/cap12 | wc -c; stat -c %a /dev/dray-caps/cap12; "
        "head -c 2 /dev/dray-other | wc -c; head -c 2 /dev/dray-same | wc -c"
    )
    given = config("sh", "-c", script, cdi_devices=("example.com/gpu=gpu0",))
    state = await runtime.wait((await runtime.start(given)).id)
    assert (state.exit_code, said(given.log_path)) == (0, ["2", "444", "2", "0"])
    assert not Path("/dev/dray-caps").exists()


async def test_a_device_that_is_not_found_names_the_files_that_cannot_be_read(runtime, config, tmp_path):
    (tmp_path / "cdi").mkdir()
    (tmp_path / "cdi/broken.json").write_text("{")
    with pytest.raises(StartError, match=r"no CDI spec has device example.com/gpu=gpu0; .*broken\.json"):
        await runtime.start(config("true", cdi_devices=("example.com/gpu=gpu0",)))


async def test_zero_bytes_and_long_arguments_are_refused_with_the_reason(runtime, config):
    before = {each.id for each in await runtime.containers()}
    for more in ({"args": ("a\0b",)}, {"environment": {"A": "b\0"}}, {"working_dir": "/tmp/a\0"}):
        with pytest.raises(StartError, match="null") as caught:
            await runtime.start(config("sleep", **more))
        assert caught.value.reason in ("CreateContainerError", "RunContainerError")
    with pytest.raises(StartError, match=r"(?i)argument list too long"):
        await runtime.start(config("sleep", "9" * 300_000))
    assert {each.id for each in await runtime.containers()} == before


async def test_stop_asks_and_then_kills(runtime, config):
    polite = await runtime.start(config("sh", "-c", "trap 'exit 5' TERM; while :; do sleep 0.05; done", name="polite"))
    assert (await runtime.stop(polite.id, 20)).exit_code in (5, 143)
    rude = config("sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.05; done", name="rude")
    started = await runtime.start(rude)
    await until_said(rude.log_path, "ready")
    assert (await runtime.stop(started.id, 0.2)).exit_code == 137


async def test_containers_are_found_by_the_next_agent(runtime, config, make_runtime):
    started = await runtime.start(config("sh", "-c", "sleep 1000"))
    successor = make_runtime()
    (found,) = [each for each in await successor.containers() if each.id == started.id]
    assert found == started
    assert found.running
    assert started.pod_uid in await successor.pods()
    assert (await successor.stop(found.id, 0)).exit_code == 137


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
    started = await runtime.start(config("tail", "/dev/zero", limits=Limits(500, 0, 64 << 20)))
    ended = await runtime.wait(started.id)
    assert (ended.exit_code, ended.oom_killed) == (137, True)
