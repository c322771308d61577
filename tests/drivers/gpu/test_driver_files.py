"""The vendor's files in the layouts of several distributions, and what of them a container gets."""

import platform

import pytest

from dray.driver import DriverError
from dray.drivers.gpu.driver_files import find_driver_files

VERSION = "580.105.08"


def install(root, libraries, programs):
    for directory in (libraries, programs):
        (root / directory).mkdir(parents=True)
    for name in ("libnvidia-ml", "libcuda", "libnvidia-ptxjitcompiler"):
        (root / libraries / f"{name}.so.{VERSION}").touch()
        (root / libraries / f"{name}.so.1").symlink_to(f"{name}.so.{VERSION}")
    # Of another version, and of another vendor.
    (root / libraries / "libcuda.so.535.54").touch()
    (root / libraries / "libc.so.6").touch()
    (root / programs / "nvidia-smi").touch(mode=0o755)


@pytest.mark.parametrize(
    ("libraries", "programs"),
    [
        ("usr/lib64", "usr/bin"),
        ("usr/lib/aarch64-linux-gnu", "usr/bin"),
        ("usr/lib/x86_64-linux-gnu/nvidia/current", "usr/bin"),
        ("usr/lib/nvidia-580", "usr/bin"),
        # The driver of a cloud's machines, which is not installed in the system.
        ("lib64", "bin"),
    ],
)
def test_layouts(tmp_path, libraries, programs):
    # Whatever the machine's own place is: the image may be of another distribution.
    inside = f"/usr/lib/{platform.machine()}-linux-gnu"
    install(tmp_path, libraries, programs)
    files = find_driver_files(str(tmp_path))
    assert files.management_library == tmp_path / libraries / "libnvidia-ml.so.1"
    found = {each.container: each for each in files.libraries(VERSION)}
    names = ("libcuda", "libnvidia-ml", "libnvidia-ptxjitcompiler")
    assert list(found) == [f"{inside}/{name}.so.{VERSION}" for name in names]
    cuda = found[f"{inside}/libcuda.so.{VERSION}"]
    assert (cuda.host, cuda.links) == (tmp_path / libraries / f"libcuda.so.{VERSION}", ("libcuda.so.1",))
    (smi,) = files.programs()
    assert (smi.host, smi.container) == (tmp_path / programs / "nvidia-smi", "/usr/bin/nvidia-smi")


def test_a_container_mounts_files_by_their_names_on_the_host(tmp_path):
    install(tmp_path, "usr/lib64", "usr/bin")
    files = find_driver_files(str(tmp_path), "/run/nvidia/driver")
    hosts = [str(each.host) for each in (*files.libraries(VERSION), *files.programs())]
    assert hosts[0] == f"/run/nvidia/driver/usr/lib64/libcuda.so.{VERSION}"
    assert hosts[-1] == "/run/nvidia/driver/usr/bin/nvidia-smi"
    # It loads and runs what it sees itself.
    assert files.management_library.is_relative_to(tmp_path)
    assert files.needed_program("nvidia-smi").is_relative_to(tmp_path)


def test_links_are_followed_within_the_root(tmp_path):
    """Debian packages have absolute links through /etc/alternatives."""
    install(tmp_path, "usr/lib/nvidia/current", "usr/lib/nvidia/bin")
    place = tmp_path / "usr/lib/x86_64-linux-gnu"
    place.mkdir()
    (tmp_path / "usr/bin").mkdir()
    (tmp_path / "etc/alternatives").mkdir(parents=True)
    for link, target in (
        ("usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1", "/etc/alternatives/glx--libnvidia-ml.so.1"),
        ("etc/alternatives/glx--libnvidia-ml.so.1", "/usr/lib/nvidia/current/libnvidia-ml.so.1"),
        ("usr/bin/nvidia-smi", "/etc/alternatives/nvidia--nvidia-smi"),
        ("etc/alternatives/nvidia--nvidia-smi", "../../usr/lib/nvidia/bin/nvidia-smi"),
        ("usr/lib/nvidia/current/libcuda.so", "/etc/alternatives/libcuda.so"),
        ("etc/alternatives/libcuda.so", "/usr/lib/nvidia/current/libcuda.so.1"),
    ):
        (tmp_path / link).symlink_to(target)
    files = find_driver_files(str(tmp_path))
    assert files.management_library == tmp_path / "usr/lib/nvidia/current/libnvidia-ml.so.1"
    cuda, *others = files.libraries(VERSION)
    assert (cuda.links, len(others)) == (("libcuda.so", "libcuda.so.1"), 2)
    assert files.needed_program("nvidia-smi") == tmp_path / "usr/lib/nvidia/bin/nvidia-smi"
    (tmp_path / "usr/bin/nvidia-debugdump").symlink_to("nvidia-debugdump")
    assert files.program("nvidia-debugdump") is None


def test_firmware_and_the_socket_of_the_persistence_daemon(tmp_path):
    install(tmp_path, "usr/lib64", "usr/bin")
    for path in (f"lib/firmware/nvidia/{VERSION}/gsp_ga10x.bin", "run/nvidia-persistenced/socket"):
        (tmp_path / path).parent.mkdir(parents=True)
        (tmp_path / path).touch()
    found = [each.container for each in find_driver_files(str(tmp_path)).further_files(VERSION)]
    assert found == [f"/lib/firmware/nvidia/{VERSION}/gsp_ga10x.bin", "/run/nvidia-persistenced/socket"]


def test_a_program_that_is_missing_is_named(tmp_path):
    install(tmp_path, "usr/lib64", "usr/bin")
    with pytest.raises(DriverError, match=r"there is no nvidia-cuda-mps-control below .*: install"):
        find_driver_files(str(tmp_path)).needed_program("nvidia-cuda-mps-control")


def test_a_library_without_a_version_in_its_name_is_found_where_the_linker_looks(tmp_path, monkeypatch):
    for name in ("libnvidia-ml.so.1", "libcuda.so.1", "libc.so.6", "libnvme.so.1"):
        (tmp_path / name).touch()
    monkeypatch.setenv("LD_LIBRARY_PATH", f"relative:{tmp_path}")
    files = find_driver_files()
    assert files.management_library == tmp_path / "libnvidia-ml.so.1"
    assert [each.host.name for each in files.libraries("")] == ["libcuda.so.1", "libnvidia-ml.so.1"]


def test_a_link_to_a_library_of_another_name(tmp_path, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/nvml.so").touch()
    (tmp_path / "libnvidia-ml.so.1").symlink_to("elsewhere/nvml.so")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    (library,) = find_driver_files().libraries("550.54.14")
    assert library.host == tmp_path / "elsewhere/nvml.so"
    assert library.container.endswith("/libnvidia-ml.so.1")
