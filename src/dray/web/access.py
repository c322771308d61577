"""Who views the page: the seam between the page and whatever checks credentials.

`dray up` checks tokens and certificates with the API server that the page is part of. `dray ui` serves one user, whose
kubeconfig it was started with; nobody else can sign in, and only with a code.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from dray.client.api import ApiClient

Scope = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Identity:
    """A user who has shown a credential."""

    name: str
    key: str
    """Equal for viewers with the same rights: name, uid and groups of the user."""
    client: ApiClient
    """Acts as this user."""
    is_valid: Callable[[], bool]
    """Whether the credential is still good: it may expire or be revoked."""


class Access(Protocol):
    def identify(self, scope: Scope, token: str) -> Identity | None:
        """Returns the user of a bearer token; without one, the user that the connection itself stands for.

        Returns None if there is no such user.
        """
        ...


class CodesOnly:
    """Access by sign-in codes alone."""

    def identify(self, scope: Scope, token: str) -> Identity | None:
        return None
