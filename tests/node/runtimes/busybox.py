"""An image made of Debian's busybox-static, and whether containers can be made of it here."""

import io
import os
import shutil
import subprocess
import tarfile
from functools import cache

import pytest

IMAGE = "localhost/dray-test-busybox:1"
PODMAN = ("podman", "--runtime", "runc", "--cgroup-manager", "cgroupfs")
_PROGRAMS = ("podman", "runc", "catatonit", "busybox")
_DIRECTORIES = ("bin", "usr/bin", "etc", "tmp", "proc", "dev", "sys", "var", "home/somebody")


def why_not() -> str:
    """What the tests with podman lack on this machine."""
    missing = [each for each in _PROGRAMS if shutil.which(each) is None]
    if missing:
        return f"needs {', '.join(missing)}: apt-get install podman runc catatonit busybox-static"
    return "" if os.geteuid() == 0 else "needs root"


needs_podman = pytest.mark.skipif(bool(why_not()), reason=why_not())


@cache
def image() -> str:
    """Its name, once it is there. Skips the test where podman cannot run a container at all."""
    if why := why_not():
        pytest.skip(why)
    if subprocess.run(["podman", "image", "exists", IMAGE], check=False).returncode:
        changes = ("--change", 'CMD ["sh", "-c", "echo cmd of the image"]', "--change", "ENV FLAVOUR=plain")
        subprocess.run(
            ["podman", "import", "--quiet", *changes, "-", IMAGE], input=_archive(), check=True, capture_output=True
        )
    limits = ("--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024")
    runs = subprocess.run([*PODMAN, "run", "--rm", *limits, IMAGE, "true"], check=False, capture_output=True, text=True)
    if runs.returncode:
        pytest.skip(f"needs a machine on which podman runs containers: {runs.stderr.strip()[-300:]}")
    return IMAGE


def _archive() -> bytes:
    buffer = io.BytesIO()
    program = shutil.which("busybox")
    applets = subprocess.run([program, "--list"], capture_output=True, text=True, check=True).stdout.split()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name in _DIRECTORIES:
            directory = tarfile.TarInfo(name)
            directory.type, directory.mode = tarfile.DIRTYPE, 0o1777 if name == "tmp" else 0o755
            archive.addfile(directory)
        archive.add(os.path.realpath(program), "bin/busybox")
        for name in applets:
            if name != "busybox":
                link = tarfile.TarInfo(f"bin/{name}")
                link.type, link.linkname = tarfile.SYMTYPE, "busybox"
                archive.addfile(link)
    return buffer.getvalue()
