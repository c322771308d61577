"""Programs of the vendor that are run to their end."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final

from dray.driver import DriverError

_PATIENCE: Final = 20.0
# Seconds for a program that was killed.
_DYING: Final = 1.0


def run_program(
    command: Sequence[str], environment: Mapping[str, str], given: str = "", *, seconds: float = _PATIENCE
) -> str:
    """Returns what it wrote; raises DriverError with that where it fails or does not end in time."""
    named = " ".join([*command, *given.split()])
    # A file, not a pipe: a program that leaves a daemon behind would keep a pipe open.
    with tempfile.TemporaryFile("w+", errors="replace") as said:
        try:
            status = _run(command, environment, given, said.fileno(), seconds)
        except subprocess.TimeoutExpired as error:
            raise DriverError(f"{named} did not end in {seconds:.0f} seconds") from error
        except OSError as error:
            raise DriverError(f"{command[0]} cannot be run: {error.strerror}") from error
        said.seek(0)
        output = said.read()
    if status:
        raise DriverError(f"{named} ended with status {status}: {' '.join(output.split()) or 'it said nothing'}")
    return output


def _run(command: Sequence[str], environment: Mapping[str, str], given: str, output: int, seconds: float) -> int:
    with tempfile.TemporaryFile("w+") as source:
        source.write(given)
        source.seek(0)
        program = subprocess.Popen(command, env=environment, stdin=source, stdout=output, stderr=subprocess.STDOUT)
    try:
        return program.wait(seconds)
    except subprocess.TimeoutExpired:
        program.kill()
        # A program that waits for a GPU in the kernel does not die; nobody waits for it here.
        with suppress(subprocess.TimeoutExpired):
            program.wait(_DYING)
        raise
