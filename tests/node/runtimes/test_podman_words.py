"""What podman says and is told, without podman: names of images, descriptions of containers, its errors."""

from __future__ import annotations

import pytest

from dray.node.cdi import Edits
from dray.node.runtimes.configs import ContainerConfig, Mount
from dray.node.runtimes.interface import StartError
from dray.node.runtimes.podman.arguments import run_arguments
from dray.node.runtimes.podman.command import said
from dray.node.runtimes.podman.found import found_container
from dray.node.runtimes.podman.images import check_name


@pytest.mark.parametrize(
    "name",
    [
        "busybox",
        "library/busybox:1.36",
        "registry.example:5000/team/app_x/train:v1.2-rc.3",
        "[fd00::1]:5000/app",
        f"registry.example/app@sha256:{'0' * 64}",
        f"app:1@sha256:{'a' * 64}",
    ],
)
def test_names_of_images(name):
    check_name(name)


@pytest.mark.parametrize("name", ["", "Busybox", "a b", "busybox:", "-x", "x:y:z", "--rm", "a" * 600, "app@sha256:12"])
def test_what_is_no_name_of_an_image(name):
    with pytest.raises(StartError) as caught:
        check_name(name)
    assert caught.value.reason == "InvalidImageName"


def container(status, *, started="2026-11-17T01:00:00.123456789Z", code=0, stop=15, **state):
    given = {
        "io.kubernetes.pod.uid": "u",
        "io.kubernetes.container.name": "main",
        "io.dray.attempt": "2",
        "io.dray.log": "/logs/2.log",
        "io.dray.directory": "/run/c",
    }
    times = {"StartedAt": started, "FinishedAt": "2026-11-17T01:00:09Z"}
    return {
        "Id": "abc",
        "Image": "def",
        "ImageName": "busybox",
        "StaticDir": "/static",
        "State": {"Status": status, "ExitCode": code, "Pid": 7, "ConmonPid": 8, **times, **state},
        "Config": {"Labels": given, "StopSignal": stop},
    }


def test_a_container_that_runs():
    found = found_container(container("running"))
    assert (found.id, found.state.id, found.state.attempt) == ("abc", "podman://abc", 2)
    assert (found.state.running, found.pid, found.monitor, found.state.image_id) == (True, 7, 8, "sha256:def")


def test_a_container_that_has_ended():
    found = found_container(container("exited", code=137, OOMKilled=True))
    assert (found.state.exit_code, found.state.oom_killed, found.monitor) == (137, True, 0)
    assert round(found.state.finished_at - found.state.started_at, 3) == 8.877


def test_a_container_whose_end_nobody_saw():
    assert found_container(container("created")).state.exit_code == 255
    assert found_container(container("stopped", code=-1)).state.exit_code == 255
    assert found_container(container("created", started="0001-01-01T00:00:00Z")) is None


@pytest.mark.parametrize(("given", "number"), [(15, 15), (3, 3), ("SIGQUIT", 3), ("QUIT", 3), ("", 15), ("37", 37)])
def test_the_signal_that_an_image_names(given, number):
    assert found_container(container("running", stop=given)).stop_signal == number


def test_the_reason_is_the_last_error():
    errors = 'time="x" level=warning msg="retrying"\nError: no such image\n'
    assert said(errors) == "no such image"
    assert said("") == "it failed"


def started_with(tmp_path, mount):
    config = ContainerConfig(
        pod_uid="u",
        namespace="default",
        pod_name="p",
        name="c",
        attempt=0,
        image="i",
        command=(),
        args=(),
        log_path=tmp_path / "log",
        mounts=(mount,),
    )
    return run_arguments(config, [], Edits(), "", root=tmp_path, directory=tmp_path)


def test_a_mount_is_one_argument(tmp_path):
    found = started_with(tmp_path, Mount(str(tmp_path), "/v", read_only=True))
    assert found[found.index("--mount") + 1] == f"type=bind,source={tmp_path},target=/v,ro"


@pytest.mark.parametrize("path", ["/v,rw", "/v\nx", "/v\rx", '/v"x'])
def test_a_path_that_would_change_the_options_of_its_mount_is_refused(tmp_path, path):
    with pytest.raises(StartError, match="podman takes no path with a comma, a quotation mark or a line break"):
        started_with(tmp_path, Mount(str(tmp_path), path, read_only=True))
