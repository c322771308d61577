"""What the process runtime does alone: commands of the machine, supervised by shims."""

from __future__ import annotations

import asyncio
import json
import os
import pwd
import shutil
import signal
import socket
import time
from pathlib import Path

import pytest

from dray.node.runtimes import shim_lock, shim_server
from dray.node.runtimes.configs import Mount, Security
from dray.node.runtimes.device_files import can_hide
from dray.node.runtimes.interface import StartError
from tests.node.runtimes.conftest import UIDS
from tests.node.runtimes.streams import Recorder, lines

root_only = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
pytestmark = pytest.mark.parametrize("kind", ["process"])


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


async def test_an_image_that_is_not_used_is_warned_of(runtime, config):
    started = await runtime.start(config("true", image="ghcr.io/somebody/train:1"))
    assert started.warning.startswith(
        "image ghcr.io/somebody/train:1 is not pulled, and may not exist: its command runs"
    )
    assert (await runtime.start(config("true", image="docker.io/library/busybox:1", name="other"))).warning == ""


async def test_all_processes_end_with_the_first(runtime, config, tmp_path):
    script = f"(setsid sleep 1000 & echo $! > {tmp_path}/pid); sleep 0.1; echo done"
    await runtime.wait((await runtime.start(config("sh", "-c", script))).id)
    assert not Path(f"/proc/{(tmp_path / 'pid').read_text().strip()}").exists()


async def test_a_container_whose_shim_is_killed_has_ended(runtime, config, tmp_path):
    started = await runtime.start(config("sleep", "1000"))
    state = json.loads((tmp_path / "run/containers" / started.id / "state.json").read_text())
    os.kill(state["shim"], signal.SIGKILL)
    ended = await runtime.wait(started.id)
    assert ended.exit_code == 137
    async with asyncio.timeout(20):
        while Path(f"/proc/{state['pid']}").exists():
            await asyncio.sleep(0.02)


async def test_a_shim_that_goes_while_it_is_asked_about_was_not_killed(runtime, config, tmp_path, monkeypatch):
    started = await runtime.start(config("sleep", "1000"))
    directory = tmp_path / "run/containers" / started.id

    def is_held(asked):
        """The container ends after its end was looked for, and before the lock is."""
        os.kill(json.loads((directory / "state.json").read_text())["pid"], signal.SIGTERM)
        while still_held(asked):
            time.sleep(0.01)
        return False

    still_held = shim_lock.is_held
    monkeypatch.setattr(shim_lock, "is_held", is_held)
    [found] = await runtime.containers()
    assert found.exit_code == 128 + signal.SIGTERM


async def test_a_long_log_is_rotated(runtime, config, monkeypatch):
    monkeypatch.setattr("dray.node.runtimes.log_rotation.SIZE", 4000)
    given = config("sh", "-c", "i=0; while [ $i -lt 400 ]; do echo line $i; i=$((i+1)); done")
    await runtime.wait((await runtime.start(given)).id)
    files = sorted(given.log_path.parent.glob("main.log*"))
    assert len(files) == 5
    assert all(each.stat().st_size <= 4000 for each in files)
    assert lines(given.log_path)[-1] == ("stdout", "F", "line 399")


async def test_a_container_that_a_killed_agent_was_starting_is_waited_for(runtime, config, make_runtime, tmp_path):
    state = await runtime.start(config("sleep", "1000"))
    directory = tmp_path / "run/containers" / state.id
    (directory / "state.json").rename(directory / "later")
    successor = make_runtime()
    looking = asyncio.create_task(successor.containers())
    done, _ = await asyncio.wait((looking,), timeout=0.1)
    assert not done
    (directory / "later").rename(directory / "state.json")
    async with asyncio.timeout(20):
        assert [(each.id, each.running) for each in await looking] == [(state.id, True)]


async def test_a_container_that_was_never_started_is_cleared_away(tmp_path, runtime):
    directory = tmp_path / "run/containers" / f"{UIDS['process']}.main.0"
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


async def test_a_container_that_never_stops_writing_can_be_stopped(runtime, config):
    state = await runtime.start(config("yes"))
    async with asyncio.timeout(30):
        state = await runtime.stop(state.id, 20)
    assert state.signal == signal.SIGTERM


