"""Health of the API server as its clients see it: one line in the log when it stops answering, one when it is back.

Any answer counts, a part of a watch too, so one broken connection among working ones is no outage; 502, 503 and 504 of
a gateway do not count. An outage begins when the failed request began to wait for its answer. A server that has never
answered is reported at its first failure, so that the log shows what the process waits for.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from time import monotonic
from typing import Final

# A server that restarts, or a connection that is reopened, is back by then.
_PATIENCE: Final = 3.0
_GATEWAY: Final = {502: "Bad Gateway", 503: "Service Unavailable", 504: "Gateway Timeout"}
_logger = logging.getLogger("dray.client")


class ServerHealth:
    """Health of one server, shared by all transports of a process."""

    def __init__(self, server: str, *, patience: float = _PATIENCE, clock: Callable[[], float] = monotonic) -> None:
        self._server = server
        self._patience = patience
        self._clock = clock
        self._answered = clock()
        self._has_answered = False
        self._since: float | None = None
        """Time of the first failure of an outage; None without one."""
        self._cause = ""
        self._reported = False

    @property
    def trouble(self) -> str:
        """Returns a message about an outage; empty if there is none."""
        if not self._reported or self._since is None:
            return ""
        return f"{self._server} has not answered for {self._clock() - self._since:.0f} s: {self._cause}"

    def heard(self, status: int = 200) -> None:
        if status in _GATEWAY:
            self.failed(f"{status} {_GATEWAY[status]}")
            return
        self._answered = self._clock()
        self._has_answered = True
        if self._since is not None:
            self._back()

    def failed(self, cause: str, silence: float = 0) -> None:
        """Records a failed request; `silence` is how long it waited for an answer."""
        now = self._clock()
        if self._since is None:
            self._since = max(self._answered, now - silence)
        self._cause = cause
        patience = self._patience if self._has_answered else 0
        if not self._reported and now - self._since >= patience:
            self._reported = True
            _logger.warning("%s does not answer: %s", self._server, cause)

    def _back(self) -> None:
        assert self._since is not None
        if self._reported:
            _logger.warning("%s answers again, after %.0f s", self._server, self._answered - self._since)
        self._since, self._reported = None, False
