"""Control groups of version 2, on machines that use them and on machines that do not."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def unified_hierarchy(place: Path) -> Iterator[Path]:
    """Mounts the control groups of version 2 at a place; skips the test if that is not allowed."""
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "cgroup2", "none", str(place)], capture_output=True, text=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"control groups of version 2 cannot be mounted: {mounted.stderr.strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)
