"""Messages about kinds that the user may not read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

VIEWER: Final = "dray:viewer"
"""The role that may read everything."""
REMEDY: Final = f"ask for the role {VIEWER}, which may read these kinds (on Kubernetes: examples/deploy/viewer.yaml)"


def cannot_tell(question: str, unread: Mapping[str, str]) -> list[str]:
    """Returns the lines of an error: the kinds that may not be read, what the server said about each, the remedy."""
    return [f"cannot tell {question}: may not read {', '.join(unread)}", *unread.values(), f"hint: {REMEDY}"]
