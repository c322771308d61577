"""Finds an allocation policy by its name."""

from __future__ import annotations

from dray.allocation import POLICIES, Policy
from dray.answers.errors import InvalidInput
from dray.api.suggestions import suggestion


def policy_of(name: str) -> Policy:
    """Returns the policy of this name. Raises InvalidInput if there is none."""
    if name not in POLICIES:
        raise InvalidInput([f"policy {name} not found; {suggestion(name, POLICIES)}"])
    return POLICIES[name]
