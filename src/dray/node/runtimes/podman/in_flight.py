"""Commands of podman that an agent began before it was killed, and that will still make containers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from dray.node.runtimes.podman import labels
from dray.node.runtimes.process_end import ended
from dray.process.beneath import PROCESS_BYTES, read_start

_logger = logging.getLogger(__name__)
_SECONDS: Final = 60.0


async def landed(root: Path) -> None:
    """Waits, for a limited time, until no earlier podman command runs for the runtime with that directory."""
    try:
        async with asyncio.timeout(_SECONDS):
            for pid in list(_commands(f"{labels.ROOT}={root}")):
                await ended(pid)
    except TimeoutError:
        _logger.warning("podman still starts a container of an earlier agent after %g s", _SECONDS)


def _commands(label: str) -> Iterator[int]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = read_start(entry / "cmdline", PROCESS_BYTES).split(b"\0")
            except OSError:
                continue
            if words[0].endswith(b"podman") and b"run" in words and label.encode() in words:
                yield int(entry.name)
