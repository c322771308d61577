"""Source: the interface through which answers read a cluster; an API server and a snapshot implement it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from dray.client.api import ApiClient

Tell = Callable[[str], None]
"""Gets a line about an object or plugin that an answer leaves out, because it cannot be used."""


class Source(Protocol):
    """A client of a cluster, with a default namespace and a clock."""

    @property
    def client(self) -> ApiClient: ...

    @property
    def namespace(self) -> str:
        """The namespace of names without a namespace."""

    @property
    def now(self) -> Callable[[], float]:
        """Returns the time in seconds since 1970; for a snapshot, the time at which it was taken."""
