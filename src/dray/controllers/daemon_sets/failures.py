"""Waiting times for nodes on which the pods of a DaemonSet fail: from a second to a quarter of an hour."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

_FIRST: Final = timedelta(seconds=1)
_LONGEST: Final = timedelta(minutes=15)


class Failures:
    def __init__(self) -> None:
        self._by_owner: dict[str, dict[str, tuple[datetime, timedelta]]] = {}
        """By uid of the DaemonSet and node name: when the last failed pod was deleted, and the backoff after it."""

    def wait(self, owner: str, node: str, now: datetime) -> float:
        """Seconds until a failed pod may be deleted; at 0 the next one has to wait for longer."""
        nodes = self._by_owner.setdefault(owner, {})
        since, pause = nodes.get(node, (now, timedelta()))
        if now - since > 2 * _LONGEST:
            pause = timedelta()
        left = since + pause - now
        if left > timedelta():
            return left.total_seconds()
        nodes[node] = now, min(max(2 * pause, _FIRST), _LONGEST)
        return 0.0

    def forget(self, owner: str) -> None:
        self._by_owner.pop(owner, None)
