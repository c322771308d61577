"""The hook that a runtime runs for a container with an interface: `python -m dray.drivers.nic.hook attach ...`.

It stands in the CDI file of the claim as a hook of kind createRuntime. A runtime runs it on the host when the network
of the pod is there and before the container starts, with the state of the container as input. It works by what is
written on disk, so that it needs no driver that runs.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from dray.drivers.nic.attach import attach, namespace_of
from dray.drivers.nic.attachment import AttachmentError, Attachments


def arguments(state: Path, device: str, claim_uid: str) -> tuple[str, ...]:
    """Returns the arguments for a Python interpreter; `-P` keeps it from importing from the working directory."""
    return ("-P", "-m", __name__, "attach", "--state", str(state), "--device", device, "--claim", claim_uid)


def main(given: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="dray.drivers.nic.hook")
    parser.add_argument("action", choices=["attach"])
    parser.add_argument("--state", type=Path, required=True)
    parser.add_argument("--device", required=True)
    parser.add_argument("--claim", required=True)
    options = parser.parse_args(given)
    try:
        state = json.load(sys.stdin)
        attach(Attachments(options.state), options.device, options.claim, namespace_of(state))
    except (AttachmentError, OSError, ValueError) as error:
        # What a runtime puts into the events of the pod.
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
