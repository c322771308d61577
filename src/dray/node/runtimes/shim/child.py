"""The container's own process, from fork to exec: cgroups, mounts, user, working directory, terminal.

Whatever fails is told through a pipe that the exec closes, as "reason: message".
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
from typing import Any, NoReturn

from dray.node.errors import described, shortened
from dray.node.runtimes.shim import programs, system, view

Spec = dict[str, Any]
FAILED = 128


class SetupError(Exception):
    """Raised if a container cannot be started: a reason in the kubelet's words, and a message."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(f"{reason}: {message}")


def run(spec: Spec, told: int, shim: int) -> NoReturn:
    """Becomes the container's process, which ends with its shim. Errors are written to the pipe `told`."""
    try:
        join(spec["cgroups"])
        _limit(spec)
        _join_network(spec["network"])
        root = _view(spec)
        # Without the permission, the container sees the host name of the machine.
        with contextlib.suppress(OSError):
            system.own_hostname(spec["hostname"])
        if root:
            os.chroot(root)
        become(spec, shim)
    except SetupError as error:
        os.write(told, str(error).encode()[:4000])
    except Exception as error:
        # Reports Python errors too, such as for a zero byte in an argument.
        os.write(told, f"CreateContainerError: {described(error)}".encode(errors="replace")[:4000])
    os._exit(FAILED)


def enter(spec: Spec, pid: int) -> NoReturn:
    """Becomes a process that is executed in the container of the process `pid`."""
    try:
        join(spec["cgroups"])
        _limit(spec)
        _join_namespaces(pid, mounts=bool(spec["mounts"] or spec.get("hidden")))
        programs.use(spec)
        become(spec)
    except Exception as error:
        os.write(2, f"{error}\n".encode(errors="replace"))
    os._exit(FAILED)


def join(cgroups: list[str]) -> None:
    for directory in cgroups:
        with open(os.path.join(directory, "cgroup.procs"), "w") as file:
            file.write("0")


def become(spec: Spec, parent: int = 0) -> NoReturn:
    """Sets user, directory and signals, and executes the command. Ends with its parent, or at once if that is gone."""
    environment: dict[str, str] = spec["environment"]
    os.umask(0o022)
    if spec.get("enters_as_agent", True):
        _change_directory(spec["working_dir"])
        _change_user(spec)
    else:
        # A pod must name a working directory that its user can enter.
        os.chdir("/")
        _change_user(spec)
        _change_directory(spec["working_dir"])
    if spec.get("no_new_privileges"):
        system.refuse_new_privileges()
    # Set it after the change of user, which would clear it.
    system.die_with_parent(parent)
    for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    argv: list[str] = spec["argv"]
    try:
        os.execvpe(argv[0], argv, environment)
    except FileNotFoundError:
        looked = "" if "/" in argv[0] else " in the PATH of the container"
        advice = "correct the command, or install it on this machine"
        raise SetupError("RunContainerError", f"exec {argv[0]}: no such file{looked}; {advice}") from None
    except OSError as error:
        raise SetupError("RunContainerError", f"exec {argv[0]}: {error.strerror}") from None


def _limit(spec: Spec) -> None:
    cpus = spec.get("cpus") or spec.get("shared_cpus")
    if cpus:
        os.sched_setaffinity(0, cpus)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _view(spec: Spec) -> str:
    mounts: list[dict[str, Any]] = spec["mounts"]
    hidden: list[str] = spec.get("hidden", [])
    if not (mounts or hidden):
        return ""
    try:
        return view.enter(mounts, hidden, spec["stage"])
    except OSError as error:
        if needed := programs.provide(spec):
            hint = "" if os.geteuid() == 0 else "; without root or user namespaces use --runtime podman"
            places = ", ".join(map(shortened, needed))
            raise SetupError("CreateContainerError", f"cannot mount {places}: {error}{hint}") from None
        return ""


def _join_network(path: str) -> None:
    """Joins the network namespace of the pod, if it has its own."""
    if path:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        system.setns(descriptor, system.CLONE_NEWNET)
        os.close(descriptor)


def _join_namespaces(pid: int, *, mounts: bool) -> None:
    """Joins the namespaces of a process that differ from the agent's; without root only if `mounts`."""
    wanted = ("net", "mnt", "uts") if os.geteuid() == 0 else ("user", "mnt", "uts") if mounts else ()
    names = [name for name in wanted if os.readlink(f"/proc/{pid}/ns/{name}") != os.readlink(f"/proc/self/ns/{name}")]
    if not names:
        return
    opened = [os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC) for name in names]
    root = os.open(f"/proc/{pid}/root", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    for descriptor in opened:
        system.setns(descriptor)
    os.fchdir(root)
    os.chroot(".")


def _change_directory(directory: str) -> None:
    try:
        os.chdir(directory)
    except OSError as error:
        raise SetupError(
            "CreateContainerError", f"working directory {shortened(directory)}: {error.strerror}"
        ) from None


def _change_user(spec: Spec) -> None:
    user, group, groups = spec["user"], spec["group"], spec["groups"]
    try:
        if groups or user is not None:
            os.setgroups(groups)
        if group is not None or user is not None:
            os.setgid(group if group is not None else 0)
        if user is not None:
            os.setuid(user)
    except PermissionError:
        if user not in (None, os.geteuid()):
            raise SetupError("CreateContainerError", f"user {user}: only root runs processes of other users") from None
