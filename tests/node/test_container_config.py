"""Directories of pods and their containers on this machine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dray.node.container_config import hostname
from dray.node.errors import SetupError
from dray.node.subpath_mounts import SubpathMounts
from dray.process import beneath
from tests.node.machines import CONFIG, SUB_PATHS_SAY, VOLUMES, pod, ready, restarts, shell, states, using_sub_paths


@pytest.mark.parametrize(
    ("spec", "name"),
    [
        ({}, "p"),
        ({"hostname": "web"}, "web"),
        ({"hostname": "web", "subdomain": "sub", "setHostnameAsFQDN": True}, "web.sub.default.svc.cluster.local"),
        ({"hostnameOverride": "web.example.com", "subdomain": "sub"}, "web.example.com"),
    ],
)
def test_the_name_of_the_host_of_a_pod(spec, name):
    assert hostname(pod("p", **spec)) == name


def test_a_long_name_of_a_pod_is_cut_where_a_name_may_end():
    assert hostname(pod("a" * 62 + ".b")) == "a" * 62


def test_a_full_name_that_linux_does_not_take_is_refused():
    long = pod("p", hostname="a" * 40, subdomain="sub", setHostnameAsFQDN=True)
    with pytest.raises(SetupError, match=r"FQDN a+\.sub\.default\.svc\.cluster\.local is too long \(64 characters"):
        hostname(long)


async def test_a_container_may_have_the_name_of_a_file_of_its_pod(machine):
    names = ("etc-hosts", "resolv-conf", "volumes", "containers", "volume-subpaths")
    containers = [shell("echo said > /dev/termination-log; sleep 0.1; exit 1", name=name) for name in names]
    await machine.cluster.create(
        pod("p", *containers, restartPolicy="Never", volumes=[{"name": "scratch", "emptyDir": {}}])
    )
    found = await machine.phase("p", "Failed")
    assert {state["terminated"]["reason"] for state in states(found).values()} == {"Error"}
    assert set(states(found)) == set(names)


async def test_files_of_a_pod_are_not_written_through_links(machine, tmp_path):
    kept = tmp_path / "kept"
    kept.write_text("kept")
    script = "sleep 0.2; exit 1"
    dns = {"dnsPolicy": "None", "dnsConfig": {"nameservers": ["10.9.9.9"]}}
    await machine.cluster.create(pod("p", shell(script), shell("sleep 1000"), restartPolicy="Always", **dns))
    found = await machine.until("p", lambda found: "running" in str(states(found).get("c1")))
    directory = machine.root / "pods" / found["metadata"]["uid"]
    names = ["etc-hosts", "resolv.conf", *(f"containers/c0/message-{attempt}" for attempt in range(1, 20))]
    for name in names:
        beneath.remove_tree(directory / name)
        (directory / name).symlink_to(kept)
    await machine.until("p", lambda found: restarts(found) >= 1)
    assert kept.read_text() == "kept"
    assert oct(kept.stat().st_mode & 0o777) == "0o644"
    assert "nameserver 10.9.9.9" in (directory / "resolv.conf").read_text()
    assert not (directory / "etc-hosts").is_symlink()


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts need root")
async def test_sub_paths_that_stay_in_their_volume_are_mounted_and_nothing_stays_mounted(machine):
    await machine.cluster.create(CONFIG)
    await machine.cluster.create(pod("p", using_sub_paths(), volumes=VOLUMES, restartPolicy="Never"))
    assert machine.log(await machine.phase("p", "Succeeded")) == SUB_PATHS_SAY
    assert not [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if f" {machine.root}/" in line]


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts need root")
async def test_what_a_killed_agent_left_mounted_is_unmounted_and_its_files_stay(machine, tmp_path):
    host = tmp_path / "host"
    (host / "data").mkdir(parents=True)
    (host / "data/file").write_text("kept")
    volumes = [{"name": "host", "hostPath": {"path": str(host)}}]
    await machine.cluster.create(pod("p", shell("sleep 1000"), volumes=volumes))
    found = await machine.until("p", ready)
    uid = found["metadata"]["uid"]
    await machine.stop()
    for container in ("c0", "gone"):
        place = SubpathMounts(machine.root / "pods").make(uid, container, host, "data")
        assert (place / "file").read_text() == "kept"
    await machine.start()
    await machine.until("p", ready)
    await machine.cluster.eventually(lambda: are_unmounted(machine))
    # Whatever is left when the pod is removed.
    place = SubpathMounts(machine.root / "pods").make(uid, "c0", host, "data")
    await machine.cluster.delete("Pod", "p", grace=0)
    await machine.until("p", None)
    await machine.cluster.eventually(lambda: is_removed(machine))
    assert (host / "data/file").read_text() == "kept"


async def are_unmounted(machine):
    return not list((machine.root / "pods").glob("*/volume-subpaths/*/*"))


@pytest.fixture
def cleaned(tmp_path):
    """Directories as deep as these would stay where a test fails: Python cannot remove them."""
    yield
    subprocess.run(["rm", "-rf", tmp_path / "pods", tmp_path / "run"], check=True)


async def test_a_pod_whose_directories_are_deeper_than_python_recurses_is_removed(cleaned, machine):
    program = "import os, time\nfor _ in range(1100):\n    os.mkdir('d')\n    os.chdir('d')\n"
    command = [sys.executable, "-c", f"{program}print('made', flush=True)\ntime.sleep(1000)"]
    volumes = [{"name": "scratch", "emptyDir": {}}]
    mounts = [{"name": "scratch", "mountPath": "/scratch"}]
    containers = [{"command": command}, {"command": command, "workingDir": "/scratch", "volumeMounts": mounts}]
    # Without root nothing may be mounted here; the working directory of a container is enough then.
    await machine.cluster.create(pod("p", *containers[: 2 if os.geteuid() == 0 else 1], volumes=volumes))
    found = await machine.until("p", ready)
    await machine.cluster.eventually(lambda: has_said(machine, found))
    await machine.cluster.delete("Pod", "p", grace=0)
    await machine.until("p", None)
    await machine.cluster.eventually(lambda: is_removed(machine))


async def has_said(machine, found):
    return all(machine.log(found, container) == ["made"] for container in states(found))


async def is_removed(machine):
    return not [path for place in ("pods", "run/pods", "run/containers") for path in (machine.root / place).iterdir()]
