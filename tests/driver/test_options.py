"""Paths of sockets: names for rolling updates, and the limit of a socket's path."""

from pathlib import Path

import pytest

from dray.driver import DriverError, RunnerOptions

UID = "0b0b0b0b-1111-2222-3333-444444444444"


def test_the_kubelets_directories_are_the_default() -> None:
    options = RunnerOptions()
    assert options.registration_socket("d.example.com") == Path(
        "/var/lib/kubelet/plugins_registry/d.example.com-reg.sock"
    )
    assert options.endpoint("d.example.com") == "/var/lib/kubelet/plugins/d.example.com/dra.sock"


def test_relative_paths_are_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    options = RunnerOptions(kubelet_root=Path("d/node"), cdi_directory=Path("d/cdi"), host_directory=Path("h"))
    assert options.plugin_directory("d") == tmp_path / "d/node/plugins/d"
    assert options.registry() == tmp_path / "d/node/plugins_registry"
    assert options.cdi_directory == tmp_path / "d/cdi"
    assert options.endpoint("d") == f"{tmp_path}/h/dra.sock"
    apart = RunnerOptions(directory=Path("own"), registry_directory=Path("registry"))
    assert (apart.plugin_directory("d"), apart.registry()) == (tmp_path / "own", tmp_path / "registry")


def test_the_kubelet_is_told_the_path_it_sees() -> None:
    options = RunnerOptions(directory=Path("/plugin"), host_directory=Path("/var/lib/kubelet/plugins/d.example.com"))
    assert options.dra_socket("d.example.com") == Path("/plugin/dra.sock")
    assert options.endpoint("d.example.com") == "/var/lib/kubelet/plugins/d.example.com/dra.sock"


def test_in_a_rolling_update_names_differ_by_the_uid_of_the_pod() -> None:
    options = RunnerOptions(pod_uid=UID)
    assert options.dra_socket("d.example.com").name == f"dra-{UID}.sock"
    assert options.registration_socket("d.example.com").name == f"d.example.com-{UID}-reg.sock"


@pytest.mark.parametrize(
    ("driver", "name"),
    [
        # Unpadded base64url of the start of a SHA-256 sum, computed with openssl.
        ("a-driver-with-a-long-name.example.com", "a-driver-with-a-long-name.example.com-2sihtHIDlCQ-reg.sock"),
        ("a" * 50 + ".example.com", "dra-Z6MKBc8utvB0qzb4TNN4EQ-reg.sock"),
    ],
)
def test_names_that_do_not_fit_are_replaced_by_sums(driver: str, name: str) -> None:
    options = RunnerOptions(pod_uid=UID)
    socket = options.registration_socket(driver)
    assert len(str(socket)) < 108
    assert socket.name == name


def test_a_directory_that_is_too_deep_is_refused() -> None:
    with pytest.raises(DriverError, match="107 bytes"):
        RunnerOptions(kubelet_root=Path("/" + "a" * 100)).dra_socket("d.example.com")
