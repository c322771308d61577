"""Fields that a server dropped from what was written: without an error, because their feature gate is off."""

from __future__ import annotations

from typing import Any

from dray.client.errors import ClientError


class NotKept(ClientError):
    """Raised if the server dropped `field`, which was written."""

    def __init__(self, field: str) -> None:
        super().__init__(
            f"the API server does not keep {field}: the feature is off there; switch it off here by --feature-gates"
        )
        self.field = field


def dropped(written: Any, kept: Any, path: str = "") -> str:
    """Returns the path of the first written member that was not kept; empty if all were. Changed values are ignored."""
    if written == kept:
        return ""
    if isinstance(written, dict):
        for name, value in written.items():
            if value in (None, "", [], {}):
                continue
            where = f"{path}.{name}" if path else name
            if not isinstance(kept, dict) or name not in kept:
                return where
            if found := dropped(value, kept[name], where):
                return found
    elif isinstance(written, list):
        for number, value in enumerate(written):
            if not isinstance(kept, list) or number >= len(kept):
                return f"{path}[{number}]"
            if found := dropped(value, kept[number], f"{path}[{number}]"):
                return found
    return ""
