"""First contact with an API server: a component that starts waits until the server answers and lets it in.

A server that is down, or that refuses, is asked again and again: in its first seconds kube-apiserver refuses everybody,
since it has not read its roles yet. The log says once that the server refuses, and once that it does no longer.
`ServerHealth` says the same of a server that does not answer. A kubeconfig that cannot be used is not retried.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import Final

from dray.client.errors import ApiError, ClientError, ConfigError, ConnectionFailed
from dray.client.log_throttling import ThrottledLog, cause_of
from dray.client.retries import Backoff, Retries

Question = Callable[[], Awaitable[object]]
_RETRIES: Final = Retries(backoff=Backoff(first=0.5, longest=5.0))
_logger = logging.getLogger("dray.client")


class FirstContact:
    def __init__(self, server: str, *, retries: Retries = _RETRIES) -> None:
        self._server = server
        self._retries = retries
        self._throttled = ThrottledLog(_logger)
        self.trouble = ""
        """Why the server has not let the component in yet; empty if it has."""

    async def reach(self, *questions: Question) -> None:
        """Returns when all questions are answered. Raises ConfigError, and errors that are no client errors."""
        began, refused = monotonic(), False
        for question in questions:
            failures = 0
            while (error := await self._attempt(question)) is not None:
                failures += 1
                refused = self._report(error) or refused
                await self._retries.pause(failures, error.retry_after if isinstance(error, ApiError) else 0)
        self.trouble = ""
        if refused:
            _logger.warning("%s allows the requests now, after %.0f s", self._server, monotonic() - began)

    async def _attempt(self, question: Question) -> ClientError | None:
        try:
            await question()
        except ConfigError:
            raise
        except ClientError as error:
            return error
        return None

    def _report(self, error: ClientError) -> bool:
        """Logs a refusal. Returns True if the error is one."""
        if isinstance(error, ConnectionFailed):
            self.trouble = f"{self._server} does not answer: {error.cause}"
            return False
        self.trouble = f"{self._server} refuses: {error}"
        self._throttled.warning(
            cause_of(error), "%s refuses: %s; retrying until it allows the request", self._server, error
        )
        return True