@root_only
@pytest.mark.skipif(shutil.which("setpriv") is None, reason="needs setpriv, of util-linux")
async def test_where_nothing_can_be_mounted_programs_are_found_by_path(runtime, config, tmp_path, monkeypatch):
    shim_command = shim_server.shim_command

    def unable(*arguments: str) -> list[str]:
        return ["setpriv", "--bounding-set=-sys_admin", *shim_command(*arguments)]

    monkeypatch.setattr(shim_server, "shim_command", unable)
    tool = tmp_path / "tool"
    tool.write_text("#!/bin/sh\necho it works\n")
    tool.chmod(0o755)
    given = config("sh", "-c", "my-tool; exec sleep 1000", mounts=[Mount(str(tool), "/usr/local/bin/my-tool")])
    state = await runtime.start(given)
    streams = Recorder()
    assert await runtime.exec(state.id, ["my-tool"], streams) == 0
    assert streams.outputs[1] == b"it works\n"
    await runtime.stop(state.id, 1)
    assert ("stdout", "F", "it works") in lines(given.log_path)
    with pytest.raises(StartError, match="cannot mount /nowhere/data"):
        await runtime.start(config("true", name="other", mounts=[Mount(str(tmp_path), "/nowhere/data")]))


async def test_a_shim_server_that_has_ended_is_started_again_and_its_containers_go_on(runtime, config):
    first = await runtime.start(config("sleep", "1000"))
    with socket.socket(fileno=os.dup(runtime._shims._end)) as end:
        end.shutdown(socket.SHUT_RDWR)
    second = await runtime.start(config("sleep", "1000", name="other"))
    assert {each.id for each in await runtime.containers() if each.running} == {first.id, second.id}


@root_only
async def test_a_user_without_a_group_is_not_in_the_group_of_root(runtime, config, tmp_path):
    account = pwd.getpwnam("daemon")
    for number, group in ((account.pw_uid, account.pw_gid), (54321, 65534)):
        given = config("sh", "-c", "id -u; id -G", user=number)
        await runtime.wait((await runtime.start(given)).id)
        assert [text for _, _, text in lines(given.log_path)[-2:]] == [str(number), str(group)]


@root_only
async def test_a_working_directory_must_be_one_that_the_user_can_reach(runtime, config, tmp_path):
    (tmp_path / "private/notes").mkdir(parents=True)
    (tmp_path / "private").chmod(0o700)
    with pytest.raises(StartError, match="private/notes: Permission denied"):
        await runtime.start(config("ls", working_dir=str(tmp_path / "private/notes"), user=54321))
    given = config("pwd", working_dir="/usr", user=54321)
    await runtime.wait((await runtime.start(given)).id)
    assert [text for _, _, text in lines(given.log_path)] == ["/usr"]


@root_only
async def test_no_setuid_program_helps_where_escalation_is_not_allowed(runtime, config, tmp_path):
    given = config("grep", "NoNewPrivs", "/proc/self/status", user=54321, security=Security(no_new_privileges=True))
    await runtime.wait((await runtime.start(given)).id)
    assert [text for _, _, text in lines(given.log_path)] == ["NoNewPrivs:\t1"]
    sleeping = await runtime.start(config("sleep", "1000", user=54321, security=Security(no_new_privileges=True)))
    said = Recorder()
    await runtime.exec(sleeping.id, ["grep", "NoNewPrivs", "/proc/self/status"], said)
    assert said.outputs[1] == b"NoNewPrivs:\t1\n"


@pytest.mark.skipif(not can_hide(), reason="this user may make no mount namespaces")
async def test_a_volume_keeps_what_is_written_beside_mount_points_in_it(runtime, config, tmp_path):
    for name in ("data", "settings"):
        (tmp_path / name).mkdir()
    (tmp_path / "settings/one").write_text("1")
    mounts = (
        Mount(str(tmp_path / "data"), "/mnt/data"),
        Mount(str(tmp_path / "settings"), "/mnt/data/etc/settings", read_only=True),
        Mount(str(tmp_path / "settings/one"), "/mnt/data/etc/one", read_only=True),
        Mount(str(tmp_path / "settings"), "/mnt/data/etc/settings/two/three", read_only=True),
    )
    script = "cd /mnt/data && cat etc/settings/one etc/one etc/settings/two/three/one && echo kept > result"
    given = config("sh", "-c", script, mounts=mounts)
    ended = await runtime.wait((await runtime.start(given)).id)
    assert (ended.exit_code, [text for _, _, text in lines(given.log_path)]) == (0, ["111"])
    assert (tmp_path / "data/result").read_text() == "kept\n"
    assert os.listdir(tmp_path / "settings") == ["one"]
