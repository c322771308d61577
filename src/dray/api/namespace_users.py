"""The label that names the user to whom a namespace belongs; `dray user add` sets it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from dray.api.objects import labels_of

USER_LABEL: Final = "dray.dev/user"


def user_of(namespace: Mapping[str, Any]) -> str:
    """Returns the user of the namespace; empty if it belongs to nobody."""
    return labels_of(namespace).get(USER_LABEL, "")
