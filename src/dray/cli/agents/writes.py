"""Changes of a cluster that an agent asks for: each is a command of dray, run with --dry-run first."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from typing import Final

from dray.cli.agents.questions import MOST_CHARACTERS, Refused, Subject

_DRAY: Final = (sys.executable, "-c", "from dray.cli import main; main()")
_SECONDS: Final = 120.0


async def changed(subject: Subject, command: Sequence[str], manifests: str, *, confirm: bool) -> str:
    """Returns what the command would do; with `confirm`, what it did. Raises Refused if the server refuses it."""
    options = []
    for name, value in (("--kubeconfig", subject.kubeconfig), ("--context", subject.context)):
        options += [name, value] if value else []
    options += ["--namespace", subject.namespace] if subject.namespace else []
    tried = await _run([*command, *options, "--dry-run"], manifests)
    if not confirm:
        return f"nothing was changed; this is what would be done:\n{tried}call again with confirm to do it\n"
    return await _run([*command, *options], manifests)


async def _run(command: Sequence[str], manifests: str) -> str:
    process = await asyncio.create_subprocess_exec(
        *_DRAY,
        *command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        printed, _ = await asyncio.wait_for(process.communicate(manifests.encode()), _SECONDS)
    except TimeoutError:
        process.kill()
        await process.wait()
        raise Refused(f"`dray {command[0]}` did not end within {_SECONDS:.0f} s") from None
    text = printed.decode(errors="replace")[:MOST_CHARACTERS]
    if process.returncode:
        raise Refused(text)
    return text
