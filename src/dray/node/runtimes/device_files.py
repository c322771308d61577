"""Device files that drivers give to pods by claim: hidden from every container that has no claim for them.

A driver leaves the patterns of its device files in its directory (`DEVICE_FILES`), whether it runs in the agent or
beside it, and they stay in force while it is down. Containers of images get only the device files that CDI names;
processes share the machine's /dev, so that the others have to be hidden.
"""

from __future__ import annotations

import glob
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import msgspec

from dray.driver.options import DEVICE_FILES
from dray.process.beneath import read_regular

_LARGEST = 1 << 16
_CHECK = (
    "from dray.node.runtimes.shim import system\n"
    "import os\n"
    "flags = system.CLONE_NEWNS | (0 if os.geteuid() == 0 else system.CLONE_NEWUSER)\n"
    "system.unshare(flags)\n"
)


def hidden_files(plugins: Path, given: Iterable[str]) -> list[str]:
    """Returns the device files to hide from a container; `given` are the files of its own claims."""
    patterns = [pattern for path in sorted(plugins.glob(f"*/{DEVICE_FILES}")) for pattern in _patterns(path)]
    own = {os.path.realpath(path) for path in given}
    found = dict.fromkeys(path for pattern in patterns for path in sorted(glob.glob(pattern)))
    # A link may lead to a file that every container needs, such as /dev/null.
    return [path for path in found if not os.path.islink(path) and os.path.realpath(path) not in own]


def _patterns(path: Path) -> list[str]:
    try:
        found = msgspec.json.decode(read_regular(path, _LARGEST), type=list[str])
    except (OSError, ValueError, msgspec.DecodeError):
        return []
    return [pattern for pattern in found if os.path.isabs(pattern)]


def can_hide() -> bool:
    """Returns True if this user may make mount namespaces, as root or in user namespaces."""
    done = subprocess.run([sys.executable, "-c", _CHECK], capture_output=True, check=False)
    return done.returncode == 0
