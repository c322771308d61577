"""Execution in a container: this process becomes the command, with what the container's processes have."""

from __future__ import annotations

import json
import os
import sys

from dray.node.runtimes.shim import child


def main() -> None:
    """The arguments are a file with the spec, which is removed, and the id of a process of the container."""
    place, pid = sys.argv[1:3]
    # Nothing of the agent, such as its connections to the API server, reaches a container.
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    with open(place) as file:
        spec = json.load(file)
    os.unlink(place)
    child.enter(spec, int(pid))
