"""The view of the world that tokens are checked against."""

from __future__ import annotations

from typing import Protocol

from dray.api.objects import Object


class Objects(Protocol):
    """Reads the present object, or None: `get("", "pods", "default", "web-0")`."""

    def get(self, group: str, resource: str, namespace: str, name: str) -> Object | None: ...
