"""Errors of a client.

`ApiError` is an answer: the server refused the request. All others mean that there was no answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

# What a server means that answers without a Status document.
_REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    409: "Conflict",
    410: "Expired",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}
_EXCERPT = 500


class ClientError(Exception):
    """Anything a client raises."""


class ConfigError(ClientError):
    """The kubeconfig, the service account or the address cannot be used."""


class ConnectionFailed(ClientError):
    """No answer came. `sent` tells whether the server may have seen it, `cause` why, without naming the request."""

    def __init__(self, message: str, *, sent: bool, cause: str = "") -> None:
        super().__init__(message)
        self.sent = sent
        self.cause = cause or message


class Garbled(ClientError):
    """The answer is not what an API server sends."""


class ApiError(ClientError):
    """The server's refusal, as its Status document puts it; the most frequent ones have a class of their own."""

    def __new__(cls, status: int, reason: str, *_: Any, **__: Any) -> ApiError:
        if status == 409:
            cls = AlreadyExists if reason == "AlreadyExists" else Conflict
        return super().__new__(NotFound if status == 404 else cls)

    def __init__(
        self, status: int, reason: str, message: str, details: Mapping[str, Any] | None = None, retry_after: float = 0
    ) -> None:
        super().__init__(message or reason or f"status {status}")
        self.status = status
        self.reason = reason
        self.message = message
        self.details = details or {}
        self.retry_after = retry_after
        """Seconds the server asks to wait; 0 if it does not say."""

    @classmethod
    def from_status(cls, document: Mapping[str, Any], status: int = 500, retry_after: float = 0) -> ApiError:
        code = document.get("code")
        status = code if isinstance(code, int) and code else status
        details = document.get("details")
        details = details if isinstance(details, dict) else {}
        wait = details.get("retryAfterSeconds")
        return cls(
            status,
            str(document.get("reason") or _REASONS.get(status, "")),
            str(document.get("message") or ""),
            details,
            retry_after or (wait if isinstance(wait, int) else 0),
        )

    @classmethod
    def from_answer(cls, status: int, body: bytes, retry_after: float = 0) -> ApiError:
        try:
            document = msgspec.json.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError):
            document = None
        if isinstance(document, dict) and document.get("kind") == "Status":
            return cls.from_status(document, status, retry_after)
        text = body[:_EXCERPT].decode(errors="replace").strip()
        return cls(
            status, _REASONS.get(status, ""), text or f"the server answered with status {status}", {}, retry_after
        )

    @property
    def is_gone(self) -> bool:
        """The resource version or the continue token is too old: list again."""
        return self.status == 410

    @property
    def is_ahead(self) -> bool:
        """The server has not come to the resource version yet, and may never, if it lost its data: list again."""
        return any(reason == "ResourceVersionTooLarge" for _, reason, _ in self.causes)

    @property
    def is_invalid(self) -> bool:
        return self.status == 422

    @property
    def is_forbidden(self) -> bool:
        return self.status == 403

    @property
    def is_namespace_ending(self) -> bool:
        """Nothing is created in it any more."""
        return self.status == 403 and any(reason == "NamespaceTerminating" for _, reason, _ in self.causes)

    @property
    def is_too_many_requests(self) -> bool:
        return self.status == 429

    @property
    def is_server_fault(self) -> bool:
        return self.status >= 500 and self.status != 501

    @property
    def causes(self) -> list[tuple[str, str, str]]:
        """(field, reason, message) of everything that was wrong with an object."""
        causes = self.details.get("causes")
        named = [cause for cause in causes if isinstance(cause, dict)] if isinstance(causes, list) else []
        return [
            (str(each.get("field", "")), str(each.get("reason", "")), str(each.get("message", ""))) for each in named
        ]


class NotFound(ApiError):
    """There is no such object, or no such resource."""


class Conflict(ApiError):
    """The object is not at the version that was to be changed, or field managers disagree."""


class AlreadyExists(ApiError):
    """There is an object of that name."""
