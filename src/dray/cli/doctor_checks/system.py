"""Checks of the machine: control groups, namespaces, limits, clock, disk, ports, and clusters that run."""

from __future__ import annotations

import ctypes
import os
import resource
import shutil
import socket
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

from dray.cli.doctor_checks.check import Check, checked, error, info, ok, warning
from dray.node.cpusets.cgroups import find_hierarchy
from dray.node.eviction.signals import observe
from dray.node.eviction.thresholds import DEFAULT_HARD, DISK, INODES, parse_hard
from dray.node.runtimes.device_files import can_hide
from dray.process import up_state

_ROOT: Final = Path("/sys/fs/cgroup")
_FEW_FILES, _SOME_FILES, _ENOUGH_FILES = 1024, 8192, 65536
# struct timex has `status` after an int, padding and four longs; the flag says that the clock is not synchronized.
_TIMEX_BYTES, _STATUS_OFFSET, _UNSYNCHRONIZED = 512, 40, 0x40


def system_checks(data: Path, port: int) -> Iterator[Check]:
    """`data` is the data directory of the cluster, `port` the port of its API server."""
    looks: dict[str, Callable[[], Iterable[Check]]] = {
        "cgroups": lambda: [_cgroups()],
        "namespaces": lambda: [_namespaces()],
        "open files": lambda: [_open_files()],
        "clock": lambda: [_clock()],
        "disk space": lambda: _disk(data),
        "port": lambda: [_port(port)],
        "kubectl": lambda: [_kubectl()],
        "clusters": lambda: [_clusters()],
    }
    for name, look in looks.items():
        yield from checked(name, look)


def _cgroups() -> Check:
    name = "cgroups"
    if not _ROOT.exists():
        return error(name, f"{_ROOT} is not mounted: limits are not enforced", "mount -t cgroup2 none /sys/fs/cgroup")
    version = "v2" if (_ROOT / "cgroup.controllers").exists() else "v1"
    if not _is_writable():
        text = f"{version}, not writable by this user: limits of cpu and memory are not enforced"
        return warning(name, text, "run the node as root")
    cpusets = "with" if find_hierarchy() is not None else "without"
    return ok(name, f"{version}, writable, {cpusets} cpusets")


def _is_writable() -> bool:
    """Returns True if this user may make groups for containers; makes none."""
    if (_ROOT / "cgroup.controllers").exists():
        return os.access(_ROOT, os.W_OK)
    return all(os.access(_ROOT / name, os.W_OK) for name in ("cpu", "memory"))


def _namespaces() -> Check:
    name = "namespaces"
    if can_hide():
        kind = "mount namespaces" if os.geteuid() == 0 else "user namespaces"
        return ok(name, f"{kind} work: a pod sees the device files of its own claims only")
    switches = "kernel.unprivileged_userns_clone=1 kernel.apparmor_restrict_unprivileged_userns=0"
    remedy = f"run the node as root, or allow user namespaces: sysctl {switches}"
    return warning(name, "this user may make none: processes of pods see all device files", remedy)


def _open_files() -> Check:
    name = "open files"
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = resource.RLIM_INFINITY
    text = f"{'unlimited' if soft == unlimited else soft} (at most {'unlimited' if hard == unlimited else hard})"
    if hard != unlimited and hard < _FEW_FILES:
        return error(name, text, f"ulimit -n {_ENOUGH_FILES}, or LimitNOFILE={_ENOUGH_FILES} in the systemd unit")
    if hard != unlimited and hard < _SOME_FILES:
        remedy = f"raise it in /etc/security/limits.conf, or LimitNOFILE={_ENOUGH_FILES} in the systemd unit"
        return warning(name, f"{text} is little for many watchers and pods", remedy)
    return ok(name, text)


def _clock() -> Check:
    buffer = ctypes.create_string_buffer(_TIMEX_BYTES)
    if ctypes.CDLL(None).adjtimex(buffer) < 0:
        return info("clock", "the kernel does not say whether it is synchronized")
    status = ctypes.c_int.from_buffer(buffer, _STATUS_OFFSET).value
    if status & _UNSYNCHRONIZED:
        text = "not synchronized: machines of a cluster refuse certificates if their clocks differ"
        return warning("clock", text, "timedatectl set-ntp true, or install chrony")
    return ok("clock", "synchronized")


def _disk(data: Path) -> Iterator[Check]:
    place = next(folder for folder in (data.absolute(), *data.absolute().parents) if folder.exists())
    seen = observe(place)
    thresholds = {threshold.signal: threshold for threshold in parse_hard(DEFAULT_HARD)}
    for name, signal, unit in (("disk space", DISK, 2**30), ("inodes", INODES, 1)):
        if (found := seen.get(signal)) is None:
            continue
        least = thresholds[signal].least(found.capacity)
        shown = f"{found.available / unit:,.0f}{' GiB' if unit > 1 else ''}"
        text = f"{shown} of {found.capacity / unit:,.0f} free at {place}"
        remedy = f"free some, or use another disk: dray up --data DIR; du -xsh {place}/*"
        if found.available < least:
            yield error(name, f"{text}: pods are evicted", remedy)
        elif found.available < 2 * least:
            yield warning(name, f"{text}: pods are evicted below {thresholds[signal].share:.0%}", remedy)
        else:
            yield ok(name, text)


def _port(port: int) -> Check:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as problem:
            own = next((state for state in up_state.running() if state.url.endswith(f":{port}")), None)
            if own is not None:
                return ok("port", f"{port} belongs to the cluster that process {own.pid} runs")
            return warning(
                "port", f"{port}: {problem.strerror}", "dray up --port 0 takes a free one; ss -ltnp shows all"
            )
    return ok("port", f"{port} is free")


def _kubectl() -> Check:
    found = shutil.which("kubectl")
    if found:
        return ok("kubectl", found)
    return info("kubectl", "not installed; dray get, apply, logs and run work without it")


def _clusters() -> Check:
    found = up_state.running()
    if not found:
        return info("clusters", "no cluster of this user is running; dray up --node starts one")
    return ok("clusters", ", ".join(f"{state.url} (process {state.pid}, since {state.since})" for state in found))
