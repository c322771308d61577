"""The policies by name."""

from __future__ import annotations

from dray.allocation import POLICIES, Policy
from dray.answers.errors import InvalidInput
from dray.api.suggestions import suggestion


def policy_of(name: str) -> Policy:
    """Raises InvalidInput for a name that no policy has."""
    if name not in POLICIES:
        raise InvalidInput([f"policy {name} not found; {suggestion(name, POLICIES)}"])
    return POLICIES[name]
