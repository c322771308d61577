"""Containers of podman that try to leave through their volumes, with what any pod may have: no privileges, no hostPath.

The directory `outside` stands for the machine: it must be neither shown, nor written, nor removed.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import pytest

from dray.client.interface import PatchType
from dray.node.runtimes.podman.runtime import PodmanRuntime
from dray.testing.cluster import LocalCluster, kind_of
from tests.node.machines import CONFIG, SUB_PATHS_SAY, VOLUMES, Machine, pod, ready, shell, states, using_sub_paths
from tests.node.runtimes import busybox
from tests.process.swapping import swapping

pytestmark = busybox.needs_podman

READERS = int(os.environ.get("DRAY_VOLUME_READERS", "6"))
"""Containers that mount a name while it is swapped; each of them is a try to leave the volume."""
SCRATCH = [{"name": "scratch", "emptyDir": {}}]


class Runtime(PodmanRuntime):
    """Podman; before it starts a container with that name, another container of the pod has changed the volume."""

    def __init__(self, root, cdi):
        super().__init__(root, cdi_directories=[cdi], ends_with=os.getpid())
        self.before = {}

    async def start(self, config):
        if config.name in self.before:
            self.before.pop(config.name)()
        return await super().start(config)


@pytest.fixture
async def machine(tmp_path):
    busybox.image()
    async with LocalCluster(controllers=["serviceaccount"]) as cluster:
        machine = Machine(cluster, tmp_path / "node", runtime=Runtime)
        await machine.start()
        yield machine
        await machine.stop()
        await machine.clean()
        assert not mounted_below(tmp_path)


@pytest.fixture
def outside(tmp_path):
    made = tmp_path / "outside"
    made.mkdir()
    (made / "kept").write_text("of the machine")
    return made


def mounted_below(path: Path) -> list[str]:
    places = (line.split(" ", 5)[4] for line in Path("/proc/self/mountinfo").read_text().splitlines())
    return [place for place in places if place.startswith(f"{path}/")]


def contained(*containers, **spec):
    made = pod("p", *containers, **spec)
    for container in (*made["spec"]["containers"], *made["spec"].get("initContainers", ())):
        container |= {"image": busybox.IMAGE, "imagePullPolicy": "Never"}
    return made


def mounting(path, **more):
    return [{"name": "scratch", "mountPath": path, **more}]


@pytest.mark.parametrize("target", ["", "/missing"])
async def test_a_sub_path_through_a_link_makes_nothing_on_the_machine(machine, outside, target):
    linking = {"name": "linking", **shell(f"ln -s {outside}{target} /v/link", volumeMounts=mounting("/v"))}
    writing = shell("echo key > /v/keys; sleep 1000", volumeMounts=mounting("/v", subPath="link/new"))
    await machine.cluster.create(contained(writing, initContainers=[linking], volumes=SCRATCH))
    found = await machine.until("p", lambda pod: "CreateContainerConfigError" in str(states(pod)), within=60)
    assert states(found)["c0"]["waiting"]["message"] == "subPath link/new leads out of the volume"
    assert [path.name for path in outside.iterdir()] == ["kept"]


async def test_a_sub_path_that_is_replaced_while_the_container_starts_shows_nothing_of_the_machine(machine, outside):
    changing = shell("mkdir /v/d && echo inside > /v/d/file && sleep 1000", volumeMounts=mounting("/v"))
    script = "cat /v/*; echo written > /v/new"
    reading = shell(script, volumeMounts=mounting("/v", subPath="d"))
    made = contained(changing, reading, volumes=SCRATCH, restartPolicy="Never")
    made["spec"]["initContainers"] = [{**made["spec"]["containers"].pop(0), "name": "first", "restartPolicy": "Always"}]

    def replace():
        (volume,) = (machine.root / "pods").glob("*/volumes/scratch")
        (volume / "d").rename(volume / "before")
        (volume / "d").symlink_to(outside)

    machine.agent.runtime.before["c1"] = replace
    # The container has to make the directory first.
    made["spec"]["initContainers"][0]["startupProbe"] = {
        "exec": {"command": ["test", "-e", "/v/d/file"]},
        "periodSeconds": 1,
        "timeoutSeconds": 20,
    }
    await machine.cluster.create(made)
    found = await machine.until("p", lambda pod: "terminated" in str(states(pod)), within=60)
    assert machine.log(found, "c1") == ["inside"]
    assert [path.name for path in outside.iterdir()] == ["kept"]


async def test_names_that_are_swapped_all_the_time_show_nothing_of_the_machine(machine, outside):
    (outside / "file").write_text("outside")
    preparing = {"name": "preparing", **shell("mkdir /v/d; echo inside > /v/d/file", volumeMounts=mounting("/v"))}
    reading = shell("cat /v/file; echo written > /v/new", volumeMounts=mounting("/v", subPath="d"))
    made = contained(*[reading] * READERS, initContainers=[preparing], volumes=SCRATCH, restartPolicy="Never")
    with contextlib.ExitStack() as swaps:
        # It begins when the first container starts, with what this has made.
        machine.agent.runtime.before["c0"] = lambda: swaps.enter_context(swapped(machine, outside))
        await machine.cluster.create(made)
        found = await machine.until("p", all_tried, within=120)
    logs = [machine.agent.setup.log_path(found, name, 0) for name in states(found)]
    said = {line.split()[-1] for log in logs if log.exists() for line in log.read_text().splitlines()}
    assert said <= {"inside"}
    assert sorted(path.name for path in outside.iterdir()) == ["file", "kept"]


def swapped(machine, outside):
    (volume,) = (machine.root / "pods").glob("*/volumes/scratch")
    (volume / "link").symlink_to(outside)
    return swapping(volume, ("d", "link"))


def all_tried(found):
    """Whether each container has run, or was refused."""
    kinds = [next(iter(state.values())) for state in states(found).values()]
    return len(kinds) == READERS and all(
        "exitCode" in state or "leads out" in state.get("message", "") for state in kinds
    )


async def test_sub_paths_that_stay_in_their_volume_are_mounted(machine):
    await machine.cluster.create(CONFIG)
    await machine.cluster.create(contained(using_sub_paths(), volumes=VOLUMES, restartPolicy="Never"))
    found = await machine.until("p", lambda pod: pod["status"].get("phase") == "Succeeded", within=60)
    assert machine.log(found) == SUB_PATHS_SAY


async def test_volumes_of_objects_are_read_only_and_removing_old_files_removes_nothing_else(machine, outside):
    items = [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]
    volumes = [{"name": "scratch", "downwardAPI": {"items": items}}]
    script = f"mv /v/..data /v/old; ln -s {outside} /v/..data; echo x > /v/labels; ls -A /v; echo tried; sleep 1000"
    made = contained(shell(script, volumeMounts=mounting("/v")), volumes=volumes)
    made["metadata"]["labels"] = {"a": "before"}
    await machine.cluster.create(made)
    found = await machine.until("p", ready, within=60)

    async def has_tried():
        return "tried" in machine.log(found)

    await machine.cluster.eventually(has_tried)
    volume = machine.agent.setup.volumes_of(found) / "scratch"
    # What the container could do if the volume were writable; its mount is only one of two protections.
    (volume / "..data").rename(volume / "old")
    (volume / "..data").symlink_to(outside)
    await machine.cluster.client.patch(
        kind_of("Pod"), "p", {"metadata": {"labels": {"a": "after"}}}, namespace="default", patch_type=PatchType.MERGE
    )
    await machine.agent.setup.refresh(await machine.cluster.get("Pod", "p"))
    assert (volume / "labels").read_text() == 'a="after"'
    assert [path.name for path in outside.iterdir()] == ["kept"]
    said = machine.log(found)
    assert [line for line in said if "Read-only file system" in line]
    assert "old" not in said
