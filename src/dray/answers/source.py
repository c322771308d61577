"""Source: where answers read a cluster, be it an API server or a snapshot that answers like one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from dray.client.api import ApiClient

Tell = Callable[[str], None]
"""Is told in one line what an answer leaves out: an object or a plugin that cannot be used."""


class Source(Protocol):
    @property
    def client(self) -> ApiClient: ...

    @property
    def namespace(self) -> str:
        """The namespace of names that come without one."""

    @property
    def now(self) -> Callable[[], float]:
        """Gives the time in seconds since 1970; with a snapshot, that at which it was taken."""
