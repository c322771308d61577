"""A process that exchanges names with symbolic links as fast as it can, as a container may in its volume.

    python -m tests.process.swapping DIRECTORY NAME LINK [NAME LINK ...]

It goes on until its input ends. Names that are not there at the moment are passed over.
"""

import ctypes
import os
import select
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

_EXCHANGE = 2


@contextmanager
def swapping(directory, *pairs):
    """Exchanges each NAME with its LINK below the directory, all the time."""
    command = [sys.executable, "-m", __name__, str(directory), *(part for pair in pairs for part in pair)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, cwd=Path(__file__).parents[2]) as process:
        try:
            yield
        finally:
            process.stdin.close()
            process.wait(20)
    assert process.returncode == 0


def main(directory, *names):
    os.chdir(directory)
    exchange = ctypes.CDLL(None).renameat2
    pairs = [tuple(map(os.fsencode, pair)) for pair in zip(names[::2], names[1::2], strict=True)]
    while not select.select([0], [], [], 0)[0]:
        for _ in range(200):
            for name, link in pairs:
                exchange(-100, name, -100, link, _EXCHANGE)


if __name__ == "__main__":
    main(*sys.argv[1:])
