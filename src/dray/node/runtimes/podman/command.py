"""Podman as a command: how it is called on this machine, what it prints, and what it says when it fails.

The limits of open files and processes are given, because podman asks for more than the machine may allow. Control
groups are made without systemd, which works on every machine and with both versions of them.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from dray.node.runtimes.interface import StartError
from dray.node.runtimes.podman.clean_command import CleanCommand

_SECONDS: Final = 120.0
# Longest argument or variable with its name; Linux counts the zero byte that ends it too.
_LONGEST: Final = (128 << 10) - 1
_MOST_FILES: Final = 1 << 20
_INSTALL: Final = "install what is missing (Debian: apt-get install podman runc catatonit), or use --runtime process"
_PLACES: Final = ("/usr/libexec/podman", "/usr/lib/podman", "/usr/local/libexec/podman", "/usr/local/lib/podman")


class PodmanError(Exception):
    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


def why_not() -> str:
    """Returns why podman cannot run containers on this machine, and what to do; empty if it can."""
    missing = [each for each, path in (("podman", shutil.which("podman")), ("catatonit", catatonit())) if path is None]
    if missing:
        return f"{' and '.join(missing)} not found on this machine; {_INSTALL}"
    if os.geteuid() != 0:
        return "podman gives pods a network of their own only as root; become root, or use --runtime process"
    return ""


def catatonit() -> str | None:
    """Returns the path of catatonit, which runs in the sandbox of a pod; None if it is not found."""
    return shutil.which("catatonit") or shutil.which("catatonit", path=os.pathsep.join(_PLACES))


class Podman:
    def __init__(self) -> None:
        self._path = shutil.which("podman") or ""
        runtime = ["--runtime", "runc"] if shutil.which("runc") else []
        self._options = [*runtime, "--cgroup-manager", "cgroupfs"]

    async def version(self) -> str:
        """Returns the version of podman. Raises StartError if podman cannot run containers on this machine."""
        if problem := why_not():
            raise StartError("RuntimeNotReady", problem)
        try:
            told = json.loads(await self.run("version", "--format", "json"))
        except (PodmanError, ValueError) as error:
            raise StartError("RuntimeNotReady", f"podman does not work: {error}") from None
        return str(told["Client"]["Version"])

    def arguments(self, *arguments: str, options: Sequence[str] = ()) -> list[str]:
        return [self._path, *self._options, *options, *arguments]

    async def run(
        self,
        *arguments: str,
        options: Sequence[str] = (),
        seconds: float = _SECONDS,
        directory: Path = Path("/"),
    ) -> str:
        """Runs podman and returns its output. Raises PodmanError; kills the command if the caller is cancelled."""
        if problem := too_long(arguments):
            raise PodmanError(125, problem)
        try:
            command = CleanCommand(self.arguments(*arguments, options=options), directory)
        except FileNotFoundError as error:
            raise PodmanError(125, f"podman: {error.strerror}; {_INSTALL}") from None
        except (OSError, ValueError) as error:
            # Such as arguments that contain a zero byte, or that are too long together.
            raise PodmanError(125, f"podman cannot be run: {getattr(error, 'strerror', '') or error}") from None
        try:
            async with asyncio.timeout(seconds):
                code, output, errors = await command.communicate()
        except TimeoutError:
            raise PodmanError(125, f"podman {arguments[0]} did not end within {seconds:g} s") from None
        finally:
            command.end()
        if code:
            raise PodmanError(code, said(errors.decode(errors="replace")))
        return output.decode(errors="replace")

    async def inspect(self, *names: str) -> list[dict[str, Any]]:
        """Returns the containers as podman reports them; raises PodmanError if one of them is not there."""
        found = json.loads(await self.run("container", "inspect", *names))
        return [container for container in found if isinstance(container, dict)]


def too_long(arguments: Sequence[str]) -> str:
    """Returns why Linux cannot run a command with these arguments; empty if it can."""
    longest = max((len(argument.encode(errors="replace")) for argument in arguments), default=0)
    if longest <= _LONGEST:
        return ""
    return f"Argument list too long: an argument or a variable has {longest} bytes; Linux accepts {_LONGEST} at most"


def said(errors: str) -> str:
    """Returns the last error that podman printed, without its prefix."""
    lines = [line.strip() for line in errors.splitlines() if line.strip()]
    last = next((line for line in reversed(lines) if line.startswith("Error: ")), lines[-1] if lines else "it failed")
    return last.removeprefix("Error: ")[:2000]


def limit_arguments() -> list[str]:
    """Returns limits of open files and processes that are as high as this machine allows."""
    files = _bounded(resource.RLIMIT_NOFILE, _MOST_FILES)
    try:
        most = int(Path("/proc/sys/kernel/pid_max").read_text())
    except (OSError, ValueError):
        most = 32768
    processes = _bounded(resource.RLIMIT_NPROC, most)
    return ["--ulimit", f"nofile={files}:{files}", "--ulimit", f"nproc={processes}:{processes}"]


def _bounded(kind: int, most: int) -> int:
    hard = resource.getrlimit(kind)[1]
    return most if hard == resource.RLIM_INFINITY else min(hard, most)
