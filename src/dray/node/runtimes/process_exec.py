"""Execution of a command in a running container of the process runtime: same mounts, user, environment and limits."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dray.node.runtimes import shim_server, streamed_command
from dray.node.runtimes.interface import Streams


class ExecProcess:
    def __init__(self, directory: Path, spec: dict[str, Any], pid: int) -> None:
        self._directory = directory
        self._spec = spec
        self._pid = pid

    async def run(self, command: Sequence[str], streams: Streams, *, tty: bool, stdin: bool) -> int:
        handle, path = tempfile.mkstemp(prefix="exec", dir=self._directory)
        with open(handle, "w") as file:
            json.dump({**self._spec, "argv": list(command)}, file)
        arguments = shim_server.shim_command("execution", path, str(self._pid))
        return await streamed_command.run(arguments, streams, tty=tty, stdin=stdin)
