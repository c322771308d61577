"""Programs of the vendor that are run to their end."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from typing import Final

from dray.driver import DriverError

_PATIENCE: Final = 20.0


def run_program(command: Sequence[str], environment: Mapping[str, str], given: str = "") -> str:
    """What it wrote; raises DriverError with that where it fails or does not end."""
    named = " ".join([*command, *given.split()])
    # A file, not a pipe: a program that leaves a daemon behind would keep a pipe open.
    with tempfile.TemporaryFile("w+") as said:
        try:
            status = _run(command, environment, given, said.fileno())
        except subprocess.TimeoutExpired as error:
            raise DriverError(f"{named} did not end in {_PATIENCE:.0f} seconds") from error
        except OSError as error:
            raise DriverError(f"{command[0]} cannot be run: {error.strerror}") from error
        said.seek(0)
        output = said.read()
    if status:
        raise DriverError(f"{named} ended with status {status}: {' '.join(output.split()) or 'it said nothing'}")
    return output


def _run(command: Sequence[str], environment: Mapping[str, str], given: str, output: int) -> int:
    ended = subprocess.run(
        command,
        env=environment,
        input=given,
        text=True,
        stdout=output,
        stderr=subprocess.STDOUT,
        timeout=_PATIENCE,
        check=False,
    )
    return ended.returncode
