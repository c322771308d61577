"""Checks of the podman runtime: the programs that it needs, and the network of its containers.

All problems are warnings: --runtime process, the default, needs none of it.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from dray.cli.doctor_checks.check import Check, info, ok, warning
from dray.node.runtimes.podman.command import why_not

_SECONDS: Final = 30.0
_PLACES: Final = ("/usr/libexec/podman", "/usr/lib/podman", "/usr/local/libexec/podman", "/usr/local/lib/podman")
_CNI: Final = (Path("/usr/lib/cni"), Path("/opt/cni/bin"), Path("/usr/libexec/cni"))
_INSTALL: Final = "apt-get install podman runc conmon catatonit containernetworking-plugins"


def container_checks() -> Iterator[Check]:
    if shutil.which("podman") is None:
        yield info("podman", "not installed; --runtime podman needs it", _INSTALL)
        return
    if problem := why_not():
        text, _, remedy = problem.partition("; ")
        yield warning("podman", text, remedy)
    else:
        yield _podman()
    yield _supervisor()
    yield _network()


def _podman() -> Check:
    """Asks podman about itself: it fails if its storage or configuration is broken."""
    command = [
        "podman",
        "info",
        "--format",
        "{{.Version.Version}} {{.Host.OCIRuntime.Name}} {{.Store.GraphDriverName}}",
    ]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return warning("podman", f"podman info has not ended within {_SECONDS:g} s", "podman system migrate")
    if done.returncode:
        said = done.stderr.strip().splitlines()
        return warning(
            "podman", said[-1] if said else f"podman info ended with status {done.returncode}", "podman info"
        )
    version, _, rest = done.stdout.strip().partition(" ")
    return ok("podman", f"version {version} ({rest.replace(' ', ', storage ')})")


def _supervisor() -> Check:
    """runc starts containers, conmon looks after them."""
    places = ":".join(_PLACES)
    runtime = shutil.which("runc") or shutil.which("crun")
    conmon = shutil.which("conmon") or shutil.which("conmon", path=places)
    missing = [name for name, path in (("runc", runtime), ("conmon", conmon)) if path is None]
    if missing:
        return warning("container programs", f"{' and '.join(missing)} not found", _INSTALL)
    return ok("container programs", f"{runtime}, {conmon}")


def _network() -> Check:
    netavark = shutil.which("netavark") or shutil.which("netavark", path=":".join(_PLACES))
    if netavark:
        return ok("container network", netavark)
    found = next((folder for folder in _CNI if (folder / "bridge").exists()), None)
    if found is not None:
        return ok("container network", f"CNI plugins in {found}")
    return warning("container network", "neither netavark nor CNI plugins: podman pods get no network", _INSTALL)
