"""Programs of a driver root that is another system: with that system's loader and libraries, or without its libc."""

import platform
import shutil
import subprocess
from pathlib import Path

import pytest

from dray.drivers.gpu.driver_files import find_driver_files
from dray.drivers.gpu.driver_programs import DriverPrograms
from dray.drivers.gpu.programs import run_program

LIBRARIES = f"usr/lib/{platform.machine()}-linux-gnu"
# Loads the management library as nvidia-smi does, and tells what files it is made of.
PROGRAM = """
#include <dlfcn.h>
#include <stdio.h>
int main(void) {
    char line[4096];
    if (!dlopen("libnvidia-ml.so.1", RTLD_NOW)) { puts(dlerror()); return 1; }
    FILE *maps = fopen("/proc/self/maps", "r");
    while (fgets(line, sizeof line, maps)) fputs(line, stdout);
    return 0;
}
"""


@pytest.fixture
def root(tmp_path, nvml_library):
    """A root with the vendor's library and an ELF program."""
    made = tmp_path / "root"
    (made / LIBRARIES).mkdir(parents=True)
    (made / "usr/bin").mkdir()
    shutil.copy(nvml_library, made / LIBRARIES / "libnvidia-ml.so.1")
    (tmp_path / "smi.c").write_text(PROGRAM)
    subprocess.run(["gcc", tmp_path / "smi.c", "-o", made / "usr/bin/nvidia-smi"], check=True)
    return made


def files_of(root, tmp_path):
    """The names of files that the program was made of when it ran."""
    programs = DriverPrograms(find_driver_files(str(root)), tmp_path / "libraries")
    output = run_program(programs.command("nvidia-smi"), programs.environment())
    return {words[5] for line in output.splitlines() if len(words := line.split()) > 5 and words[5].startswith("/")}


def test_a_root_with_a_loader_runs_its_programs_itself(root, tmp_path):
    asked = subprocess.run(["ldd", root / "usr/bin/nvidia-smi"], capture_output=True, text=True, check=True).stdout
    paths = [Path(word) for word in asked.split() if word.startswith("/")]
    (loader,) = [path for path in paths if path.name.startswith("ld-")]
    # An absolute link, which leads into the root.
    (root / loader.parent.relative_to("/")).mkdir(parents=True, exist_ok=True)
    (root / loader.relative_to("/")).symlink_to(f"/{LIBRARIES}/{loader.name}")
    for path in paths:
        shutil.copy(path, root / LIBRARIES / path.name)
    programs = DriverPrograms(find_driver_files(str(root)), tmp_path / "libraries")
    assert programs.command_in_root("nvidia-smi") == ["chroot", str(root), "/usr/bin/nvidia-smi"]
    used = files_of(root, tmp_path)
    outside = {path for path in used if not path.startswith(str(root))}
    assert outside == set()
    assert {Path(path).name for path in used} >= {"libc.so.6", loader.name, "libnvidia-ml.so.1"}


def test_a_root_without_a_loader_gives_its_own_libraries_alone(root, tmp_path):
    (root / LIBRARIES / "libc.so.6").write_text("of another system")
    used = files_of(root, tmp_path)
    inside = {path for path in used if path.startswith(str(root))}
    assert {Path(path).name for path in inside} == {"nvidia-smi", "libnvidia-ml.so.1"}
    assert [path.name for path in (tmp_path / "libraries").iterdir()] == ["libnvidia-ml.so.1"]


def test_scripts_run_directly_and_stale_library_links_are_replaced(root, tmp_path):
    (root / "usr/bin/nvidia-smi").write_text("#!/bin/sh\necho $LD_LIBRARY_PATH\n")
    (tmp_path / "libraries").mkdir()
    (tmp_path / "libraries/libcuda.so.1").symlink_to("/nowhere")
    (tmp_path / "libraries/libnvidia-ml.so.1").symlink_to("/nowhere")
    programs = DriverPrograms(find_driver_files(str(root)), tmp_path / "libraries")
    assert programs.command("nvidia-smi") == [str(root / "usr/bin/nvidia-smi")]
    told = run_program(programs.command("nvidia-smi"), programs.environment())
    assert told.strip().split(":")[0] == str(tmp_path / "libraries")
    (link,) = (tmp_path / "libraries").iterdir()
    assert link.resolve() == root / LIBRARIES / "libnvidia-ml.so.1"
