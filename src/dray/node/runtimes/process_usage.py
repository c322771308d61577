"""Usage of a container's processes, where no control group counts it: the sum over those that are there.

What processes used that have ended counts with the parent that waited for them.
"""

from __future__ import annotations

import contextlib
import os

from dray.node.runtimes.interface import Usage
from dray.node.runtimes.shim.processes import descendants

_NANO = 1_000_000_000


def usage(shim: int) -> Usage | None:
    """Returns the usage of all processes below the shim; None if there is none."""
    ticks, pages, found = 0, 0, False
    for pid in descendants(shim):
        with contextlib.suppress(OSError, ValueError, IndexError):
            with open(f"/proc/{pid}/stat") as file:
                # The name of a program may contain spaces and brackets.
                fields = file.read().rpartition(")")[2].split()
            ticks += sum(map(int, fields[11:15]))
            pages += int(fields[21])
            found = True
    if not found:
        return None
    return Usage(ticks * _NANO // os.sysconf("SC_CLK_TCK"), pages * os.sysconf("SC_PAGE_SIZE"))
