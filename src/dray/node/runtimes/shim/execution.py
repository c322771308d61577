"""Execution in a container: this process becomes the command, with what the container's processes have."""

from __future__ import annotations

import json
import os
import sys

from dray.node.runtimes.shim import child


def main() -> None:
    """Executes the command; the arguments are a spec file, which is removed, and a process id of the container."""
    place, pid = sys.argv[1:3]
    # Files that the agent has open, such as connections to the API server, must not reach a container.
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    with open(place) as file:
        spec = json.load(file)
    os.unlink(place)
    child.enter(spec, int(pid))
