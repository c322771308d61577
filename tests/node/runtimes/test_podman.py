"""What the podman runtime does alone: images, pods that share a network, isolation from the machine."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import uuid
from pathlib import Path

import pytest

from dray.node.cgroups import cgroup_at
from dray.node.runtimes import log_rotation
from dray.node.runtimes.configs import SandboxConfig, Security
from dray.node.runtimes.interface import StartError
from dray.node.runtimes.podman import labels
from dray.node.runtimes.podman.runtime import PodmanRuntime
from dray.process.directories import make_path
from tests.node.runtimes import busybox
from tests.node.runtimes.conftest import UIDS
from tests.node.runtimes.streams import Recorder, said, until_said

pytestmark = [pytest.mark.parametrize("kind", ["podman"]), busybox.needs_podman]


async def test_the_image_says_what_runs_unless_the_container_does(runtime, config):
    plain, given = config(), config(args=("sh", "-c", "echo $FLAVOUR; pwd"), name="args", working_dir="/home/somebody")
    states = await asyncio.gather(runtime.start(plain), runtime.start(given))
    for each in states:
        assert (await runtime.wait(each.id)).exit_code == 0
        assert each.id.startswith("podman://")
        assert each.image_id.startswith("sha256:")
    assert said(plain.log_path) == ["cmd of the image"]
    assert said(given.log_path) == ["plain", "/home/somebody"]


async def test_what_cannot_be_started_says_why(runtime, config, tmp_path):
    refused = {
        "InvalidImageName": config(image="Not:A:Name", pull_policy="Always"),
        "ErrImageNeverPull": config(image="localhost/dray-test-nothing:1"),
        "RunContainerError": config("no-such-program"),
        "CreateContainerConfigError": config("true", security=Security(run_as_non_root=True)),
        "CreateContainerError": config("true", cdi_devices=("example.com/gpu=gpu0",)),
    }
    for reason, given in refused.items():
        with pytest.raises(StartError) as caught:
            await runtime.start(given)
        assert caught.value.reason == reason, caught.value
    names = {each.name for each in await runtime.containers()}
    assert not names & {each.name for each in refused.values()}
    left = {each.name for each in (runtime._root / "containers").iterdir()}
    assert not [each for given in refused.values() for each in left if f".{given.name}." in each]


async def test_directories_of_a_pod_are_removed_however_deep_and_without_following_links(runtime, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").touch()
    uid = str(uuid.uuid4())
    places = [runtime._root / "containers" / f"{uid}.c.0", runtime._root / "bundles" / uid]
    for place in places:
        make_path(f"{place}{'/d' * 1500}")
        (place / "link").symlink_to(outside)
    linked = runtime._root / "containers" / f"{uid}.c.1"
    linked.symlink_to(outside)
    await runtime.remove_sandbox(uid)
    assert not [place for place in (*places, linked) if os.path.lexists(place)]
    assert (outside / "file").exists()


async def test_an_argument_that_linux_does_not_take_is_told_with_its_limit(runtime, config):
    long = "x" * 300_000
    for given in (config("echo", long), config("true", args=(long,)), config("true", environment={"A": long})):
        with pytest.raises(StartError, match=r"Argument list too long: .* has 30000\d bytes; Linux accepts 131071"):
            await runtime.start(given)
    running = await runtime.start(config("sleep", "1000"))
    with pytest.raises(StartError, match="Argument list too long"):
        await runtime.exec(running.id, ["echo", long], Recorder())
    await runtime.stop(running.id, 0)


async def test_a_long_command_runs_as_long_as_each_of_its_arguments_is_short_enough(runtime, config):
    words = ['"' * 60_000, "\n" * 100_000, "x" * 131_000]
    given = config("sh", "-c", 'for each; do printf %s "$each" | wc -c; done', "-", *words, environment={"A": words[1]})
    state = await runtime.start(given)
    assert (await runtime.wait(state.id)).exit_code == 0
    assert [int(each) for each in said(given.log_path)] == [60_000, 100_000, 131_000]


async def test_images_of_the_machine_are_told(runtime, config):
    config()
    (found,) = [each for each in await runtime.images() if busybox.IMAGE in each.names]
    assert found.size > 1 << 19


async def test_containers_of_a_pod_share_its_network_and_nothing_else(runtime, config):
    server = config("sh", "-c", "echo page > /tmp/page; exec httpd -f -p 127.0.0.1:8080 -h /tmp", name="server")
    asking = "until wget -q -O - http://127.0.0.1:8080/page 2> /dev/null; do sleep 0.1; done"
    script = f"{asking}; hostname; cat /proc/1/comm; ls /tmp"
    client = config("sh", "-c", script, name="client")
    started = await runtime.start(server)
    # One that debugs another sees its processes.
    debugger = config("cat", "/proc/1/comm", name="debugger", target=server.name)
    for each in await asyncio.gather(runtime.start(client), runtime.start(debugger)):
        assert (await runtime.wait(each.id)).exit_code == 0
    assert said(client.log_path) == ["page", "here", "sh"]
    assert said(debugger.log_path) == ["httpd"]
    reader, writer = await runtime.connect(UIDS["podman"], 8080)
    writer.write(b"GET /page HTTP/1.0\r\n\r\n")
    assert (await reader.read()).endswith(b"page\n")
    writer.close()
    await writer.wait_closed()
    with pytest.raises(OSError, match=r"\b(refused|Errno 111)"):
        await runtime.connect(UIDS["podman"], 8081)
    usage = await runtime.usage(started.id)
    assert usage.memory_bytes > 0
    assert usage.cpu_nanoseconds > 0


async def test_security_context(runtime, config):
    script = "id -u; id -g; id -G; touch /new || echo read-only; grep -E 'CapBnd|NoNewPrivs' /proc/self/status"
    security = Security(
        added_capabilities=("NET_ADMIN",), dropped_capabilities=("ALL",), read_only_root=True, no_new_privileges=True
    )
    given = config("sh", "-c", script, user=1234, group=2345, groups=(3456,), security=security)
    await runtime.wait((await runtime.start(given)).id)
    found = [each for each in said(given.log_path) if "touch:" not in each]
    assert found[:4] == ["1234", "2345", "2345 3456", "read-only"]
    assert [each.split()[1] for each in found[4:]] == [f"{1 << 12:016x}", "1"]


async def test_hooks_devices_and_cpus_of_a_claim(runtime, config, tmp_path):
    hook = tmp_path / "hook"
    hook.write_text(f"#!/bin/sh\ncat > {tmp_path}/$1.json\n")
    hook.chmod(0o755)
    stages = ("createRuntime", "poststop")
    edits = {
        "env": ["DRA_CPUSET_claim=0"],
        "deviceNodes": [{"path": "/dev/dray-zero", "hostPath": "/dev/zero"}],
        "hooks": [{"hookName": each, "path": str(hook), "args": ["hook", each]} for each in stages],
        "additionalGids": [4567],
    }
    spec = {"cdiVersion": "0.7.0", "kind": "example.com/gpu", "devices": [{"name": "gpu0", "containerEdits": edits}]}
    (tmp_path / "cdi").mkdir()
    (tmp_path / "cdi/example.json").write_text(json.dumps(spec))
    script = "head -c 3 /dev/dray-zero | wc -c; ls /dev | grep -c -E '^(kvm|sda|vda|mem)$'; nproc; id -G"
    given = config("sh", "-c", script, cdi_devices=("example.com/gpu=gpu0",))
    state = await runtime.wait((await runtime.start(given)).id)
    assert said(given.log_path) == ["3", "0", "1", "0 4567"]
    await runtime.remove(state.id)
    assert {json.loads((tmp_path / f"{each}.json").read_text())["id"] for each in stages} == {state.id[9:]}


async def test_a_container_whose_conmon_is_killed_has_ended(runtime, config):
    started = await runtime.start(config("sleep", "1000"))
    known = runtime._registry.get(started.id)
    os.kill(known.monitor, signal.SIGKILL)
    assert (await runtime.wait(started.id)).exit_code == 137
    async with asyncio.timeout(20):
        while Path(f"/proc/{known.pid}").exists() and Path(f"/proc/{known.pid}/cmdline").read_bytes():
            await asyncio.sleep(0.05)


async def test_a_long_log_is_rotated(runtime, config, monkeypatch):
    monkeypatch.setattr(log_rotation, "SIZE", 1000)
    script = "for i in $(seq 100); do echo line $i; done; echo done; read x; echo more; read x"
    given = config("sh", "-c", script, stdin=True)
    started = await runtime.start(given)
    await until_said(given.log_path, "done")
    runtime.rotate_logs()
    streams = Recorder(b"x\n", ends=False)
    attached = asyncio.create_task(runtime.attach(started.id, streams, stdin=True))
    await streams.until(b"more")
    await until_said(given.log_path, "more")
    assert said(given.log_path) == ["more"]
    assert said(Path(f"{given.log_path}.1"))[-1] == "done"
    # Whoever leaves does not end the input of a container that is to keep it.
    attached.cancel()
    await asyncio.gather(attached, return_exceptions=True)
    assert (await runtime.exec(started.id, ["true"], Recorder())) == 0
    again = Recorder(b"y\n", ends=False)
    async with asyncio.timeout(20):
        await runtime.attach(started.id, again, stdin=True)
    assert (await runtime.wait(started.id)).exit_code == 0


async def left_by(runtime, container, command, *, leaves_after) -> list[int]:
    """Processes of the container beside its first one, once the client of the command has left."""
    streams = Recorder()
    running = asyncio.create_task(runtime.exec(container.id, command, streams))
    await leaves_after(streams)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    return cgroup_at(runtime._registry.get(container.id).cgroup).processes()[1:]


@pytest.mark.parametrize(
    "script", ["(sleep 2000; echo) & echo up; sleep 3000; echo", "echo up; while :; do sleep 0; done"]
)
async def test_a_command_ends_with_its_client(runtime, config, script):
    started = await runtime.start(config("sleep", "1000"))
    left = await left_by(runtime, started, ["sh", "-c", script], leaves_after=lambda streams: streams.until(b"up"))
    assert left == []


async def test_a_command_that_has_not_begun_ends_with_its_client(runtime, config):
    started = await runtime.start(config("sleep", "1000"))
    for seconds in (0.05, 0.1, 0.15, 0.2, 0.25):
        left = await left_by(runtime, started, ["sleep", "3000"], leaves_after=lambda _, s=seconds: asyncio.sleep(s))
        assert left == []


async def test_a_pod_with_the_network_of_the_host_leaves_nothing_behind(make_runtime, config):
    uid = str(uuid.uuid4())
    runtime = make_runtime()
    sandbox = await runtime.create_sandbox(
        SandboxConfig(pod_uid=uid, namespace="default", name="q", host_network=True, share_processes=True)
    )
    assert sandbox.ip == "127.0.0.1"
    given = config("sh", "-c", "ls /sys/class/net; cat /proc/1/comm; sleep 1000")
    given = type(given)(**{name: getattr(given, name) for name in given.__slots__} | {"pod_uid": uid})
    started = await runtime.start(given)
    await until_said(given.log_path, "pause")
    assert set(said(given.log_path)[:-1]) == set(os.listdir("/sys/class/net")) - {"bonding_masters"}
    held = runtime._sandboxes.get(uid)
    await runtime.stop(started.id, 0)
    await runtime.stop_sandbox(uid)
    assert not (await runtime._podman.inspect(held.id))[0]["State"]["Running"]
    # Somebody else finds and removes them.
    successor = make_runtime()
    assert uid in await successor.pods()
    await successor.remove_sandbox(uid)
    assert uid not in await successor.pods()
    assert uid not in await make_runtime().pods()
    assert not Path(f"/proc/{runtime._registry.get(started.id).pid}").exists()
    assert not _control_groups(uid)


def _control_groups(uid):
    """Control groups of a pod, in one hierarchy or in one for each controller. They may vanish meanwhile."""
    root = Path("/sys/fs/cgroup")
    return [each for each in (root, *root.iterdir()) if (each / "dray" / uid).is_dir()]


async def test_containers_may_end_with_a_process_and_commands_of_a_killed_agent_are_waited_for(config, tmp_path):
    root = tmp_path / "run"
    label, image = f"{labels.ROOT}={root}", config().image
    limits = ("--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024", "--network", "none")
    begun = subprocess.Popen([*busybox.PODMAN, "run", "--rm", *limits, "--label", label, image, "sleep", "0.3"])
    owner = subprocess.Popen(["sleep", "1000"])
    runtime = PodmanRuntime(root, ends_with=owner.pid)
    uid = str(uuid.uuid4())
    await runtime.create_sandbox(SandboxConfig(pod_uid=uid, namespace="default", name="q", host_network=True))
    assert begun.poll() == 0
    owner.kill()
    owner.wait()
    async with asyncio.timeout(30):
        while uid in await PodmanRuntime(root).pods():
            await asyncio.sleep(0.2)
        while _control_groups(uid):
            await asyncio.sleep(0.2)
    await runtime.remove_sandbox(uid)
