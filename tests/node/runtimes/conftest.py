import asyncio
import itertools
import os
import uuid

import pytest

from dray.node.runtimes.configs import ContainerConfig, SandboxConfig
from dray.node.runtimes.podman.runtime import PodmanRuntime
from dray.node.runtimes.process import ProcessRuntime
from tests.node.runtimes import busybox

# Others in each process: control groups and podman are those of the machine.
UIDS = {"process": str(uuid.uuid4()), "podman": str(uuid.uuid4())}
_numbers = itertools.count()


@pytest.fixture(params=["process", pytest.param("podman", marks=busybox.needs_podman)])
def kind(request):
    """Of the runtime that a test is about; a test may choose by parametrizing it."""
    return request.param


@pytest.fixture(scope="package")
def podman_root(tmp_path_factory):
    """One pod serves all tests with podman: to make one takes longer than most of them."""
    root = tmp_path_factory.mktemp("podman")
    yield root
    asyncio.run(_removed(PodmanRuntime(root)))


async def _removed(runtime):
    await runtime.remove_sandbox(UIDS["podman"])
    assert not await runtime.pods()


@pytest.fixture
def make_runtime(kind, tmp_path, request):
    """Each one like an agent that was started again."""

    def make():
        directories = [tmp_path / "cdi"]
        if kind == "process":
            return ProcessRuntime(tmp_path / "run", cdi_directories=directories)
        root = request.getfixturevalue("podman_root")
        return PodmanRuntime(root, cdi_directories=directories, ends_with=os.getpid())

    return make


@pytest.fixture
async def runtime(kind, make_runtime):
    made = make_runtime()
    await made.create_sandbox(SandboxConfig(pod_uid=UIDS[kind], namespace="default", name="p", hostname="here"))
    yield made
    if kind == "process":
        await made.remove_sandbox(UIDS[kind])


@pytest.fixture
def config(kind, tmp_path):
    image = busybox.image() if kind == "podman" else "busybox"

    def make(*command: str, name: str = "main", attempt: int = 0, **more):
        given = {"image": image, "command": command, "args": (), "log_path": tmp_path / f"{name}.log"} | more
        given = {"pull_policy": "Never", "hostname": "here"} | given
        return ContainerConfig(
            pod_uid=UIDS[kind],
            namespace="default",
            pod_name="p",
            name=f"{name}-{next(_numbers)}",
            attempt=attempt,
            **given,
        )

    return make
