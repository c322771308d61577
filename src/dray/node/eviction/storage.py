"""Local storage of pods: what their emptyDir volumes, logs and working directories take, and whether that is too much.

Read in a thread: a directory may have many files.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from dray.api import pod_requests
from dray.api.objects import Object, mapping, mappings, spec_of
from dray.api.quantity import Quantity
from dray.process import beneath

_RESOURCE = "ephemeral-storage"


def size(paths: Iterable[Path]) -> int:
    """Returns the bytes on disk below the paths; files that vanish meanwhile are ignored."""
    total = 0
    for path in paths:
        with suppress(OSError), beneath.opened(path) as root:
            for _, entry in beneath.walk(root):
                with suppress(OSError):
                    total += 0 if entry.is_dir(follow_symlinks=False) else _blocks(entry)
    return total


def _blocks(entry: os.DirEntry[str]) -> int:
    return entry.stat(follow_symlinks=False).st_blocks * 512


def is_limited(pod: Object) -> bool:
    volumes = mappings(spec_of(pod).get("volumes"))
    return any(mapping(volume.get("emptyDir")).get("sizeLimit") for volume in volumes) or bool(_limits(pod))


def excess(pod: Object, volumes: Path, written: Iterable[Path]) -> str:
    """Returns the kubelet's message for a pod that exceeds a storage limit; empty if it stays within its limits.

    `volumes` has its volumes by name, `written` are all places it writes to.
    """
    for volume in mappings(spec_of(pod).get("volumes")):
        limit = mapping(volume.get("emptyDir")).get("sizeLimit")
        if limit and size([volumes / str(volume["name"])]) > Quantity.parse(str(limit)).value():
            return f'Usage of EmptyDir volume "{volume["name"]}" exceeds the limit "{limit}". '
    limits = _limits(pod)
    if limits and len(limits) == len(spec_of(pod)["containers"]) and size(written) > sum(limits):
        total = Quantity.of(sum(limits))
        return f"Pod ephemeral local storage usage exceeds the total limit of containers {total}. "
    return ""


def _limits(pod: Object) -> list[int]:
    given = (
        mapping(container.get("resources")).get("limits") for container in mappings(spec_of(pod).get("containers"))
    )
    return [amounts[_RESOURCE] for amounts in map(pod_requests.amounts, given) if _RESOURCE in amounts]
